"""Ranks of one job run different software, or its image has a tag that moves.

Different releases of NCCL or of the driver in one job hang collectives or slow them; a tag such as latest makes two runs differ that
should not. A rolling upgrade shows the first for as long as it lasts.
"""

import polars as pl

from advisor.rule import Need, Rule, Says, Show, Step
from advisor.text import _

c = pl.col

_FLOATS = (
    c.note_image.is_not_null()
    & ~c.note_image.str.contains("@sha256:")
    & c.note_image.str.contains(r":(latest|nightly|main|stable)$")
).fill_null(False)
_MIXED = ((c.mixed_versions >= 2) | (c.driver_versions >= 2)).fill_null(False)

RULE = Rule(
    id="unpinned-mixed-software",
    scope="job",
    severity="advice",
    bottleneck=None,
    group="capacity",
    needs=(Need(("mixed_versions", "driver_versions")), Need(("mixed_versions",)), Need(("note_image",))),
    opens=_MIXED | _FLOATS,
    clears=~_MIXED & ~_FLOATS,
    title=_("The job's software differs between its ranks, or may change by itself"),
    summary=_("Ranks of the job run {mixed_versions:.0f} different pairs of PyTorch and CUDA."),
    cases=(
        Says(
            (c.driver_versions >= 2).fill_null(False),
            _(
                "The job's nodes have {driver_versions:.0f} different drivers, its ranks {mixed_versions:.0f} pair(s) of PyTorch and CUDA."
            ),
        ),
        Says(~_MIXED, _("The job's image is {note_image}: the tag moves, and the next run may be another program.")),
    ),
    evidence=(Show("mixed_versions", "versions"), Show("driver_versions", "versions"), Show("nodes", "nodes")),
    change=(
        Step(
            "config",
            "image: nvcr.io/nvidia/pytorch@sha256:DIGEST  # DIGEST: from docker inspect --format '{{{{index .RepoDigests 0}}}}' IMAGE",
        ),
        Step("command", "pip install --require-hashes -r requirements.txt"),
        Step("command", "apt-mark hold 'nvidia-driver-*' 'libnccl*'  # upgrade by pool, through a canary"),
    ),
    recovers=0.0,
    risk=_("Security updates no longer come by themselves: plan them."),
    rollback=_("Take the pin out."),
    verify=_("One pair of versions a job and one driver a pool for seven days."),
    sources=("https://docs.docker.com/dhi/core-concepts/digests/", "https://pip.pypa.io/en/stable/topics/secure-installs/"),
)
