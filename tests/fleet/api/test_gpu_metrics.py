"""/metrics/gpus"""

import gzip
import time
from collections.abc import Iterator
from typing import Any

import polars as pl
import pytest
from django.http import StreamingHttpResponse
from prometheus_client.parser import text_string_to_metric_families
from pytest_django import Settings
from rest_framework.test import APIClient

from fleet.api.gpu_metrics import NEWEST
from fleet.inventory.models import Engine, Gpu
from fleet.store.series import store
from tests.fleet.rows import NOON, gpu, node

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("memory_store", "page")]


@pytest.fixture
def page(settings: Settings) -> Iterator[None]:
    """The page is on, and nothing of an earlier test is known."""
    settings.FETTLE_METRICS_GPUS = True
    NEWEST.forget()
    yield
    NEWEST.forget()


@pytest.fixture
def cards() -> list[Gpu]:
    """Two GPUs on one node, one on another."""
    one, two = node("n1"), node('n"2\\')
    return [gpu(one, 0), gpu(one, 1, model="NVIDIA L4"), gpu(two, 0)]


def fetch(client: APIClient, query: str = "", **headers: str) -> StreamingHttpResponse:
    """The page as it is sent."""
    answer: Any = client.get(f"/metrics/gpus{query}", headers={name.replace("_", "-"): value for name, value in headers.items()})
    assert answer.status_code == 200, answer.content
    assert isinstance(answer, StreamingHttpResponse)
    return answer


def read(client: APIClient, query: str = "") -> dict[tuple[str, str], float]:
    """Each sample's value by its name and its GPU's UUID, or its host."""
    families = text_string_to_metric_families(fetch(client, query).getvalue().decode())
    return {
        (one.name, one.labels.get("UUID", one.labels.get("Hostname", ""))): one.value
        for family in families
        for one in family.samples
    }


def write(cards: list[Gpu], *power: float | None, ago: int = 1) -> None:
    """One row of each GPU."""
    rows = {"entity": [card.pk for card in cards], "ts": [int(time.time()) - ago] * len(cards), "power_w": list(power)}
    store().write("gpu", pl.DataFrame(rows, schema_overrides={"power_w": pl.Float64}))


def test_each_reading_has_the_labels_of_dcgm_exporter(bob: APIClient, cards: list[Gpu]) -> None:
    """Names are those of the series in VictoriaMetrics; a label's text is escaped."""
    write(cards, 512.25, None, 70.0)

    (family,) = text_string_to_metric_families(fetch(bob).getvalue().decode())
    assert (family.name, family.type) == ("fettle_gpu_power_w", "gauge")
    assert [(one.labels, one.value) for one in family.samples] == [
        ({"entity": str(cards[0].pk), "Hostname": "n1", "UUID": "GPU-n1-0", "gpu": "0", "modelName": "NVIDIA H200"}, 512.25),
        ({"entity": str(cards[2].pk), "Hostname": 'n"2\\', "UUID": 'GPU-n"2\\-0', "gpu": "0", "modelName": "NVIDIA H200"}, 70.0),
    ]


def test_what_is_old_or_gone_is_left_out(bob: APIClient, cards: list[Gpu]) -> None:
    """A silent GPU has no sample, so a scraper ends its series; nor has one that its agent no longer lists."""
    write(cards[:1], 1.0, ago=31)
    write(cards[1:], 2.0, 3.0)
    Gpu.objects.filter(pk=cards[1].pk).update(present=False)

    assert read(bob) == {("fettle_gpu_power_w", 'GPU-n"2\\-0'): 3.0}


def test_a_clock_that_is_off_is_not_silence(bob: APIClient) -> None:
    """A node whose clock is an hour behind reports now."""
    card = gpu(node("n1", clock_skew_s=-3600.0))
    write([card], 5.0, ago=3601)

    assert read(bob) == {("fettle_gpu_power_w", "GPU-n1-0"): 5.0}


def test_scopes_metrics_and_nodes_narrow_it(bob: APIClient, cards: list[Gpu]) -> None:
    """Each may be given often, metrics and scopes with commas too; counters say that they are."""
    engine = Engine.objects.create(
        node=cards[0].node, name="http://127.0.0.1:8000", kind="vllm", first_seen_at=NOON, last_seen_at=NOON
    )
    now = int(time.time())
    store().write(
        "gpu",
        pl.DataFrame({"entity": [card.pk for card in cards], "ts": [now] * 3, "power_w": [1.0] * 3, "energy_j_total": [9.5] * 3}),
    )
    store().write("host", pl.DataFrame({"entity": [cards[0].node_id], "ts": [now], "load_1min": [2.0]}))
    store().write("engine", pl.DataFrame({"entity": [engine.pk], "ts": [now], "requests_running": [3.0]}))

    assert set(read(bob, "?metric=energy_j_total&node=n1")) == {
        ("fettle_gpu_energy_j_total", "GPU-n1-0"),
        ("fettle_gpu_energy_j_total", "GPU-n1-1"),
    }
    assert read(bob, "?scope=host,engine&metric=load_1min&metric=requests_running") == {
        ("fettle_host_load_1min", "n1"): 2.0, ("fettle_engine_requests_running", "n1"): 3.0,
    }  # fmt: skip
    assert len(read(bob, "?scope=gpu&scope=host&scope=engine")) == 8
    assert read(bob, "?node=elsewhere") == {}
    assert b"# TYPE fettle_gpu_energy_j_total counter" in fetch(bob).getvalue()


@pytest.mark.parametrize(
    ("query", "word"),
    [
        ("scope=process", "process is none of gpu, host, engine"),
        ("metric=watts", "no metric watts"),
        ("gpu=1", "no parameter gpu"),
    ],
)
def test_a_question_that_cannot_be_answered_is_refused(bob: APIClient, query: str, word: str) -> None:
    """400 with a sentence; a page without what was asked for would look like silence."""
    answer = bob.get(f"/metrics/gpus?{query}")

    assert answer.status_code == 400
    assert word in answer.content.decode()


def test_it_is_off_until_a_setting_says_so_and_never_for_strangers(
    bob: APIClient, stranger: APIClient, settings: Settings
) -> None:
    """404 names the setting; 401 for who has no token."""
    assert stranger.get("/metrics/gpus").status_code == 401

    settings.FETTLE_METRICS_GPUS = False
    answer = bob.get("/metrics/gpus")
    assert answer.status_code == 404
    assert "FETTLE_METRICS_GPUS" in answer.content.decode()


def test_it_is_packed_for_those_who_take_that(bob: APIClient, cards: list[Gpu]) -> None:
    """Prometheus does; what it unpacks is the same text."""
    write(cards, 1.0, 2.0, 3.0)
    plain = fetch(bob).getvalue()
    packed = fetch(bob, accept_encoding="gzip")

    assert packed["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed.getvalue()) == plain


def test_a_second_scraper_within_a_second_reads_nothing_anew(bob: APIClient, cards: list[Gpu]) -> None:
    """The rows are kept for a second; then the page is new."""
    write(cards, 1.0, 2.0, 3.0, ago=2)
    before = read(bob)
    write(cards, 4.0, 5.0, 6.0)

    assert read(bob) == before
    NEWEST.forget()  # as a second does
    assert read(bob)["fettle_gpu_power_w", "GPU-n1-0"] == 4.0


def test_a_store_that_cannot_be_read_is_503(bob: APIClient, settings: Settings) -> None:
    """A scraper then knows that its target is down."""
    settings.FETTLE_STORE = "nonsense"
    store.cache_clear()

    assert bob.get("/metrics/gpus").status_code == 503
