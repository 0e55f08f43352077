"""At the end of each epoch the data loader's workers are torn down and made anew while the GPU waits.

Gaps count where the workers' pids changed, twice or more in the window; a gap is one of ten seconds and of five steps at
least, less the time of a save, which may fall on the same boundary. Below 2 % of the time nobody gains from the change.
"""

import polars as pl

from advisor.rule import Expect, Need, Rule, Show, Step, Threshold, param
from advisor.started import ACCELERATE, MAY_BE_HUGGING_FACE
from advisor.text import _

c = pl.col

# no gap is told where no workers were replaced; that workers are counted says that somebody looked
_GAP = c.epoch_gap_s.fill_null(0) - c.checkpoint_save_s.fill_null(0)

RULE = Rule(
    id="epoch-boundary-stall",
    scope="job",
    severity="advice",
    bottleneck="data",
    needs=(Need(("step_time_s", "dataloader_workers")),),
    thresholds=(
        Threshold("epoch_gap_opens_s", 10.0, "seconds", 1.0, 3600.0),
        Threshold("epoch_gap_clears_s", 6.0, "seconds", 0.5, 3600.0),
        Threshold("step_gap_share_opens", 0.02, "ratio", 0.0, 1.0),
        Threshold("step_gap_share_clears", 0.01, "ratio", 0.0, 1.0),
    ),
    opens=(param("epoch_gap_opens_s") <= _GAP)
    & (5 * c.step_time_s <= _GAP)
    & (c.step_gap_share >= param("step_gap_share_opens")),
    clears=(param("epoch_gap_clears_s") > _GAP)
    | (3 * c.step_time_s > _GAP)
    | (c.step_gap_share < param("step_gap_share_clears")),
    unless=pl.coalesce(c.told_phase, c.note_phase) == "eval",
    title=_("The data loader's workers are rebuilt at every epoch"),
    summary=_(
        "At the end of each epoch the workers are replaced and no step runs for {epoch_gap_s:.0f} s: {step_gap_share:.1%} of the time."
    ),
    evidence=(
        Show("epoch_gap_s", "seconds", ">=", "epoch_gap_opens_s"),
        Show("step_gap_share", "ratio", ">=", "step_gap_share_opens"),
        Show("step_time_s", "seconds"),
        Show("checkpoint_save_s", "seconds"),
        Show("dataloader_workers", "processes"),
    ),
    change=(
        Step(
            "diff",
            "- loader = DataLoader(ds, num_workers=W)\n+ loader = DataLoader(ds, num_workers=W, persistent_workers=True)",
            when=~ACCELERATE,
        ),
        Step(
            "diff",
            "- self.files = sorted(Path(root).rglob('*.jpg'))  # in each worker, each epoch\n"
            "+ self.files = np.load('files.npy', mmap_mode='r')  # listed once, shared by all workers",
        ),
        Step("flag", "--dataloader_persistent_workers True  # Hugging Face Trainer", when=MAY_BE_HUGGING_FACE),
    ),
    gain=Expect(
        1 / (1 - 0.5 * c.step_gap_share),
        1 / (1 - c.step_gap_share.clip(0, 0.9)),
        _("The upper value is 1 / (1 - share of the time lost in these gaps), 10 at most; the lower one brings back half of it."),
    ),
    risk=_(
        "Workers keep their random state and caches over epochs: call sampler.set_epoch(epoch), and keep no growing cache in the dataset."
    ),
    rollback=_("Remove persistent_workers."),
    verify=_("The next two boundaries take less than three steps and an epoch is shorter by the share above."),
    sources=("docs.pytorch.org/docs/stable/data.html",),
)
