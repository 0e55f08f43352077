"""States or weights live in host memory, and the GPU waits for the CPU or for PCIe each step.

The script or a flag says that it offloads; the SMs are active less than half of the time, and either the link is busy while the GPU is not
(half of its rate) or the CPU works then: 0.7 of the cores that the job may use, or of the node's. An engine that offloads its KV cache does so
by design. Where neither sharding nor a lighter optimizer nor the card itself holds the states, only DeepSpeed has a faster offload to name.
"""

import polars as pl

from advisor.planners.training_memory import USABLE
from advisor.room import GPU_MEMORY
from advisor.rule import Expect, Need, Rule, Says, Show, Step, Terms, Threshold, param
from advisor.text import _

c = pl.col

_LINK = c.copy_rate_share >= param("copy_rate_share_opens")
_CPU = (c.cpu_busy_share >= param("cpu_share_opens")) | (c.cpu_cores_total_used >= param("cpu_share_opens") * c.cores_allowed)
_ROOM = USABLE * c.mem_total_bytes
_FITS = c.planned_bytes <= _ROOM
_SHARDED = (c.zero3_planned_bytes <= _ROOM) & (c.data_parallel >= 2) & ~_FITS
_LEAN = (c.lean_planned_bytes <= _ROOM) & ~_FITS
_NOTHING = ((c.planned_bytes > _ROOM) & (c.zero3_planned_bytes > _ROOM) & (c.lean_planned_bytes > _ROOM)).fill_null(False)

_ZENFLOW = (c.launcher == "deepspeed") & ~(_FITS | _LEAN | _SHARDED).fill_null(False)

RULE = Rule(
    id="cpu-offload-stall",
    scope="job",
    severity="warn",
    bottleneck=None,
    needs=(
        Need(("offload", "sm_active", "copy_rate_share", "cpu_busy_share"), "medium"),
        Need(("offload", "sm_active", "copy_rate_share"), "medium"),
        Need(("offload", "sm_active", "cpu_busy_share"), "medium"),
    ),
    thresholds=(
        Threshold("sm_active_opens", 0.5, "ratio", 0.0, 1.0),
        Threshold("sm_active_clears", 0.65, "ratio", 0.0, 1.0),
        Threshold("copy_rate_share_opens", 0.5, "ratio", 0.0, 1.0),
        Threshold("cpu_share_opens", 0.7, "ratio", 0.0, 1.0),
    ),
    opens=c.offload & (c.sm_active < param("sm_active_opens")) & (_LINK.fill_null(False) | _CPU.fill_null(False)),
    clears=~c.offload | (c.sm_active >= param("sm_active_clears")),
    unless=c.serves.fill_null(False)
    | c.serving_engine.is_not_null()
    | c.told_kind.is_in(("serve", "eval"))
    | (c.run_s < 600)
    | (c.steps_total < 50)
    | (_NOTHING & (c.launcher != "deepspeed").fill_null(True)),
    yields_to=("pcie-link-degraded",),
    title=_("The GPU waits for states that live in host memory"),
    summary=_(
        "The job offloads to host memory and the SMs are active {sm_active:.0%} of the time; while the GPU waits PCIe runs at"
        " {copy_rate_share:.0%} of the link."
    ),
    cases=(
        Says(
            _FITS,
            _(
                "The job offloads to host memory and the SMs are active {sm_active:.0%} of the time, though by its model it needs"
                " {planned_gib:.0f} GiB of the card's {mem_total_gib:.0f} GiB without offload."
            ),
        ),
        Says(
            ~_LINK.fill_null(False),
            _(
                "The job offloads to host memory and the SMs are active {sm_active:.0%} of the time; meanwhile {cpu_busy_cores:.0f} CPU cores work."
            ),
        ),
    ),
    evidence=(
        Show("sm_active", "ratio", "<", "sm_active_opens"),
        Show("copy_rate_share", "ratio"),
        Show("cpu_busy_share", "ratio"),
        Show("cpu_cores_total_used", "cores"),
        Show("busy", "ratio"),
        Show("planned_bytes", "bytes"),
        Show("zero3_planned_bytes", "bytes"),
        Show("lean_planned_bytes", "bytes"),
        Show("mem_total_bytes", "bytes"),
    ),
    change=(
        Step(
            "diff",
            '  "zero_optimization": {{\n-   "offload_optimizer": {{"device": "cpu"}},',
            when=(_FITS | _LEAN | _SHARDED) & (c.launcher == "deepspeed"),
        ),
        Step(
            "diff",
            "- fully_shard(model, offload_policy=CPUOffloadPolicy())\n+ fully_shard(model)",
            when=(_FITS | _LEAN | _SHARDED) & (c.launcher != "deepspeed").fill_null(True),
        ),
        Step(
            "config",
            "# shard over all {data_parallel:.0f} ranks (ZeRO-3, FSDP): {zero3_planned_gib:.0f} GiB a GPU, which fits",
            when=_SHARDED,
        ),
        Step(
            "diff",
            "- opt = torch.optim.AdamW(params)\n+ opt = bitsandbytes.optim.AdamW8bit(params)  # {lean_planned_gib:.0f} GiB a GPU, which fits",
            when=_LEAN,
        ),
        Step(
            "config",
            '"zero_optimization": {{"offload_optimizer": {{"device": "cpu", "pin_memory": true}},\n'
            '  "zenflow": {{"topk_ratio": 0.05, "select_strategy": "auto", "select_interval": "auto", "update_interval": 4, "overlap_step": true}}}}',
            when=_ZENFLOW,
        ),
        Step(
            "diff",
            "- fully_shard(model, offload_policy=CPUOffloadPolicy())\n+ fully_shard(model)  # with 8-bit Adam where it does not fit",
            when=_FITS.is_null() & (c.launcher != "deepspeed").fill_null(True) & GPU_MEMORY,
        ),
        Step(
            "command", "numactl --cpunodebind=$NODE --membind=$NODE python train.py  # the GPU's NUMA node, by nvidia-smi topo -m"
        ),
    ),
    gain=Expect(
        1.3,
        (1 / c.sm_active.clip(0.2)).clip(1.3, 5.0),
        _(
            "The upper value is 1 / SM activity, 5 at most: so much faster than plain offload ZenFlow's authors saw theirs. Offload that is"
            " not needed can cost more."
        ),
    ),
    risk=_("Without offload the longest batch may not fit."),
    rollback=_("Put the block back."),
    verify=_("SM activity rises by half, a step takes 30 % less time, and the loss stays in its band for 2,000 steps."),
    terms=(
        Terms(
            _ZENFLOW,
            _("ZenFlow applies a part of the update later: compare the loss."),
            _("Put the former block back."),
            _("SM activity rises by half, a step takes 30 % less time, and the loss stays in its band for 2,000 steps."),
        ),
    ),
    sources=("deepspeed.ai: ZenFlow", "docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html"),
)
