"""The advisor's look at the fleet: read in groups of nodes, judged as a whole."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from polars.testing import assert_frame_equal

from advisor.features import features_of
from fleet.findings import windows
from fleet.findings.windows import Look, look
from fleet.inventory.models import Gpu
from tests.fleet.recorded import fill
from tests.fleet.rows import gpu, node

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("memory_store")]
NOW = timezone.now().replace(microsecond=0)
CARD: dict[str, Any] = {"power_limit_w": 700, "sm_clock_max_mhz": 1980, "pcie_link_gen_max": 5, "pcie_link_width_max": 16}


def fleet() -> list[Gpu]:
    """Nodes that play different recordings, one of them with a GPU that does not report."""
    cards = []
    for number, name in enumerate(("fp32_train", "loader_starved", "bf16_train")):
        home = node(f"n{number}", last_seen_at=NOW, mem_total_bytes=256 << 30)
        cards.append(gpu(home, **CARD))
        fill(name, [cards[-1]], int(NOW.timestamp()))
    gpu(home, index=1)
    return cards


def seen(monkeypatch: pytest.MonkeyPatch, at_once: int) -> Look:
    """The fleet's last minute, so many GPUs at a time."""
    monkeypatch.setattr(windows, "GPUS_AT_ONCE", at_once)
    return look(NOW, 60, 2.0)


def test_the_fleet_in_groups_is_the_fleet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every feature, place and job, whether one node or all are in memory at a time."""
    cards = fleet()
    single, whole = seen(monkeypatch, 1), seen(monkeypatch, 1000)

    assert (len(single.measured), len(whole.measured)) == (3, 1)
    assert single.gpus == whole.gpus == {card.pk for card in cards}
    assert single.places == whole.places
    assert (single.away, single.fresh_nodes) == (whole.away, whole.fresh_nodes)
    for name in ("gpu", "job", "node"):
        pair = [getattr(features_of(one.measured), name) for one in (single, whole)]
        assert_frame_equal(*pair, check_row_order=name == "gpu")
    assert single.window.gpu.height == whole.window.gpu.height == 180


def test_a_fleet_without_fresh_nodes_is_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """No read of the store, no GPU, no part."""
    node("n1", last_seen_at=NOW - timedelta(hours=1))
    nothing = seen(monkeypatch, 10)

    assert (nothing.gpus, nothing.fresh_nodes, nothing.measured) == (frozenset(), frozenset(), ())
    assert nothing.window.facts.is_empty()


def test_a_node_whose_rows_are_not_there_yet_is_measured_as_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It said hello a moment ago."""
    gpu(node("n1", last_seen_at=NOW))

    assert features_of(seen(monkeypatch, 10).measured).gpu.is_empty()
