"""The engine idles between kernels while the host is busy launching the next ones.

Idle time counts only where the process's busiest thread worked in it and nothing else explains it (bottleneck.py): 0.76 for
60 tiny layers launched one by one, 0.52 for a small transformer; healthy jobs 0.09 and less. `gpu_util_pct` is no evidence
either way: 23 on the launch-bound program, 100 on the same program as a CUDA graph.

Gain: docs/lab.md (a graph and fused AdamW, 6.81 times; the range ended at 4.2 before) and the recordings (4.18).

A profile that shows the GPU idle while the host launched small kernels confirms it. Alone it opens nothing: a profiler slows
launches itself.
"""

import polars as pl

from advisor.room import GPU_MEMORY
from advisor.rule import Expect, Need, Rule, Says, Show, Step, Terms, Threshold, param
from advisor.started import VLLM
from advisor.text import _

c = pl.col

_PROCESS = ("main_cores", "children", "children_cores")
_SMALL_S = 100e-6
"""Longer kernels hide the launch of the next one."""

_HALF = 1 / (1 - 0.5 * c.share_launch)

RULE = Rule(
    id="launch-bound-small-kernels",
    scope="job",
    severity="advice",
    bottleneck="launch",
    needs=(
        Need(("busy", *_PROCESS, "sm_active")),
        Need(("busy", *_PROCESS), "medium"),
        Need(("busy",), "low"),
    ),
    thresholds=(
        Threshold("share_launch_opens", 0.35, "ratio", 0.0, 1.0),
        Threshold("share_launch_clears", 0.22, "ratio", 0.0, 1.0),
        Threshold("profile_launch_gap_share_confirms", 0.10, "ratio", 0.0, 1.0),
    ),
    opens=(c.share_launch >= param("share_launch_opens")) & (c.bottleneck == "launch"),
    clears=c.share_launch < param("share_launch_clears"),
    confirmed=(c.profile_launch_gap_share >= param("profile_launch_gap_share_confirms")) & (c.profile_kernel_p50_s < _SMALL_S),
    yields_to=("gpu-co-tenant-contention",),
    title=_("The GPU waits for the CPU to launch small kernels"),
    summary=_(
        "The compute engine had work {busy:.0%} of the time; for {share_launch:.0%} it waited while the main process"
        " ({main_cores:.2f} cores) prepared the next kernels."
    ),
    cases=(
        Says(
            c.main_cores.is_null(),
            _(
                "The compute engine had work {busy:.0%} of the time; for {share_launch:.0%} it waited between kernels. What"
                " its process did then was not measured."
            ),
        ),
    ),
    evidence=(
        Show("share_launch", "ratio", ">=", "share_launch_opens"),
        Show("busy", "ratio"),
        Show("main_cores", "cores"),
        Show("sm_active", "ratio"),
        Show("tensor_active", "ratio"),
        Show("gpu_util_pct", "percent"),
        Show("power_share", "ratio"),
        Show("profile_launch_gap_share", "ratio", ">=", "profile_launch_gap_share_confirms"),
        Show("profile_kernel_p50_s", "seconds", "<", _SMALL_S),
        Show("profile_sync_wait_share", "ratio"),
    ),
    change=(
        Step(
            "diff",
            '+ model = torch.compile(model, mode="reduce-overhead")  # CUDA graphs; needs static shapes, and memory of their own',
            when=GPU_MEMORY,
        ),
        Step(
            "config",
            "# make room first: {mem_used_share_max:.0%} of the GPU's memory is in use; then CUDA graphs by torch.compile are worth a try",
            when=~GPU_MEMORY,
        ),
        Step("diff", "- opt = torch.optim.AdamW(params)\n+ opt = torch.optim.AdamW(params, fused=True)"),
        Step(
            "diff",
            "- print(loss.item())  # each step\n+ if step % N == 0: print(loss.item())  # .item() and .cpu() drain the queue: every hundredth step is often enough",
        ),
        Step("flag", "--no-enforce-eager  # vLLM: with CUDA graphs", when=VLLM & GPU_MEMORY),
    ),
    gain=Expect(
        pl.when(GPU_MEMORY).then(_HALF).otherwise(1.0),
        pl.when(GPU_MEMORY).then(pl.min_horizontal(12.0, 1.5 / (1 - c.share_launch).clip(0.05))).otherwise(_HALF),
        _(
            "From half of the gaps gone to all of them, with up to a third of the kernels' time too: a graph and a fused optimizer spare"
            " kernels. Where memory is nearly full no graph is advised: up to half of the gaps. For comparison, on H200: 4.18 to 9.02 times the speed, in jobs that waited 76 to 85 % of the time."
        ),
    ),
    risk=_("Graph capture needs static shapes and memory of its own, and the first steps compile for up to minutes."),
    rollback=_("Remove the wrapper, and set the optimizer and the logging back."),
    verify=_(
        "Engine-active time rises by 30 % and step time falls by 10 % over 200 steps after warm-up; the loss curve is unchanged."
    ),
    terms=(
        Terms(
            ~GPU_MEMORY,
            _("A fused optimizer rounds a little differently: compare the loss."),
            _("Set the optimizer and the logging back."),
            _("Engine-active time rises and step time falls over 200 steps; the loss curve is unchanged."),
        ),
    ),
    sources=("docs.pytorch.org/docs/stable/generated/torch.compile.html", "recordings launch_bound and launch_graphed"),
)
