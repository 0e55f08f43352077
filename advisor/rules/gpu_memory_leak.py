"""GPU memory in use grows without end.

Growth over the window as a share of the card, at an even pace over its quarters: 0.19 in a loop that keeps a tensor each step;
0 in healthy jobs, whose memory jumps once or twice and stays. 0.008 lies between. Memory that falls back after long stretches of
growth counts by the longest of them, and nothing is foretold from it.
"""

import polars as pl

from advisor.rule import Need, Rule, Says, Show, Step, Threshold, param
from advisor.text import _

c = pl.col

RULE = Rule(
    id="gpu-memory-leak",
    scope="job",
    severity=pl.when(c.mem_fills_s < 1800).then(pl.lit("warn")).otherwise(pl.lit("advice")),
    bottleneck=None,
    group="capacity",
    needs=(Need(("busy", "mem_growth_share"), "medium"),),
    thresholds=(
        Threshold("mem_growth_share_opens", 0.008, "ratio", 0.0, 1.0),
        Threshold("mem_growth_share_clears", 0.003, "ratio", 0.0, 1.0),
    ),
    opens=(c.mem_growth_share >= param("mem_growth_share_opens")) & (c.busy >= 0.005),
    clears=c.mem_growth_share < param("mem_growth_share_clears"),
    title=_("GPU memory grows steadily"),
    summary=_(
        "Memory in use grew by {mem_growth_gib:.1f} GiB in {mem_growth_s:.0f} s at an even pace ({mem_growth_gb_per_s:.2f} GB/s); at"
        " that rate the GPU is full in {seconds_to_full:.0f} s and the job dies."
    ),
    cases=(
        Says(
            c.seconds_to_full.is_null(),
            _(
                "Memory in use grew by {mem_growth_gib:.1f} GiB in {mem_growth_s:.0f} s ({mem_growth_gb_per_s:.2f} GB/s), then fell"
                " back or stood still."
            ),
        ),
    ),
    evidence=(
        Show("mem_growth_share", "ratio", ">=", "mem_growth_share_opens"),
        Show("mem_growth_bytes_per_s", "bytes_per_second"),
        Show("mem_used_share_max", "ratio"),
        Show("seconds_to_full", "seconds", "<", 1800.0),
        Show("window_s", "seconds"),
    ),
    change=(
        Step("diff", "- losses.append(loss)  # keeps the whole graph alive\n+ losses.append(loss.item())"),
        Step("diff", "- outputs.append(model(x))\n+ with torch.inference_mode():\n+     outputs.append(model(x).cpu())"),
        Step(
            "diff",
            "+ torch.cuda.memory._record_memory_history(max_entries=100000)\n  # some steps later\n"
            '+ torch.cuda.memory._dump_snapshot("mem.pickle")  # open at https://pytorch.org/memory_viz',
        ),
    ),
    risk=_("Recording allocations slows the program: minutes only."),
    rollback=_("Remove the recording."),
    verify=_("Memory in use grows by less than 0.1 % of the card an hour at the same batch shape."),
    sources=("docs.pytorch.org/docs/stable/torch_cuda_memory.html", "recording leak"),
)
