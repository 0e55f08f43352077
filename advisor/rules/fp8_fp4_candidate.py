"""A BF16 transformer keeps the tensor cores so busy that their FP8 rate would show.

Only where matrix products are the limit (tensor activity and MFU of 0.35, memory below 0.6), the products are large (hidden 4,096:
smaller ones lose the gain to the conversion) and the card has FP8: Ada, Hopper, Blackwell. And only where somebody evaluates the model: a
change of precision without an evaluation is what lowprec-quality-gate stops.
"""

import polars as pl

from advisor.room import GPU_MEMORY
from advisor.rule import Expect, Need, Rule, Show, Step, Threshold, param
from advisor.text import _

c = pl.col

_FP8_CARDS = (89, 90, 100, 103, 120)

RULE = Rule(
    id="fp8-fp4-candidate",
    scope="job",
    severity="info",
    bottleneck="compute",
    needs=(Need(("tensor_active", "dram_active", "sm", "dtype", "told_hidden", "mfu", "note_quality_eval_age_s"), "low"),),
    thresholds=(
        Threshold("tensor_active_opens", 0.35, "ratio", 0.0, 1.0),
        Threshold("tensor_active_clears", 0.3, "ratio", 0.0, 1.0),
        Threshold("mfu_opens", 0.35, "ratio", 0.0, 1.0),
        Threshold("mfu_clears", 0.3, "ratio", 0.0, 1.0),
        Threshold("dram_active_opens", 0.6, "ratio", 0.0, 1.0),
        Threshold("dram_active_clears", 0.7, "ratio", 0.0, 1.0),
        Threshold("hidden_least", 4096.0, "number", 512.0, 65536.0),
        Threshold("params_least", 1e9, "number", 1e6, 1e13),
    ),
    opens=c.sm.cast(pl.Int64).is_in(_FP8_CARDS)
    & (c.dtype == "bf16")
    & (c.tensor_active >= param("tensor_active_opens"))
    & (c.dram_active < param("dram_active_opens"))
    & (c.told_hidden >= param("hidden_least"))
    & (c.mfu >= param("mfu_opens")),
    clears=(c.dtype != "bf16")
    | (c.told_hidden < param("hidden_least"))
    | (c.tensor_active < param("tensor_active_clears"))
    | (c.dram_active >= param("dram_active_clears"))
    | (c.mfu < param("mfu_clears")),
    unless=(c.params < param("params_least"))
    | (c.comm_share >= 0.25)
    | (c.share_communication >= 0.25)
    | (c.told_kind != "train")
    | (c.tenants >= 2),
    yields_to=("lowprec-quality-gate", "comm-not-overlapped", "power-cap-limited"),
    title=_("A compute-bound BF16 transformer could use FP8"),
    summary=_(
        "The tensor cores are active {tensor_active:.0%} of the time at an MFU of {mfu:.0%}: matrix products are the limit, and this card"
        " runs them twice as fast in FP8."
    ),
    evidence=(
        Show("tensor_active", "ratio", ">=", "tensor_active_opens"),
        Show("mfu", "ratio", ">=", "mfu_opens"),
        Show("dram_active", "ratio", "<", "dram_active_opens"),
        Show("told_hidden", "number", ">=", "hidden_least"),
        Show("params", "number", ">=", "params_least"),
        Show("share_compute", "ratio"),
        Show("note_quality_eval_age_s", "seconds"),
    ),
    change=(
        Step(
            "diff",
            "+ from torchao.float8 import convert_to_float8_training\n"
            '+ convert_to_float8_training(model, module_filter_fn=lambda m, name: "lm_head" not in name)  # before torch.compile\n'
            "  model = torch.compile(model)",
            when=(c.launcher != "megatron").fill_null(True) & GPU_MEMORY,
        ),
        Step(
            "diff",
            "+ with te.autocast(enabled=True, recipe=recipe.DelayedScaling()):  # Transformer Engine; fp8_autocast is deprecated\n"
            "      loss = model(x)",
            when=(c.launcher != "megatron").fill_null(True),
        ),
        Step("flag", "--fp8-format hybrid  # Megatron-LM", when=c.launcher == "megatron"),
        Step("config", "# FP4 on Blackwell: the published NVFP4 recipe alone, experimental", when=c.sm >= 100),
    ),
    gain=Expect(
        1.1,
        (1 / (1 - 0.25 * c.share_compute)).clip(1.1, 1.5),
        _("An estimate: half of the computing time goes to matrix products that FP8 runs twice as fast."),
    ),
    risk=_("It can converge otherwise: keep the first and the last layers in BF16. Compiling takes longer."),
    rollback=_("Remove the conversion and resume from the last BF16 checkpoint."),
    verify=_(
        "A step takes 8 % less time over 500 steps, the loss stays within 1 % of BF16's for 5,000 steps, and the evaluation passes."
    ),
    sources=(
        "github.com/pytorch/ao: torchao.float8",
        "docs.nvidia.com/deeplearning/transformer-engine",
        "arxiv.org/abs/2509.25149",
    ),
)
