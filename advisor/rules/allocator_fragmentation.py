"""The allocator holds memory that it cannot use: blocks of the wrong size.

Between the peak of what is allocated and what is reserved lies a cache, normally some percent of the card. From 15 % on, with allocations
that had to be retried (each retry frees the cache and waits for the GPU) or failed, the cache is fragments. In the first 200 steps shapes
are still new; cudaMallocAsync keeps its own pool, which these counters do not describe; serving engines reserve by design.
"""

import polars as pl

from advisor.rule import Expect, Need, Rule, Says, Show, Step, Threshold, param
from advisor.text import _

c = pl.col

_SETTING = pl.coalesce(c.env_PYTORCH_ALLOC_CONF, c.env_PYTORCH_CUDA_ALLOC_CONF).fill_null("")
_EXPANDABLE = _SETTING.str.contains("expandable_segments:True", literal=True)
_OTHERS = ~_SETTING.is_in(("", "set"))  # "set": something, its value is not known

RULE = Rule(
    id="allocator-fragmentation",
    scope="job",
    severity="warn",
    bottleneck=None,
    group="capacity",
    needs=(
        Need(("fragmented_share", "alloc_retries_per_100_steps")),
        Need(("fragmented_share", "ooms_24h")),
    ),
    thresholds=(
        Threshold("fragmented_share_opens", 0.15, "ratio", 0.0, 1.0),
        Threshold("fragmented_share_clears", 0.08, "ratio", 0.0, 1.0),
        Threshold("alloc_retries_opens", 1.0, "number", 0.0, 1000.0),
    ),
    opens=(c.fragmented_share >= param("fragmented_share_opens"))
    & ((c.alloc_retries_per_100_steps >= param("alloc_retries_opens")).fill_null(False) | (c.ooms_24h >= 1).fill_null(False)),
    clears=c.fragmented_share < param("fragmented_share_clears"),
    unless=_SETTING.str.contains("cudaMallocAsync", literal=True)
    | c.serves.fill_null(False)
    | c.serving_engine.is_not_null()
    | (c.steps_total < 200),
    yields_to=("gpu-oom-recurring",),
    title=_("GPU memory is reserved in pieces that nothing fits into"),
    summary=_(
        "{fragmented_share:.0%} of the card is reserved by the allocator and not usable ({reserved_peak_gib:.0f} GiB reserved,"
        " {alloc_peak_gib:.0f} GiB allocated at the peak), and {alloc_retries_per_100_steps:.1f} of 100 steps had to free the cache and try"
        " again."
    ),
    cases=(
        Says(
            (c.alloc_retries_per_100_steps < param("alloc_retries_opens")).fill_null(True),
            _(
                "{fragmented_share:.0%} of the card is reserved by the allocator and not usable ({reserved_peak_gib:.0f} GiB reserved,"
                " {alloc_peak_gib:.0f} GiB allocated at the peak), and the job ran out of memory {ooms_24h:.0f} times in 24 hours."
            ),
        ),
    ),
    evidence=(
        Show("fragmented_share", "ratio", ">=", "fragmented_share_opens"),
        Show("alloc_retries_per_100_steps", "number"),
        Show("ooms_24h", "number"),
        Show("alloc_peak_bytes", "bytes"),
        Show("reserved_peak_bytes", "bytes"),
        Show("mem_total_bytes", "bytes"),
    ),
    change=(
        Step("env", "PYTORCH_ALLOC_CONF=expandable_segments:True", when=~_EXPANDABLE & ~_OTHERS & (c.torch_release >= 209)),
        Step("env", "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", when=~_EXPANDABLE & ~_OTHERS & (c.torch_release < 209)),
        Step(
            "env",
            "PYTORCH_ALLOC_CONF=expandable_segments:True  # torch 2.9 and newer; before: PYTORCH_CUDA_ALLOC_CONF",
            when=~_EXPANDABLE & ~_OTHERS & c.torch_release.is_null(),
        ),
        Step("env", "PYTORCH_ALLOC_CONF={env_PYTORCH_ALLOC_CONF},expandable_segments:True", when=~_EXPANDABLE & _OTHERS),
        Step(
            "env",
            "PYTORCH_CUDA_ALLOC_CONF={env_PYTORCH_CUDA_ALLOC_CONF},expandable_segments:True",
            when=~_EXPANDABLE & _OTHERS & c.env_PYTORCH_ALLOC_CONF.is_null(),
        ),
        Step(
            "env",
            "PYTORCH_CUDA_ALLOC_CONF=garbage_collection_threshold:0.8,max_split_size_mb:256  # only where expandable segments are refused",
        ),
        Step(
            "diff",
            "- batch = pad(samples)\n+ batch = pad(samples, to=next(n for n in (512, 1024, 2048, 4096) if n >= longest))  # few shapes",
        ),
    ),
    gain=Expect(1.0, 1.05, _("An estimate: retries stop; 5 to 20 % of the memory comes back for a larger batch.")),
    risk=_("Expandable segments do not go with some CUDA IPC and with vLLM's sleep mode."),
    rollback=_("Unset the variable."),
    verify=_(
        "Less than {fragmented_share_clears:.0%} of the card is reserved and unused, no allocation is retried in 1,000 steps, no run ends out of memory for a day."
    ),
    sources=("docs.pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage-with-pytorch-alloc-conf",),
)
