"""A fleet read from a real Prometheus with dcgm-exporter's series: rows, inventory, what ended, advice."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from django.test import Client
from pytest_django import Settings

from fleet.findings.judge import judge
from fleet.findings.models import Diagnosis, Finding
from fleet.inventory.models import Absence, Event, Gpu, Node
from fleet.store import prometheus_tasks
from fleet.store.endpoint import Access, Endpoint
from fleet.store.prometheus import PrometheusSeries
from fleet.store.prometheus_events import notice
from fleet.store.prometheus_inventory import discover
from fleet.store.series import StoreError, store
from tests.fleet.store.exported_past import END, POINTS, STEP, T, past
from tests.fleet.store.exporter import HOLDERS, UUID, Exporter, holding, labels, line, prometheus_program
from tests.fleet.store.servers import Program, running
from tests.serving import eventually

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module", params=HOLDERS)
def prometheus(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """A Prometheus that holds `past`, and a VictoriaMetrics that was filled as by a Prometheus."""
    with holding(request.param, tmp_path_factory.mktemp("past"), past()) as program:
        yield program


@pytest.fixture
def engine(prometheus: Program) -> PrometheusSeries:
    """The engine, as if it were the end of that past, with what the inventory made of it."""
    made = PrometheusSeries(Endpoint(prometheus.url, Access(), "Prometheus"), clock=lambda: END)
    discover(made, END)
    return made


def gpu(number: int, more: str = "") -> Gpu:
    """A GPU by its number."""
    return Gpu.objects.get(uuid=f"{UUID}{number}{more}")


def column(engine: PrometheusSeries, of: Gpu, name: str) -> list[Any]:
    """All values of a metric."""
    return engine.window("gpu", T, END, [of.pk], [name])[name].to_list()


# Inventory


def test_nodes_and_gpus_are_made_from_the_labels_of_series(engine: PrometheusSeries) -> None:
    """Of what goes on: names, models, memory, who uses it; marked as read from Prometheus, holders unknown."""
    assert list(Node.objects.values_list("name", "source", "interval_s", "driver_version")) == [
        ("node-1", "prometheus", 15.0, "580.159.04"),
        ("node-2", "prometheus", 15.0, "580.159.04"),
    ]
    one = gpu(0)
    assert (one.node.name, one.index, one.model, one.pci_bus_id) == ("node-1", 0, "NVIDIA H200", "00000000:00:00.0")
    assert one.mem_total_bytes == (1024 + 140_000 + 500) << 20
    assert one.labels == {"namespace": "ml", "pod": "other,train-0"}
    assert not Gpu.objects.filter(uuid=f"{UUID}1").exists()  # its series ended long before
    assert set(Absence.objects.values_list("node__name", "metric", "reason", "until")) == {
        ("node-1", "processes", "unsupported", None),
        ("node-2", "processes", "unsupported", None),
    }


def test_instances_of_a_split_gpu_are_gpus_of_their_own(engine: PrometheusSeries) -> None:
    """With their card, profile and number; the card is there too."""
    part = gpu(3, ":1g.18gb:7")

    assert (part.parent_uuid, part.mig_profile, part.mig_gpu_instance) == (f"{UUID}3", "1g.18gb", 7)
    assert part.model == "NVIDIA H200 MIG 1g.18gb"
    assert gpu(3).mig_mode is True


def test_looking_again_changes_nothing(engine: PrometheusSeries) -> None:
    """The task may run twice, or a thousand times."""
    before = list(Node.objects.values()), list(Gpu.objects.values()), list(Absence.objects.values())
    discover(engine, END)

    assert (list(Node.objects.values()), list(Gpu.objects.values()), list(Absence.objects.values())) == before


def test_a_node_with_an_agent_of_ours_is_left_alone(prometheus: Program) -> None:
    """What our agent tells is not mixed with what an exporter on the same machine does."""
    Node.objects.create(name="node-1", interval_s=1.0)
    made = PrometheusSeries(Endpoint(prometheus.url, Access(), "Prometheus"), clock=lambda: END)
    discover(made, END)

    assert Node.objects.get(name="node-1").source == ""
    assert set(Gpu.objects.values_list("node__name", flat=True)) == {"node-2"}


# Events


def test_an_xid_that_comes_up_is_an_event_once(engine: PrometheusSeries) -> None:
    """Of the GPU, at its scrape, under whatever series it stands; one that was there all the time is none, however often one looks."""
    assert notice(engine, END) == 1
    assert notice(engine, END) == 0

    told = Event.objects.get()
    assert (told.gpu, told.kind, told.code, told.handled_at) == (gpu(0), "xid", 79, None)
    assert told.observed_at == datetime.fromtimestamp(T + STEP * 36 + 0.25, UTC)


# Rows


def test_rows_are_the_scrapes_with_names_and_units_of_the_registry(engine: PrometheusSeries) -> None:
    """One row a scrape at its second; MiB are bytes, mJ joules, a share just above 1 is 1; a shared GPU counts once, a link not at all."""
    rows = engine.window("gpu", T, END, [gpu(0).pk])

    assert rows["ts"].to_list() == [T + STEP * k for k in range(POINTS)]
    assert rows["power_w"].to_list() == [500.25 + k for k in range(POINTS)]
    assert rows["energy_j_total"].to_list()[:2] == [1000.5, 8500.5]
    assert set(rows["mem_used_bytes"]) == {1 << 30}
    assert set(rows["mem_total_bytes"]) == {(1024 + 140_000 + 500) << 20}
    assert rows["sm_active"].to_list()[2:5] == [0.5, 1.0, 0.5]
    assert rows.schema == engine.window("gpu", 0, 1).schema


def test_a_blank_is_absent(engine: PrometheusSeries) -> None:
    """The scrape that had DCGM's "no value" has a row without that value."""
    told = column(engine, gpu(0), "temperature_c")

    assert told[5] is None
    assert set(told[:5] + told[6:]) == {61.0}


def test_new_names_are_the_same_metrics(engine: PrometheusSeries) -> None:
    """Names since DCGM 4.6, the label hostname, percent under the name of a ratio; profiling that stopped says nothing."""
    assert set(column(engine, gpu(2), "power_w")) == {76.21}
    assert set(column(engine, gpu(2), "gpu_util_pct")) == {96.0}
    assert set(column(engine, gpu(2), "sm_active")) == {None}


def test_a_split_gpu_is_joined_from_its_instances(engine: PrometheusSeries) -> None:
    """Shares weighted by slices of seven, memory added, power once; a part that is blank makes the whole unknown."""
    assert column(engine, gpu(3), "sm_active")[3:6] == [pytest.approx((0.7 + 3 * 0.35) / 7, abs=1e-4), None, 0.25]
    assert set(column(engine, gpu(3), "mem_used_bytes")) == {3000 << 20}
    assert set(column(engine, gpu(3), "power_w")) == {300.0}
    part = engine.window("gpu", T, END, [gpu(3, ":1g.18gb:7").pk], ["sm_active", "power_w"])
    assert set(part.select("sm_active", "power_w").rows()) == {(0.7, None)}


def test_the_start_counts_and_the_end_does_not(engine: PrometheusSeries) -> None:
    """By seconds of rows, whatever the server counts as inside of a range."""
    assert engine.window("gpu", T + STEP, T + 3 * STEP, [gpu(0).pk])["ts"].to_list() == [T + STEP, T + 2 * STEP]
    assert engine.window("gpu", T + 1, T + STEP, [gpu(0).pk]).is_empty()
    assert engine.window("gpu", T, T, [gpu(0).pk]).is_empty()


def test_buckets_are_made_of_scrapes(engine: PrometheusSeries) -> None:
    """A minute has four of them; an energy counter keeps its last."""
    told = engine.series("gpu", gpu(0).pk, ["power_w", "energy_j_total"], T, END, 60)

    assert told["ts"].to_list() == [T + 60 * k for k in range(10)]
    assert told.row(0) == (T, 501.75, 500.25, 503.25, 23500.5, 1000.5, 23500.5)


def test_the_latest_row_is_the_newest_scrape(engine: PrometheusSeries) -> None:
    """Of each GPU since then."""
    told = engine.latest("gpu", END - 60)

    assert set(told["ts"]) == {END - STEP}
    assert dict(told.select("entity", "power_w").rows())[gpu(0).pk] == 500.25 + POINTS - 1
    assert engine.latest("gpu", END).is_empty()


def test_other_scopes_are_empty_and_nothing_is_written(engine: PrometheusSeries) -> None:
    """An exporter tells of GPUs alone; a sentence says that agents need another store."""
    assert engine.window("host", T, END).is_empty()
    assert engine.latest("process", T).is_empty()
    assert engine.prune({1: END}) == 0
    with pytest.raises(StoreError, match="only read"):
        engine.write("gpu", pl.DataFrame({"entity": [1], "ts": [T]}))
    with pytest.raises(StoreError, match="horse_power"):
        engine.window("gpu", T, END, metrics=["horse_power"])


def test_a_selector_takes_a_part_of_the_series(prometheus: Program) -> None:
    """A Prometheus holds several clusters; one that is none is said by the server."""
    read = Endpoint(prometheus.url, Access(), "Prometheus")
    discover(PrometheusSeries(read, 'hostname="node-2"', clock=lambda: END), END)

    assert set(Node.objects.values_list("name", flat=True)) == {"node-2"}
    with pytest.raises(StoreError, match=r"Prometheus at .*HTTP 4\d\d.*error"):
        discover(PrometheusSeries(read, "hostname", clock=lambda: END), END)


# Advice


def test_the_advisor_judges_a_fleet_without_agents(engine: PrometheusSeries, settings: Settings) -> None:
    """Five minutes at the scrapes' pace: a diagnosis of every GPU that goes on, and a finding about one that is broken."""
    settings.FETTLE_STORE = "prometheus-read"
    settings.FETTLE_STORE_URL = engine.read.name.rpartition(" ")[2]
    store.cache_clear()
    try:
        judge(datetime.fromtimestamp(END, UTC))
        judge(datetime.fromtimestamp(END, UTC) + timedelta(seconds=5))
    finally:
        store.cache_clear()

    assert set(Diagnosis.objects.filter(scope="gpu").values_list("gpu__uuid", flat=True)) >= {f"{UUID}0", f"{UUID}2", f"{UUID}3"}
    found = Finding.objects.get(rule="row-remap-failed")
    assert [one.uuid for one in found.gpus.all()] == [f"{UUID}0"]


# Live


def test_a_target_that_goes_away_makes_its_node_unknown(tmp_path: Path, settings: Settings, admin_client: Client) -> None:
    """Scraped live: the task finds the node, its page shows the newest values; after the exporter is gone nothing is seen any more."""
    with Exporter().serving() as exporter, running(prometheus_program(tmp_path, [exporter.port])) as program:
        exporter.page = line("DCGM_FI_DEV_POWER_USAGE", labels(0), 421.5) + "\n"
        settings.FETTLE_STORE, settings.FETTLE_STORE_URL = "prometheus-read", program.url
        store.cache_clear()
        try:
            assert eventually(lambda: prometheus_tasks.discover() == 1, 30)
            time.sleep(2)
            assert prometheus_tasks.discover() == 1
            node = Node.objects.get()
            assert not node.is_stale
            assert node.interval_s == pytest.approx(1.0, abs=0.1)
            told = store().latest("gpu", int(time.time()) - 30)
            assert told["power_w"].to_list() == [421.5]
            page = admin_client.get("/nodes/node-1/").content.decode()
            assert "read from Prometheus" in page
            assert "421.5" in page or "422" in page
            assert "Unknown: an exporter does not tell who holds a GPU." in page
            assert "An exporter tells of GPUs alone" in page
            for untrue in (
                "No process holds a GPU.",
                "agent",
                "Nothing is absent.",
                'id="live"',
                "no sample in the last 30 seconds</",
            ):
                assert untrue not in page.partition("<main")[2]
            page = admin_client.get(f"/gpus/{Gpu.objects.get().pk}/").content.decode()
            assert "A dash is a field that its exporter does not export." in page
            for untrue in ('id="live"', "Nothing is absent.", "agent"):
                assert untrue not in page.partition("<main")[2], untrue
            exporter.fails = True
            time.sleep(3)
            prometheus_tasks.discover()
            last = Node.objects.get().last_seen_at
            time.sleep(2)
            prometheus_tasks.discover()
            assert Node.objects.get().last_seen_at == last
            newest = store().latest("gpu", int(time.time()) - 1)
            assert newest.is_empty()
            program.kill()
            assert prometheus_tasks.discover() == 0
            assert "cannot be reached" in (prometheus_tasks.looking.why or "")
        finally:
            store.cache_clear()
