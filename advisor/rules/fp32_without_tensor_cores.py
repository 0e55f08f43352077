"""Matrix products run on the FP32 pipe of a GPU that has tensor cores.

While busy: FP32 pipe 0.66 and tensor 0.033 in fp32 training; 0.02 and 0.42 in bf16. Either alone misleads (a little tensor work
remains in fp32 training), their ratio does not: 20 against 0.05 to 0.25 in healthy jobs, 1.9 where two jobs share a card.

A profile tells by the kernels' names, on cards and in containers too where the driver's counters are closed. Then the gain follows
from their part of the time (Amdahl), with the factors that were measured for all of it.
"""

import polars as pl

from advisor.rule import Expect, Need, Rule, Says, Show, Step, Threshold, param
from advisor.started import DEEPSPEED, MAY_BE_HUGGING_FACE, MEGATRON, OWN_LOOP
from advisor.text import _

c = pl.col

_missed = c.profile_fp32_missed_share
# the counters see the whole job, a profile a few steps: where they show tensor cores at work, or hardly any work, it opens nothing
_REFUTED = ((c.tensor_active_when_busy >= 0.1) | (c.busy < 0.1) | (c.fp32_active_when_busy < 0.02)).fill_null(False)
_PROFILED = (_missed >= param("profile_fp32_missed_share_opens")).fill_null(False) & ~_REFUTED
_of_time = _missed * c.busy.clip(0, 1)
_COUNTED = (
    (c.share_compute >= param("share_compute_opens"))
    & (c.fp32_active_when_busy >= param("fp32_active_when_busy_opens"))
    & (c.fp32_active_when_busy >= param("fp32_over_tensor_opens") * c.tensor_active_when_busy)
).fill_null(False)

RULE = Rule(
    id="fp32-without-tensor-cores",
    scope="job",
    severity="warn",
    bottleneck="compute",
    needs=(
        Need(("busy", "fp32_active", "tensor_active", "dram_active")),
        Need(("busy", "profile_fp32_missed_share"), "medium", clears=_missed < param("profile_fp32_missed_share_clears")),
    ),
    thresholds=(
        Threshold("share_compute_opens", 0.3, "ratio", 0.0, 1.0),
        Threshold("fp32_active_when_busy_opens", 0.2, "ratio", 0.0, 1.0),
        Threshold("fp32_active_when_busy_clears", 0.12, "ratio", 0.0, 1.0),
        Threshold("fp32_over_tensor_opens", 6.0, "times", 1.0, 100.0),
        Threshold("fp32_over_tensor_clears", 3.0, "times", 1.0, 100.0),
        Threshold("profile_fp32_missed_share_opens", 0.30, "ratio", 0.0, 1.0),
        Threshold("profile_fp32_missed_share_clears", 0.20, "ratio", 0.0, 1.0),
    ),
    opens=_COUNTED | _PROFILED,
    clears=(
        (c.fp32_active_when_busy < param("fp32_active_when_busy_clears"))
        | (c.fp32_active_when_busy < param("fp32_over_tensor_clears") * c.tensor_active_when_busy)
    )
    & (_missed < param("profile_fp32_missed_share_clears")).fill_null(True),
    confirmed=_PROFILED,
    unless=(c.fp64_active_when_busy >= 0.1)
    | (c.dram_active_when_busy >= 0.6)
    | (c.tenants >= 2)
    | (c.compute_capability.str.split(".").list.first().cast(pl.Int32, strict=False) < 7),
    title=_("FP32 arithmetic on a GPU with tensor cores"),
    summary=_(
        "While it worked, the FP32 pipe was active {fp32_active_when_busy:.0%} of the time and the tensor cores"
        " {tensor_active_when_busy:.1%}: matrix products run at a fraction of what the card can do."
    ),
    cases=(
        Says(
            _PROFILED & ~_COUNTED,
            _(
                "In a profile of this job, matrix kernels in FP32 without tensor cores took {profile_fp32_missed_share:.0%} of all kernel"
                " time: they run at a fraction of what the card can do."
            ),
        ),
    ),
    evidence=(
        Show("fp32_active_when_busy", "ratio", ">=", "fp32_active_when_busy_opens"),
        Show("tensor_active_when_busy", "ratio"),
        Show("sm_active", "ratio"),
        Show("dram_active_when_busy", "ratio", "<", 0.6),
        Show("share_compute", "ratio", ">=", "share_compute_opens"),
        Show("profile_fp32_missed_share", "ratio", ">=", "profile_fp32_missed_share_opens"),
        Show("profile_tensor_missed_share", "ratio"),
    ),
    change=(
        Step("diff", '+ torch.set_float32_matmul_precision("high")  # TF32, Ampere and newer: one line'),
        Step(
            "diff",
            '- loss = model(x)\n+ with torch.autocast("cuda", dtype=torch.bfloat16):  # Ampere and newer, no scaler needed\n+     loss = model(x)',
            when=OWN_LOOP,
        ),
        Step("flag", "--bf16 True --tf32 True  # Hugging Face Trainer", when=MAY_BE_HUGGING_FACE),
        Step("config", '{{"bf16": {{"enabled": true}}}}  # DeepSpeed', when=DEEPSPEED),
        Step("flag", "--bf16  # Megatron-LM", when=MEGATRON),
    ),
    gain=Expect(
        pl.when(_PROFILED).then(1 / (1 - _of_time * (1 - 1 / 3.4))).otherwise(1.5),
        pl.when(_PROFILED).then(1 / (1 - _of_time * (1 - 1 / 8.0))).otherwise(8.0),
        _(
            "Measured on another job, a 735M-parameter transformer: TF32 3.4 times (10.7 to 36.0 k tokens/s), bf16 autocast 8.0 times (85.1 k)."
        ),
    ),
    risk=_("Lower precision can drift: keep losses and norms in FP32 (autocast does) and check evaluation."),
    rollback=_("Remove the line or the context."),
    verify=_(
        "Tensor activity rises above 0.1, FP32 activity halves, samples per second rise by 30 %; the loss stays in its band for 1,000 steps."
    ),
    sources=("docs.pytorch.org/docs/stable/amp.html", "recordings fp32_train and bf16_train"),
)
