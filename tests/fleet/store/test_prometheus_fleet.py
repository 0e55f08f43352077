"""Fleets whose exporters differ, whose clusters share names and whose GPUs end, on a real Prometheus."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from polars.testing import assert_frame_equal

from fleet.inventory.models import Gpu, Node, Refusal
from fleet.store.buckets import buckets
from fleet.store.endpoint import Access, Endpoint
from fleet.store.prometheus import PrometheusSeries
from fleet.store.prometheus_events import notice
from fleet.store.prometheus_inventory import discover
from tests.fleet.store.exporter import UUID, history, labels, prometheus_program
from tests.fleet.store.servers import running

pytestmark = pytest.mark.django_db
T = 1_790_000_000
END = T + 300


@contextmanager
def told(
    folder: Path, *cards: tuple[dict[str, str], Sequence[float]], xids: Sequence[float] = (), wave: float = 0.0
) -> Iterator[PrometheusSeries]:
    """The engine on a Prometheus that has each card's power at these seconds after T, and perhaps XID 79 of all from a second on."""
    of = {str(number): card for number, (card, _) in enumerate(cards)}
    series = {
        ("DCGM_FI_DEV_POWER_USAGE", str(number)): [(T + at, 100.0 + number + wave * (at // 600 % 5)) for at in times]
        for number, (_, times) in enumerate(cards)
    }
    for at in xids:
        for number, (_, times) in enumerate(cards):
            series["DCGM_FI_DEV_XID_ERRORS", str(number)] = [(T + one, 79.0 if one >= at else 0.0) for one in times]
    with running(prometheus_program(folder, history=history(series, of))) as program:
        yield PrometheusSeries(Endpoint(program.url, Access(), "Prometheus"), clock=lambda: END)


ON = range(0, 300, 15)


def lower(card: dict[str, str]) -> dict[str, str]:
    """With `uuid` in place of `UUID`."""
    card["uuid"] = card.pop("UUID")
    return card


def test_gpus_of_both_spellings_are_read_together(tmp_path: Path) -> None:
    """One exporter says UUID and another uuid: every GPU has its own value."""
    with told(tmp_path, (labels(0), ON), (lower(labels(1)), ON)) as engine:
        discover(engine, END)
        rows = engine.latest("gpu", END - 60, metrics=["power_w"])

    ids = {gpu.pk: gpu.uuid[-1] for gpu in Gpu.objects.all()}
    assert {ids[entity]: power for entity, power in rows.select("entity", "power_w").rows()} == {"0": 100.0, "1": 101.0}


def test_a_gpu_that_ends_while_its_node_goes_on_is_not_there(tmp_path: Path) -> None:
    """It is unknown within the time that a silent node is, and there again with its series."""
    gap = [*range(0, 150, 15), *range(285, 300, 5)]
    with told(tmp_path, (labels(0), ON), (labels(1), gap)) as engine:
        shown = {}
        for at in (150, 165, 225, 299):
            discover(engine, T + at)
            shown[at] = dict(Gpu.objects.values_list("index", "present"))

    assert shown[150] == shown[165] == {0: True, 1: True}
    assert shown[225] == {0: True, 1: False}
    assert shown[299] == {0: True, 1: True}


def test_an_odd_series_costs_itself_alone_and_is_told_of_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """An index of another alphabet is none; the GPU is read and so are all others."""
    with told(tmp_path, (labels(0), ON), (labels(1) | {"gpu": "²"}, ON)) as engine, caplog.at_level(logging.WARNING):
        assert discover(engine, END) == 2
        assert discover(engine, END) == 2

    assert caplog.text.count("its gpu is no number") == 1
    assert Gpu.objects.count() == 2


def test_clusters_with_the_same_host_names_are_told_apart_by_their_label(tmp_path: Path) -> None:
    """node-1 of the east is not node-1 of the west."""
    with told(tmp_path, (labels(0, cluster="east"), ON), (labels(1, cluster="west") | {"gpu": "0"}, ON)) as engine:
        discover(engine, END)

    assert set(Gpu.objects.values_list("node__name", "uuid")) == {("node-1@east", f"{UUID}0"), ("node-1@west", f"{UUID}1")}
    assert not Refusal.objects.exists()


def test_two_machines_of_one_name_are_a_conflict_and_their_events_do_not_collide(tmp_path: Path) -> None:
    """No label tells them apart: it is counted once while it lasts, names both GPUs; an XID of each at one time is two events."""
    with told(tmp_path, (labels(0), ON), (labels(1) | {"gpu": "0"}, ON), xids=[285]) as engine:
        discover(engine, END)
        discover(engine, END)
        assert notice(engine, END) == 2

    row = Refusal.objects.get()
    assert (row.node_name, row.code, row.total) == ("node-1", "two_nodes", 1)
    assert f"{UUID}0" in row.last_detail
    assert f"{UUID}1" in row.last_detail


def test_a_card_that_took_the_place_of_another_is_no_conflict(tmp_path: Path) -> None:
    """The first had ended before the second came."""
    with told(tmp_path, (labels(0), range(0, 200, 15)), (labels(1) | {"gpu": "0"}, range(210, 300, 15))) as engine:
        discover(engine, END)

    assert Node.objects.get().name == "node-1"
    assert not Refusal.objects.exists()


def test_a_long_span_is_made_of_few_queries_and_has_the_buckets_of_the_scrapes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three days by the hour: mean, lowest and highest are those of the scrapes, a gap stays one, and no day is asked for by itself."""
    times = [at for at in range(0, 3 * 86_400, 600) if not 90_000 <= at < 100_000]
    with told(tmp_path, (lower(labels(0)), times), wave=10.0) as engine:
        engine_at = T + times[-1] + 5
        discover(engine, engine_at)
        asked: list[str] = []
        ask = Endpoint.ask

        def counted(self: Endpoint, path: str, fields: Mapping[str, str] | list[tuple[str, str]]) -> bytes:
            asked.append(path)
            return ask(self, path, fields)

        monkeypatch.setattr(Endpoint, "ask", counted)
        (card,) = Gpu.objects.all()
        found = engine.series("gpu", card.pk, ["power_w"], T, engine_at, 3600)
        many = len(asked)
        rows = engine.window("gpu", T, engine_at, [card.pk], ["power_w"])
        short = engine.series("gpu", card.pk, ["power_w"], T, T + 10, 10)
    expected = buckets(engine.table("gpu"), rows, ["power_w"], 3600)

    assert many <= 10
    assert len(found) == 71
    assert len(set(found["power_w_max"])) > 1 or found["power_w_max"][0] > found["power_w_min"][0]
    assert_frame_equal(found, expected)
    assert found.schema == short.schema
