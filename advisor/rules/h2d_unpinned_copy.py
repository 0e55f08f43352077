"""Copies between host and GPU go through pageable memory.

Rate while copying, as a share of the link: 0.30 pageable (18.5 of 63 GB/s), 0.77 to 0.87 pinned (48.4 GB/s); 0.48 lies between.
The mean over the window says little when copies alternate with work, so the bytes are set against the time that is not compute.

Gain: docs/lab.md. Pinned alone, without overlap, it is 1 / (1 - copy share + pinned part): 3.04 for the lab's pair, 3.05 measured.

A profile names the memory of each copy: copies from pageable memory that take a tenth of its time open the finding by themselves.
"""

import polars as pl

from advisor.rule import Expect, Need, Rule, Says, Show, Step, Threshold, param
from advisor.text import _

c = pl.col

_LINK = ("pcie_rx_bytes_per_s", "pcie_tx_bytes_per_s", "copy_rate_share")
_pageable = c.profile_pageable_share.fill_null(0.0)
# a job that stands still, or whose link carries next to nothing, copies nothing that matters, whatever a few steps of it showed
_REFUTED = (
    (c.share_idle >= 0.5) | (c.busy < 0.02) | (pl.max_horizontal("pcie_rx_bytes_per_s", "pcie_tx_bytes_per_s") < 50e6)
).fill_null(False)
_PROFILED = (_pageable >= param("profile_pageable_share_opens")) & ~_REFUTED
_SLOW = (c.share_copy >= param("share_copy_opens")) & (c.copy_rate_share < param("copy_rate_share_opens"))
_OPENS = _SLOW.fill_null(False) | _PROFILED
_SHARE = pl.max_horizontal(c.share_copy, c.profile_pageable_share)
_OF_PINNED = (  # the time that a pinned copy takes, of today's; of pageable ones that a profile alone shows by their usual rate
    pl.when(_PROFILED & ~_SLOW.fill_null(False)).then(0.30 / 0.85).otherwise((c.copy_rate_share / 0.85).clip(0, 1))
)

RULE = Rule(
    id="h2d-unpinned-copy",
    scope="job",
    severity=pl.when(c.share_copy >= 0.5).then(pl.lit("warn")).otherwise(pl.lit("advice")),
    bottleneck="copy",
    needs=(
        Need(("busy", *_LINK, "write_bytes_per_s")),
        # A save copies to the host too: where writes are not known, only copies to the GPU are this rule's.
        Need(
            ("busy", *_LINK), "low", opens=(_SLOW & (c.pcie_rx_bytes_per_s > c.pcie_tx_bytes_per_s)).fill_null(False) | _PROFILED
        ),
        Need(("busy", "profile_pageable_share"), "medium", clears=_pageable < param("profile_pageable_share_clears")),
    ),
    thresholds=(
        Threshold("share_copy_opens", 0.35, "ratio", 0.0, 1.0),
        Threshold("share_copy_clears", 0.22, "ratio", 0.0, 1.0),
        Threshold("copy_rate_share_opens", 0.48, "ratio", 0.0, 1.0),
        Threshold("copy_rate_share_clears", 0.55, "ratio", 0.0, 1.0),
        Threshold("profile_pageable_share_opens", 0.10, "ratio", 0.0, 1.0),
        Threshold("profile_pageable_share_clears", 0.06, "ratio", 0.0, 1.0),
    ),
    opens=_OPENS,
    clears=((c.share_copy < param("share_copy_clears")) | (c.copy_rate_share >= param("copy_rate_share_clears")))
    & (_pageable < param("profile_pageable_share_clears")),
    confirmed=_PROFILED,
    unless=(c.host_mem_share >= 0.9) | (c.ranks_talk_over_pcie.fill_null(False)),
    yields_to=("pcie-link-degraded", "cpu-offload-stall"),
    title=_("Copies between host and GPU are pageable or not overlapped"),
    summary=_(
        "For {share_copy:.0%} of the time the GPU's processors waited for copies that ran at {copy_rate_share:.0%} of the PCIe"
        " link ({pcie_rx_gb_per_s:.2f} GB/s to the GPU, {pcie_tx_gb_per_s:.2f} GB/s back)."
    ),
    cases=(
        Says(
            _PROFILED & ~_SLOW.fill_null(False),
            _(
                "In a profile of this job copies to the GPU from pageable memory took {profile_pageable_share:.0%} of the time: the driver"
                " copies each through a buffer of its own, and the host waits."
            ),
        ),
    ),
    evidence=(
        Show("share_copy", "ratio", ">=", "share_copy_opens"),
        Show("copy_rate_share", "ratio", "<", "copy_rate_share_opens"),
        Show("pcie_rx_bytes_per_s", "bytes_per_second"),
        Show("pcie_tx_bytes_per_s", "bytes_per_second"),
        Show("busy", "ratio"),
        Show("profile_pageable_share", "ratio", ">=", "profile_pageable_share_opens"),
    ),
    change=(
        Step("diff", "- loader = DataLoader(ds, batch_size=B)\n+ loader = DataLoader(ds, batch_size=B, pin_memory=True)"),
        Step("diff", '- x = x.to("cuda")\n+ x = x.to("cuda", non_blocking=True)'),
        Step(
            "diff", "# buffers of your own, in either direction\n- buf = torch.empty(n)\n+ buf = torch.empty(n, pin_memory=True)"
        ),
        Step(
            "diff", '# fewer bytes: send uint8 and normalise on the GPU\n+ x = x.to("cuda", non_blocking=True).float().div_(255)'
        ),
    ),
    gain=Expect(
        1 / (1 - 0.5 * _SHARE * (1 - _OF_PINNED)),
        pl.min_horizontal(8.0, 1 / pl.max_horizontal(1 - _SHARE, _SHARE * _OF_PINNED).clip(0.05)),
        _(
            "From half of what pinning takes off the copies to copies at 0.85 of the link that hide behind the work, 8 times at most. For comparison,"
            " on H200 copies of 7 and 18.5 GB/s became 55 and 48, and a job that copied 80 % of the time ran at 3.05 times the speed."
        ),
    ),
    risk=_("Pinned memory cannot be swapped: keep it below a quarter of the host's memory."),
    rollback=_("Remove the arguments."),
    verify=_(
        "The PCIe rate while copying passes 0.7 of the link, or the copy share falls below 0.02; step time falls by 3 % over 300 steps."
    ),
    sources=("docs.pytorch.org/docs/stable/notes/cuda.html#use-pinned-memory-buffers", "recording h2d_pageable"),
)
