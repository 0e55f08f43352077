"""A real slurmd that runs Fettle's health check by itself, as HealthCheckProgram."""

from pathlib import Path

import pytest

from tests.deploy.slurm.conftest import Site, done_by, settings
from tests.serving import Server, eventually
from tests.slurm_cluster import cluster

pytestmark = pytest.mark.slow

ASKED = "Spawning health check agent"
BROKEN = """
from django.utils import timezone
from fleet.findings.lifecycle import Place, report
from tests.fleet.rows import found, gpu, node
now = timezone.now()
card = gpu(node("gpu01", last_seen_at=now), 0)
report(now, found(str(card.pk), "row-remap-failed", "critical"), Place(card.node_id, (card.pk,)))
"""
MENDED = """
from fleet.findings.models import Finding
Finding.objects.all().delete()
"""
UNKNOWN = """
from fleet.inventory.models import Node
Node.objects.filter(name="gpu01").delete()
"""


def seen(site: Site, node: str) -> tuple[bool, str]:
    """Whether a node is drained, and why."""
    state, _, reason = site.slurm.client("sinfo", "-h", "-N", "-n", node, "-o", "%T|%E").strip().partition("|")
    return "drain" in state, reason


def after_three_checks(site: Site, node: str) -> tuple[bool, str]:
    """As `seen`, when slurmctld has asked its nodes for three more."""
    log = site.slurm.folder / "slurmctld.log"
    first = log.read_text().count(ASKED)
    assert eventually(lambda: log.read_text().count(ASKED) >= first + 3, 30)
    return seen(site, node)


def test_slurmd_drains_a_broken_node_with_our_reason_and_brings_none_back(
    slurm_server: tuple[Server, Path], tmp_path: Path
) -> None:
    """slurmd runs the check with next to no environment. The node that nobody told of stays; the one that is mended stays drained until a
    person resumes it, and then stays in use."""
    server, token = slurm_server
    folder = tmp_path / "c"
    words = settings(server, token, "drain=yes", f"slurm_conf={folder}/slurm.conf")
    more = (
        f"HealthCheckProgram={folder}/fettle/health-check\nHealthCheckInterval=1\nHealthCheckNodeState=ANY\nSlurmctldDebug=debug"
    )
    done_by(server, MENDED + UNKNOWN)  # other tests use the same server
    try:
        with cluster(folder, settings=words, more=more) as slurm:
            site = Site(server, slurm)
            before = after_three_checks(site, "gpu01")
            done_by(server, BROKEN)
            assert eventually(lambda: seen(site, "gpu01")[0], 30)
            drained = seen(site, "gpu01")
            done_by(server, MENDED)
            mended, other = after_three_checks(site, "gpu01"), seen(site, "gpu02")
            slurm.client("scontrol", "update", "NodeName=gpu01", "State=RESUME")
            resumed = after_three_checks(site, "gpu01")
    finally:
        done_by(server, MENDED + UNKNOWN)

    ours = (True, "Fettle: GPU 0: The power limit takes the speed")
    nothing = (False, "none")
    assert (before, drained, mended, resumed, other) == (nothing, ours, ours, nothing, nothing)
