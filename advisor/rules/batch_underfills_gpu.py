"""The engine is always at work but few of the GPU's processors are, and no unit is near its peak.

SM activity while busy: 0.135 for tiny layers in a CUDA graph, 0.75 and more for everything that fills the card.

Gain: docs/lab.md. SM activity does not bound it (0.9 over 0.16 is 5.5; measured were 57): an SM with one small tile counts as active. So the
busiest math pipe bounds it, and what fills the SMs, or a tenth of that bound, is the least to expect of a batch doubled until it pays no more.
"""

import polars as pl

from advisor.rule import Expect, Need, Rule, Show, Step, Threshold, param
from advisor.started import DEEPSPEED, MAY_BE_HUGGING_FACE, MEGATRON, OWN_LOOP
from advisor.text import _

c = pl.col

_REACH = 0.85  # of a math pipe: bottleneck.py
_SMS_FILLED = 0.9 / c.sm_active_when_busy.clip(0.05)
_MOST = pl.max_horizontal(_SMS_FILLED.fill_null(2.0), (_REACH / c.math_when_busy.clip(0.005)).fill_null(8.0)).clip(2.0, 64.0)

RULE = Rule(
    id="batch-underfills-gpu",
    scope="job",
    severity="advice",
    bottleneck="underfilled",
    needs=(Need(("busy", "sm_active", "dram_active")), Need(("busy", "power_share"), "low")),
    thresholds=(
        Threshold("share_underfilled_opens", 0.4, "ratio", 0.0, 1.0),
        Threshold("share_underfilled_clears", 0.25, "ratio", 0.0, 1.0),
    ),
    opens=(c.bottleneck == "underfilled") & (c.share_underfilled >= param("share_underfilled_opens")),
    clears=c.share_underfilled < param("share_underfilled_clears"),
    unless=c.mem_used_share_max >= 0.9,
    title=_("The batch is too small to fill the GPU"),
    summary=_(
        "The engine was at work {busy:.0%} of the time, but only {sm_active_when_busy:.0%} of the SMs were, at an occupancy of"
        " {sm_occupancy:.1%}; memory traffic was {dram_active:.0%} of its peak and {mem_used_share:.0%} of the memory was in use."
    ),
    evidence=(
        Show("share_underfilled", "ratio", ">=", "share_underfilled_opens"),
        Show("sm_active_when_busy", "ratio", "<", 0.35),
        Show("sm_occupancy", "ratio"),
        Show("dram_active", "ratio"),
        Show("mem_used_share", "ratio", "<", 0.9),
        Show("power_share", "ratio"),
    ),
    change=(
        Step(
            "diff",
            "- loader = DataLoader(ds, batch_size=B)\n+ loader = DataLoader(ds, batch_size=2 * B)  # repeat while the step time hardly grows",
            when=OWN_LOOP,
        ),
        Step(
            "flag",
            "--per_device_train_batch_size $((2 * B)) --gradient_accumulation_steps $(( (A + 1) / 2 ))  # Hugging Face: B and A as now; for even A the global batch stays",
            when=MAY_BE_HUGGING_FACE,
        ),
        Step("flag", "--micro-batch-size $((2 * B))  # Megatron-LM: B as now, at the same --global-batch-size", when=MEGATRON),
        Step(
            "diff",
            '- "train_micro_batch_size_per_gpu": B, "gradient_accumulation_steps": A\n'
            '+ "train_micro_batch_size_per_gpu": 2 * B, "gradient_accumulation_steps": A / 2  # write the numbers; for even A the global batch stays',
            when=DEEPSPEED,
        ),
        Step("diff", "# many small models or environments: batch them\n+ out = torch.vmap(model)(inputs)"),
    ),
    gain=Expect(
        pl.max_horizontal((0.5 * _SMS_FILLED).fill_null(1.1), 0.1 * _MOST).clip(1.1, None),
        _MOST,
        _(
            "The upper value is a batch doubled until the busiest math pipe is near what it can reach, 64 at most: more work for each SM counts too."
            " The lower one is half of what fills the SMs, or a tenth of the upper one. For comparison, on an H200: 57 times the samples a second"
            " at 128 times the batch."
        ),
    ),
    risk=_("A larger global batch changes optimisation: keep it through accumulation or rescale the learning rate."),
    rollback=_("Set the batch size back."),
    verify=_("Samples per second rise by 8 % over 200 steps and SM activity by 0.1; the validation metric stays in its band."),
    sources=("docs.nvidia.com/datacenter/dcgm: SM activity", "recordings launch_graphed and launch_bound"),
)
