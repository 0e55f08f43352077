"""A service runs in another number format than before, and no evaluation says that it still answers as well.

Speed shows at once, a loss of quality does not. So a change of precision must be followed by an evaluation (one that is older than the
change tells of the former model) whose worst metric falls by 1 % at most. A canary with less than a twentieth of the traffic has a day.
"""

import polars as pl

from advisor.rule import Need, Rule, Says, Show, Step, Threshold, param
from advisor.text import _

c = pl.col

_CHANGED = c.note_precision != c.note_precision_before
_UNCHECKED = c.note_quality_age_s.is_null() | (c.note_quality_age_s > c.note_precision_changed_s)
_WORSE = (c.note_quality_drop > param("quality_drop_opens")).fill_null(False)

RULE = Rule(
    id="lowprec-quality-gate",
    scope="service",
    severity="warn",
    bottleneck=None,
    group="capacity",
    needs=(Need(("note_precision", "note_precision_before", "note_precision_changed_s")),),
    thresholds=(
        Threshold("quality_drop_opens", 0.01, "ratio", 0.0, 1.0),
        Threshold("quality_drop_clears", 0.005, "ratio", 0.0, 1.0),
        Threshold("canary_share_least", 0.05, "ratio", 0.0, 1.0),
        Threshold("canary_s", 86400.0, "seconds", 0.0, 2592000.0),
    ),
    opens=_CHANGED & (_UNCHECKED | _WORSE),
    clears=~_CHANGED | (~_UNCHECKED & (c.note_quality_drop <= param("quality_drop_clears")).fill_null(True)),
    unless=(c.note_canary_share < param("canary_share_least")) & (c.note_precision_changed_s < param("canary_s")),
    title=_("The precision changed without a passing quality check"),
    summary=_("The service went from {note_precision_before} to {note_precision}, and no evaluation is newer than the change."),
    cases=(
        Says(
            ~_UNCHECKED,
            _(
                "The service went from {note_precision_before} to {note_precision}, and its worst metric fell by {note_quality_drop:.1%}."
            ),
        ),
        Says(
            c.note_quality_age_s.is_not_null(),
            _(
                "The service went from {note_precision_before} to {note_precision}, and the last evaluation is older than the change: it"
                " tells of the former model."
            ),
        ),
    ),
    evidence=(
        Show("note_precision_changed_s", "seconds"),
        Show("note_quality_age_s", "seconds"),
        Show("note_quality_drop", "ratio"),
        Show("note_canary_share", "ratio"),
        Show("finished_per_s", "per_second"),
    ),
    change=(
        Step("config", "# promote no further, and evaluate {note_precision} against {note_precision_before} on the same tasks"),
        Step(
            "diff",
            "- oneshot(model, recipe=recipe)\n"
            "+ oneshot(model, dataset=calibration, recipe=QuantizationModifier(scheme=scheme, ignore=['lm_head', 're:.*router.*', 're:.*norm.*']),\n"
            "+         num_calibration_samples=1024, max_seq_length=2048)  # samples as the service sees them",
            when=_WORSE,
        ),
        Step(
            "flag",
            "vllm serve {model} --dtype bfloat16  # without --quantization: up to four times the memory of the weights",
            when=(c.kind == "vllm") & _WORSE,
        ),
        Step(
            "flag",
            "python -m sglang.launch_server --model-path {model} --dtype bfloat16  # without --quantization: up to four times the memory of the weights",
            when=(c.kind == "sglang") & _WORSE,
        ),
        Step("config", "# one format back, FP4 to FP8, FP8 to BF16, until the evaluation passes", when=_WORSE),
        Step("config", "# record metrics, their drop and the calibration set with the deployment"),
    ),
    risk=_("Going back a format costs the speed and the memory that the change won."),
    rollback=_("None is needed: nothing changes but what is served."),
    verify=_("An evaluation newer than the change is recorded, and its worst metric falls by {quality_drop_opens:.1%} at most."),
    sources=("docs.vllm.ai: quantization", "github.com/vllm-project/llm-compressor"),
)
