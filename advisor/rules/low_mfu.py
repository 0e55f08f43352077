"""A model that uses little of the peak of its cards, and of which nothing else says why.

Model FLOP utilisation (PL-3): the operations that the model needs over the dense peak of its cards. A dense transformer of a billion
parameters and more reaches 0.35 to 0.50 on Ampere and Hopper; the fleet's own median of its class is the other measure.

A profile of the job says where the rest of the time goes: then its parts are told instead of the advice to take one.
"""

import polars as pl

from advisor.room import GPU_MEMORY
from advisor.rule import Expect, Need, Rule, Says, Show, Step, Terms, Threshold, param
from advisor.text import _

c = pl.col

_LEAST = (
    pl.when(c.told_class == "moe").then(param("mfu_moe_opens"))
    .when(c.sm >= 100).then(param("mfu_blackwell_opens"))
    .otherwise(param("mfu_dense_opens"))
)  # fmt: skip

_PROFILED = c.profile_idle_share.is_not_null() & c.profile_exposed_comm_share.is_not_null()

_COMPILE = c.told_class.ne_missing("moe") & GPU_MEMORY

RULE = Rule(
    id="low-mfu",
    scope="job",
    severity="advice",
    bottleneck=None,
    needs=(Need(("mfu", "params", "sm"), "medium"),),
    thresholds=(
        Threshold("mfu_dense_opens", 0.30, "ratio", 0.01, 1.0),
        Threshold("mfu_blackwell_opens", 0.25, "ratio", 0.01, 1.0),
        Threshold("mfu_moe_opens", 0.20, "ratio", 0.01, 1.0),
        Threshold("mfu_margin", 0.03, "ratio", 0.0, 0.5),
        Threshold("profile_lost_share_confirms", 0.15, "ratio", 0.0, 1.0),
    ),
    opens=(c.params >= 1e9) & (c.mfu < _LEAST),
    clears=c.mfu >= _LEAST + param("mfu_margin"),
    confirmed=(
        c.profile_idle_share + c.profile_exposed_comm_share + c.profile_tensor_missed_share.fill_null(0.0)
        >= param("profile_lost_share_confirms")
    ),
    unless=(c.told_seq < 512) | c.told_kind.is_in(["eval", "serve", "interactive"]) | (c.told_trainable < 0.5 * c.params),
    yields_to=(
        "hw-slowdown-active",
        "power-cap-limited",
        "clocks-locked-low",
        "thermal-drift-vs-peers",
        "pcie-link-degraded",
        "dataloader-too-few-workers",
        "dataloader-oversubscribed",
        "cpu-preprocessing-bound",
        "storage-throughput-bound",
        "storage-small-files",
        "h2d-unpinned-copy",
        "checkpoint-stall",
        "rank-straggler",
        "comm-not-overlapped",
        "scaling-inefficient",
        "fsdp-oversharded",
        "tp-spans-slow-link",
        "pipeline-bubble-high",
        "nccl-socket-fallback",
        "p2p-disabled",
        "gpudirect-rdma-off",
        "fp32-without-tensor-cores",
        "tensor-shape-misaligned",
        "batch-underfills-gpu",
        "launch-bound-small-kernels",
        "cpu-offload-stall",
        "gpu-co-tenant-contention",
        "cgroup-cpu-throttled",
        "dataparallel-legacy",
        "memory-headroom-unused",
    ),
    title=_("The model uses little of what its cards can do"),
    summary=_(
        "The model's own operations are {mfu:.0%} of the dense {dtype} peak of its {gpus} GPUs; tensor cores are active"
        " {tensor_active:.0%} of the time, memory {dram_active:.0%}."
    ),
    cases=(
        Says(
            _PROFILED & c.profile_top_kernel.is_not_null(),
            _(
                "The model's own operations are {mfu:.0%} of the dense {dtype} peak of its {gpus} GPUs. In a profile of the job they were idle"
                " {profile_idle_share:.0%} of the time and only communicated {profile_exposed_comm_share:.0%}; {profile_top_kernel_share:.0%}"
                " of the kernels' time went to {profile_top_kernel}."
            ),
        ),
    ),
    evidence=(
        Show("mfu", "ratio", "<", "mfu_dense_opens"),
        Show("tokens_per_s", "per_second"),
        Show("tensor_active", "ratio"),
        Show("dram_active", "ratio"),
        Show("share_data", "ratio"),
        Show("share_communication", "ratio"),
        Show("share_launch", "ratio"),
        Show("profile_idle_share", "ratio"),
        Show("profile_launch_gap_share", "ratio"),
        Show("profile_data_wait_share", "ratio"),
        Show("profile_exposed_comm_share", "ratio"),
        Show("profile_tensor_missed_share", "ratio"),
        Show("profile_top_kernel_share", "ratio"),
    ),
    change=(
        Step(
            "diff",
            "+ with torch.profiler.profile(schedule=torch.profiler.schedule(wait=5, warmup=2, active=3, repeat=1),\n"
            '+                             on_trace_ready=lambda p: p.export_chrome_trace("trace.json")) as profiler:\n'
            "      for batch in loader:\n          step(batch)\n+         profiler.step()",
            when=~_PROFILED,
        ),
        Step("command", "fettle profile trace.json  # says which part of a step is not math", when=~_PROFILED),
        Step("diff", "- model = Model()\n+ model = torch.compile(Model())", when=_COMPILE),
        Step(
            "command",
            "fettle profile trace.json  # again: the kernels at its top are what to change",
            when=_PROFILED & ~_COMPILE,
        ),
    ),
    gain=Expect(
        1.05,
        (0.40 / c.mfu).clip(1.1, 4.0),
        _(
            "The upper value reaches an MFU of 0.40; published trainings reach 0.41 (a baseline) to 0.55 (MegaScale, 175 billion parameters)."
        ),
    ),
    risk=_("Profiling costs a few per cent for ten steps; torch.compile needs minutes at the start and again for new shapes."),
    rollback=_("Take the profiler and torch.compile out."),
    verify=_("MFU up by 0.05 over 500 steps."),
    terms=(
        Terms(
            _PROFILED & ~_COMPILE,
            _("Profiling once more costs a few per cent for ten steps."),
            _("Take the profiler out."),
            _("MFU up by 0.05 over 500 steps."),
        ),
        Terms(
            ~_COMPILE,
            _("Profiling costs a few per cent for ten steps."),
            _("Take the profiler out."),
            _("MFU up by 0.05 over 500 steps."),
        ),
        Terms(
            _PROFILED,
            _("torch.compile needs minutes at the start and again for new shapes."),
            _("Take torch.compile out."),
            _("MFU up by 0.05 over 500 steps."),
        ),
    ),
    sources=("arxiv.org/abs/2402.15627 (MegaScale)", "arxiv.org/abs/2204.02311 (PaLM: MFU)", "planner mfu"),
)
