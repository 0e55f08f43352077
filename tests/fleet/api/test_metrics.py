"""/metrics"""

import time
from datetime import timedelta
from pathlib import Path

import polars as pl
import pytest
from django.utils import timezone
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families
from pytest_django import DjangoAssertNumQueries, Settings
from rest_framework.test import APIClient

from fleet.api.families import READINGS
from fleet.api.fleet_readings import BOUNDS, MODELS, SUMS, names
from fleet.findings.lifecycle import Judged, Place, reconcile, report
from fleet.findings.models import Cycle, Finding
from fleet.ingest import intake
from fleet.ingest.forwarding import DROPPED
from fleet.ingest.models import Intake
from fleet.inventory.models import Event, Gpu, Refusal
from fleet.notify.models import Route
from fleet.store.series import store
from tests.fleet.notify.telling import tell
from tests.fleet.rows import event, found, gpu, node, person
from tests.fleet.store.panicking import make_panic

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("memory_store", "anew")]
PROMETHEUS = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2,*/*;q=0.1"
NOW = timezone.now()


@pytest.fixture
def anew() -> None:
    """Readings that an earlier test saw are forgotten."""
    READINGS.forget()


def scrape(client: APIClient) -> dict[tuple[str, str], float]:
    """Each sample's value by its name and its labels' values."""
    answer = client.get("/metrics")
    assert answer.status_code == 200
    families = text_string_to_metric_families(answer.content.decode())
    return {(one.name, " ".join(one.labels.values())): one.value for family in families for one in family.samples}


def test_it_counts_what_is_there(bob: APIClient) -> None:
    """Every number is that of the rows, and a state that nothing is in is 0."""
    home, silent, never = node("n1"), node("n2", last_seen_at=NOW - timedelta(minutes=5)), node("n3", last_seen_at=None)
    cards = [gpu(home, 0), gpu(home, 1), gpu(home, 2, present=False), gpu(silent, 0), gpu(never, 0)]
    Route.objects.create(name="chat", url="json://127.0.0.1:9/")
    report(NOW, found("1", severity="critical"), Place(home.pk))
    reconcile(NOW, [found("2", severity="warn")], _judged(), {})  # pending, so it does not fire
    tell()
    for name, total in (("n1", 3), ("n2", 4)):
        Refusal.objects.create(node_name=name, code="wrong_shape", total=total)
    event(cards[0])
    Event.objects.filter(pk=event(cards[0]).pk).update(handled_at=NOW)
    Cycle.objects.create(name="advise", started_at=NOW, ended_at=NOW)

    assert scrape(bob) == {
        ("fettle_nodes", "ok"): 1, ("fettle_nodes", "stale"): 1, ("fettle_nodes", "unknown"): 1,
        ("fettle_gpus", "ok"): 2, ("fettle_gpus", "stale"): 1, ("fettle_gpus", "unknown"): 2,
        ("fettle_model_gpus", "NVIDIA H200 ok"): 2, ("fettle_model_gpus", "NVIDIA H200 stale"): 1,
        ("fettle_model_gpus", "NVIDIA H200 unknown"): 2,
        ("fettle_findings", "firing power-cap-limited critical"): 1,
        ("fettle_findings", "pending power-cap-limited warn"): 1,
        ("fettle_findings_opened_total", "power-cap-limited"): 2,
        ("fettle_findings_open", "info"): 0, ("fettle_findings_open", "advice"): 0,
        ("fettle_findings_open", "warn"): 0, ("fettle_findings_open", "critical"): 1,
        ("fettle_frames_refused_total", "wrong_shape"): 7,
        ("fettle_deliveries", "pending"): 1, ("fettle_deliveries", "sending"): 0, ("fettle_deliveries", "sent"): 0,
        ("fettle_deliveries", "failed"): 0, ("fettle_deliveries", "dead"): 0, ("fettle_deliveries", "waiting"): 0,
        ("fettle_deliveries", "muted"): 0,
        ("fettle_advisor_last_run_timestamp_seconds", ""): pytest.approx(NOW.timestamp()),
        ("fettle_advisor_last_run_failed", ""): 0,
        ("fettle_advisor_last_run_seconds", ""): 0,
        ("fettle_store_readable", ""): 1,
        ("fettle_events_unhandled", ""): 1,
    }  # fmt: skip


def test_an_advisor_that_never_ran_has_no_time(bob: APIClient) -> None:
    """1970 would be a number that nobody measured; a run that failed says so."""
    assert not [name for name, _ in scrape(bob) if "advisor" in name]

    Cycle.objects.create(name="advise", started_at=NOW, ended_at=NOW, error="StoreError: disk on fire")
    assert scrape(bob)["fettle_advisor_last_run_failed", ""] == 1


def test_it_needs_a_session_or_a_token(stranger: APIClient) -> None:
    """401 for everybody else; a person who is logged in sees it in the browser."""
    assert stranger.get("/metrics").status_code == 401

    stranger.force_login(person("carol"))
    assert stranger.get("/metrics").status_code == 200


def test_it_speaks_openmetrics_to_those_who_ask(bob: APIClient) -> None:
    """Prometheus does; a browser gets plain text, and no Accept is refused."""
    Refusal.objects.create(node_name="n1", code="wrong_shape", total=3)
    answer = bob.get("/metrics", headers={"accept": PROMETHEUS})

    assert answer["Content-Type"].startswith("application/openmetrics-text")
    families = openmetrics(answer.content.decode())  # type: ignore[no-untyped-call]
    assert "fettle_frames_refused" in {family.name for family in families}
    for accept in ("text/html", "image/png", ""):
        assert bob.get("/metrics", headers={"accept": accept})["Content-Type"].startswith("text/plain")


def test_an_opening_counts_also_when_its_finding_is_gone(bob: APIClient) -> None:
    """Findings go with their node or with time; a counter that fell would look like a restart."""
    card = gpu(node("n1"))
    report(NOW, found(str(card.pk), severity="critical"), Place(card.node_id, (card.pk,)))
    Finding.objects.all().delete()

    told = scrape(bob)
    assert told["fettle_findings_opened_total", "power-cap-limited"] == 1
    assert not [labels for name, labels in told if name == "fettle_findings"]


def test_the_fleet_is_told_by_model_and_without_those_that_are_silent(bob: APIClient) -> None:
    """Sums and buckets are of GPUs that reported within 30 s and are there; a metric that a model lacks is left out."""
    home = node("n1")
    cards = [gpu(home, 0), gpu(home, 1), gpu(home, 2), gpu(home, 3, present=False), gpu(home, 4, model="NVIDIA L4")]
    now = int(time.time())
    rows = {
        "entity": [card.pk for card in cards],
        "ts": [now, now, now - 300, now, now],
        "power_w": [99.0, 650.0, 1.0, 1.0, 70.0],
    }
    store().write("gpu", pl.DataFrame({**rows, "mem_used_bytes": [1 << 30, 1 << 31, 1, 1, None]}))

    told = scrape(bob)

    h200 = {
        labels.removesuffix(" NVIDIA H200"): value
        for (name, labels), value in told.items()
        if name == "fettle_fleet_power_w_bucket" and "H200" in labels
    }
    assert (h200["50"], h200["100"], h200["600"]) == (0, 1, 1)
    assert h200["700"] == h200["+Inf"] == 2
    assert told["fettle_fleet_power_w_gsum", "NVIDIA H200"] == 749
    assert told["fettle_fleet_power_w_gcount", "NVIDIA L4"] == 1
    assert told["fettle_fleet_mem_used_bytes", "NVIDIA H200"] == 3 << 30
    assert not [1 for name, labels in told if name == "fettle_fleet_mem_used_bytes" and "L4" in labels]
    assert not [name for name, _ in told if name.startswith("fettle_fleet_temperature")]


def test_a_store_that_cannot_be_read_costs_the_readings_alone(bob: APIClient, settings: Settings) -> None:
    """Everything that comes from the database is told still."""
    settings.FETTLE_STORE = "nonsense"
    store.cache_clear()
    node("n1")

    told = scrape(bob)
    assert told["fettle_store_readable", ""] == 0
    assert told["fettle_nodes", "ok"] == 1
    assert not [name for name, _ in told if name.startswith("fettle_fleet")]


def test_damaged_files_of_the_store_are_counted(bob: APIClient, settings: Settings, tmp_path: Path) -> None:
    """Those that were set aside, and those that were met just now; the readings of the others are told."""
    settings.FETTLE_STORE, settings.FETTLE_STORE_DIR = "parquet", tmp_path
    store.cache_clear()
    card = gpu(node("n1"), 0)
    READINGS.forget()
    assert scrape(bob)["fettle_store_damaged_files", ""] == 0
    for second in range(2):
        store().write("gpu", pl.DataFrame({"entity": [card.pk], "ts": [int(time.time()) - second], "power_w": [300.0 + second]}))
    older = min(tmp_path.rglob("*.parquet"), key=lambda path: int(path.name.split("-")[1]))
    make_panic(older)
    older.with_name("a-1-2-q5-5-s0of1-e1-1.parquet.damaged").write_bytes(b"")

    READINGS.forget()
    told = scrape(bob)
    assert told["fettle_store_damaged_files", ""] == 2
    assert told["fettle_store_readable", ""] == 1
    assert [number for (name, _), number in told.items() if name == "fettle_fleet_power_w_gsum"] == [300.0]


def test_models_that_agents_invent_do_not_grow_the_page(bob: APIClient) -> None:
    """The twenty with the most GPUs have a name; what follows is one series more."""
    home = node("n1")
    Gpu.objects.bulk_create(
        Gpu(node=home, uuid=f"{model}-{number}", index=number, model=f"model {model:02}")
        for model in range(30) for number in range(30 - model)
    )  # fmt: skip

    models = {
        labels.rpartition(" ")[0]: value
        for (name, labels), value in scrape(bob).items()
        if name == "fettle_model_gpus" and labels.endswith(" ok")
    }
    assert len(models) == MODELS + 1
    assert (models["model 19"], models["other"]) == (11, sum(range(1, 11)))
    assert names(["b", "a"]) == {"a": "a", "b": "b"}


def test_the_page_has_as_many_series_as_its_document_says(bob: APIClient) -> None:
    """The formula of docs/how-to/scrape-the-server.md, for two models of which everything is measured, one process and one finding."""
    home = node("n1")
    cards = [gpu(home, 0), gpu(home, 1, model="NVIDIA L4")]
    rows = {name: [0.5, 0.5] for name in (*BOUNDS, *SUMS)}
    store().write("gpu", pl.DataFrame({"entity": [card.pk for card in cards], "ts": [int(time.time())] * 2, **rows}))
    numbers = dict.fromkeys(("rows.gpu", "rows.host", "rows.process", "rows.engine", "batches", "waited_s", "lag_s"), 1.0)
    numbers |= dict.fromkeys(("queue_batches", "queue_bytes", "failing", "agents", "forward.rows", "forward.succeeded_at"), 1.0)
    numbers |= dict.fromkeys(("forward.queue_bytes", "forward.failing", *(f"forward.dropped.{why}" for why in DROPPED)), 1.0)
    intake.write("aaaaaaaaaaaa", numbers)
    report(NOW, found(str(cards[0].pk)), Place(home.pk))
    Refusal.objects.create(node_name="n1", code="busy", total=1)
    Cycle.objects.create(name="advise", started_at=NOW, ended_at=NOW)

    assert len(scrape(bob)) == 22 + 73 * 2 + 11 * 1 + 1 + 1 + 1 + 9 * 1


def test_ingest_is_told_by_process_while_that_lives(bob: APIClient) -> None:
    """A process that was silent for long is left out: its queue is not known to be empty."""
    numbers = {
        "batches": 4,
        "waited_s": 6.0,
        "rows.gpu": 32,
        "lag_s": 2.5,
        "queue_batches": 3,
        "queue_bytes": 900,
        "failing": 0.0,
        "agents": 4,
    }
    intake.write("aaaaaaaaaaaa", numbers)
    intake.write("bbbbbbbbbbbb", numbers)
    Intake.objects.filter(process="bbbbbbbbbbbb").update(seen_at=NOW - timedelta(minutes=2))

    told = {labels: value for labels, value in scrape(bob).items() if labels[0].startswith("fettle_ingest")}
    assert told == {
        ("fettle_ingest_rows_total", "aaaaaaaa gpu"): 32, ("fettle_ingest_wait_seconds_count", "aaaaaaaa"): 4,
        ("fettle_ingest_wait_seconds_sum", "aaaaaaaa"): 6, ("fettle_ingest_lag_seconds", "aaaaaaaa"): 2.5,
        ("fettle_ingest_queue_batches", "aaaaaaaa"): 3, ("fettle_ingest_queue_bytes", "aaaaaaaa"): 900,
        ("fettle_ingest_store_failing", "aaaaaaaa"): 0, ("fettle_ingest_agents", "aaaaaaaa"): 4,
    }  # fmt: skip


def test_the_number_of_queries_does_not_grow(bob: APIClient, django_assert_num_queries: DjangoAssertNumQueries) -> None:
    """Nine of its own, two for the readings of now, and two for the token and its person."""
    bob.get("/metrics")  # notes the token's use
    READINGS.forget()
    for number in range(20):
        card = gpu(node(f"n{number}"))
        report(NOW, found(str(card.pk), severity="critical"), Place(card.node_id, (card.pk,)))

    with django_assert_num_queries(13):
        bob.get("/metrics")
    with django_assert_num_queries(11):
        bob.get("/metrics")


def _judged() -> Judged:
    return Judged(rules=frozenset(["power-cap-limited"]), targets=frozenset([("gpu", "2")]))
