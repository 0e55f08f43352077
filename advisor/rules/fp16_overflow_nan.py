"""FP16 training overflows: the loss is NaN or infinite, or the loss scale keeps falling.

FP16 ends at 65,504; what exceeds it becomes infinite and the scaler skips the step. One to three skipped steps at the start are how a
dynamic scale finds its value, so the first 200 steps say nothing. After that a healthy scale is halved less than once in 1,000 steps
(growth_interval is 2,000); five in 1,000 is a scale that finds no value, and below 1 gradients vanish instead. A NaN in BF16 or FP32 has
other causes (data, learning rate): loss-anomaly. That a scale is reported says that a GradScaler is there.
"""

import polars as pl

from advisor.rule import Expect, Need, Rule, Says, Show, Step, Threshold, param
from advisor.text import _

c = pl.col

# a scale that stands at 1 is that of a scaler which is switched off
_FP16 = (
    (c.dtype == "fp16")
    | c.told_scaler.fill_null(False)
    | (c.loss_scale.is_not_null() & (c.loss_scale != 1))
    | (c.loss_scale_halvings >= 1)
)
_SCALED = (c.sm < 80) | c.sm.is_null()
_HALVED = c.loss_scale_halvings / pl.max_horizontal(c.steps / 1000, pl.lit(1.0))  # in 1,000 steps; of fewer, in those there are
_BAD = (c.loss_not_finite_new >= 1).fill_null(False)
_LOST = ((c.loss_not_finite_new.fill_null(0) + c.loss_scale_halvings.fill_null(0)) / c.steps).clip(0, 0.9).fill_null(0)

RULE = Rule(
    id="fp16-overflow-nan",
    scope="job",
    severity="critical",
    bottleneck=None,
    needs=(
        Need(("loss_not_finite_new", "loss_scale")),
        Need(("loss_not_finite_new", "dtype")),
        Need(("loss_not_finite_new", "told_scaler")),
        Need(("loss_scale",)),
    ),
    thresholds=(
        Threshold("halvings_opens", 5.0, "number", 1.0, 1000.0),
        Threshold("halvings_clears", 2.0, "number", 0.0, 1000.0),
        Threshold("loss_scale_opens", 1.0, "number", 0.0, 65536.0),
        Threshold("loss_scale_clears", 4.0, "number", 0.0, 65536.0),
    ),
    opens=_FP16
    & (
        _BAD | (param("halvings_opens") <= _HALVED).fill_null(False) | (c.loss_scale < param("loss_scale_opens")).fill_null(False)
    ),
    clears=~_BAD
    & (param("halvings_clears") > _HALVED).fill_null(True)
    & (c.loss_scale >= param("loss_scale_clears")).fill_null(True),
    unless=(c.steps_total < 200) | c.dtype.is_in(("bf16", "fp32", "tf32")),
    title=_("FP16 training overflows"),
    summary=_(
        "The loss scale was halved {loss_scale_halvings:.0f} times in {steps:.0f} steps and stands at {loss_scale:g}: gradients overflow"
        " FP16, and each time a step is thrown away."
    ),
    cases=(
        Says(
            _BAD & c.loss_scale.is_not_null(),
            _(
                "In {loss_not_finite_new:.0f} of {steps:.0f} steps the loss was NaN or infinite; the loss scale stands at {loss_scale:g}:"
                " values exceed what FP16 can hold (65,504)."
            ),
        ),
        Says(
            _BAD,
            _(
                "In {loss_not_finite_new:.0f} of {steps:.0f} steps the loss was NaN or infinite: values exceed what FP16 can hold (65,504)."
            ),
        ),
    ),
    evidence=(
        Show("loss_not_finite_new", "steps"),
        Show("loss_scale_halvings", "number"),
        Show("loss_scale", "number"),
        Show("grad_norm", "number"),
        Show("loss_not_finite_total", "steps"),
        Show("steps", "steps"),
        Show("steps_total", "steps"),
    ),
    change=(
        Step(
            "diff",
            '- with torch.autocast("cuda", dtype=torch.float16):\n'
            '+ with torch.autocast("cuda", dtype=torch.bfloat16):  # and delete the GradScaler: BF16 has the range of FP32\n'
            "      loss = model(x)\n"
            "- scaler.scale(loss).backward(); scaler.step(opt); scaler.update()\n"
            "+ loss.backward(); opt.step()",
            when=(c.sm >= 80) & (c.launcher.is_null() | c.launcher.is_in(("torchrun", "accelerate"))),
        ),
        Step(
            "config",
            '{{"fp16": {{"enabled": false}}, "bf16": {{"enabled": true}}}}  # DeepSpeed',
            when=(c.sm >= 80) & (c.launcher == "deepspeed"),
        ),
        Step("flag", "--bf16  # Megatron-LM, instead of --fp16", when=(c.sm >= 80) & (c.launcher == "megatron")),
        Step(
            "diff",
            '- scaler = torch.amp.GradScaler("cuda")\n'
            '+ scaler = torch.amp.GradScaler("cuda", init_scale=2.0**12, growth_interval=2000)  # lower, not higher',
            when=_SCALED,
        ),
        Step(
            "diff",
            "+ scaler.unscale_(opt); torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # before scaler.step",
            when=_SCALED,
        ),
        Step(
            "diff",
            "+ torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # before opt.step; BF16 has no scaler",
            when=~_SCALED,
        ),
        Step(
            "diff",
            '+ with torch.autocast("cuda", enabled=False):  # the layer that overflows stays in FP32\n+     y = layer(x.float())',
        ),
    ),
    gain=Expect(
        1.0,
        1 / (1 - _LOST),
        _("Steps that are thrown away come back, {steps:.0f} were taken in the window; BF16 runs at the speed of FP16."),
    ),
    risk=_("BF16 keeps 8 bits of precision, enough for training; compare the evaluation with an earlier run's."),
    rollback=_("Set the former number format and resume from a checkpoint of before the first bad step."),
    verify=_("No loss is NaN or infinite for 2,000 steps, and fewer than one step in 1,000 is skipped."),
    sources=("docs.pytorch.org/docs/stable/amp.html", "docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-clipping"),
)
