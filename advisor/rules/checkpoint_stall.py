"""The GPU waits while its process writes.

Share of time: 0.90 in a run that saves 9 GB synchronously; 0.05 where torch.compile stores its cache at the end. The process's
own write counter shows it; the host's disk counters need not (page cache, network file systems).

Gain: docs/lab.md (1.70 at a share of 0.31, where each round of 4.5 s had 2.0 s of saving: 0.44).
"""

import polars as pl

from advisor.room import HOST_MEMORY
from advisor.rule import Expect, Need, Rule, Show, Step, Terms, Threshold, param
from advisor.started import ACCELERATE, DEEPSPEED, MEGATRON, OWN_LOOP
from advisor.text import _

c = pl.col

_MARGIN = 1.2
"""Over 1 / (1 - stall). 1.70 times was measured where the stall alone promises 1.46, 1.17 times as much: what a save does before and after
it writes counts as work. At most 12 times in all: a tenth of the time is left."""

RULE = Rule(
    id="checkpoint-stall",
    scope="job",
    severity="warn",
    bottleneck="checkpoint",
    needs=(Need(("busy", "write_bytes_per_s")),),
    thresholds=(
        Threshold("share_checkpoint_opens", 0.12, "ratio", 0.0, 1.0),
        Threshold("share_checkpoint_clears", 0.06, "ratio", 0.0, 1.0),
    ),
    opens=c.share_checkpoint >= param("share_checkpoint_opens"),
    clears=c.share_checkpoint < param("share_checkpoint_clears"),
    title=_("Saving a checkpoint blocks the GPU"),
    summary=_(
        "For {share_checkpoint:.0%} of {window_s:.0f} s the GPU waited while its process wrote, {write_gb_per_s:.2f} GB/s on"
        " average."
    ),
    evidence=(
        Show("share_checkpoint", "ratio", ">=", "share_checkpoint_opens"),
        Show("write_bytes_per_s", "bytes_per_second"),
        Show("pcie_tx_bytes_per_s", "bytes_per_second"),
        Show("disk_write_bytes_per_s", "bytes_per_second"),
        Show("busy", "ratio"),
    ),
    change=(
        Step(
            "diff",
            "- torch.save(state, path)\n+ import torch.distributed.checkpoint as dcp\n"
            "+ saving = dcp.async_save(state, checkpoint_id=path)  # and saving.result() before the next one",
            when=OWN_LOOP & HOST_MEMORY,
        ),
        Step(
            "diff",
            "- if step % N == 0: save()\n+ if step % (10 * N) == 0: save()  # as often as a failure is likely, no more",
            when=OWN_LOOP,
        ),
        Step("flag", "--save_strategy steps --save_steps 1000  # Hugging Face Trainer", when=ACCELERATE),
        Step("flag", "--async-save --use-dist-ckpt  # Megatron-LM", when=MEGATRON & HOST_MEMORY),
        Step(
            "flag",
            "--save-interval N --use-dist-ckpt  # Megatron-LM: as often as a failure is likely, no more",
            when=MEGATRON & ~HOST_MEMORY,
        ),
        Step(
            "config",
            '{{"checkpoint": {{"writer": {{"type": "FAST"}}}}}}  # DeepSpeed; and save as often as a failure is likely',
            when=DEEPSPEED,
        ),
    ),
    gain=Expect(
        1 / (1 - 0.6 * c.share_checkpoint),
        pl.min_horizontal(
            1 / (1 - 1.4 * c.share_checkpoint).clip(0.05, None), _MARGIN / (1 - c.share_checkpoint).clip(0.1, None)
        ),
        _(
            "From 60 % of the stall gone to all of it, the stall taken up to 1.4 times as long as was seen, 1.2 / (1 - stall) and 12 times at most: a window holds"
            " few saves, and each begins with copies and ends with waiting that are not writing. For comparison, on an H200: 1.70 times the speed at 31 % of stall."
        ),
    ),
    risk=_("Staging takes host memory for the whole state; keep the previous checkpoint until the new one is complete."),
    rollback=_("Save synchronously, and as often as before."),
    verify=_("The stall is below 0.5 % of the time over five saves, and a test load of the checkpoint succeeds."),
    terms=(
        Terms(
            DEEPSPEED | ~HOST_MEMORY,
            _("With fewer saves a failure loses more work: the planner checkpoint-interval says how many pay."),
            _("Save as often as before."),
            _("The stall is below 5 % of the time over five saves."),
        ),
    ),
    sources=("docs.pytorch.org/docs/stable/distributed.checkpoint.html", "recording ckpt_stall"),
)
