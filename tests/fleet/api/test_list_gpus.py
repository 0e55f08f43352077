"""/api/v1/gpus/"""

import time
from datetime import timedelta
from typing import Any

import polars as pl
import pytest
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries
from rest_framework.test import APIClient

from fleet.findings.models import Diagnosis
from fleet.inventory.models import Gpu
from fleet.store.series import store
from tests.fleet.rows import gpu, node

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("memory_store")]


def diagnose(card: Gpu, bottleneck: str = "data") -> Diagnosis:
    """The newest diagnosis of a GPU."""
    now = timezone.now()
    return Diagnosis.objects.create(
        scope="gpu", target=str(card.pk), gpu=card, node=card.node, bottleneck=bottleneck, confidence="high",
        shares={"data": 0.6, "compute": 0.4}, window_start=now - timedelta(minutes=5), window_end=now,
    )  # fmt: skip


def write(card: Gpu, ago_s: int = 3, **values: float) -> int:
    """A row in the store; its time."""
    ts = int(time.time()) - ago_s
    store().write("gpu", pl.DataFrame({"entity": [card.pk], "ts": [ts], **{name: [value] for name, value in values.items()}}))
    return ts


def test_it_gives_the_latest_readings_with_their_time(bob: APIClient) -> None:
    """Absent is null, zero is zero."""
    card = gpu(node())
    write(card, 9, power_w=100.0, sm_active=0.5)
    ts = write(card, 3, power_w=0.0)
    latest = bob.get(f"/api/v1/gpus/{card.pk}/").json()["latest"]

    assert latest["ts"] == ts
    assert latest["values"]["power_w"] == 0
    assert latest["values"]["sm_active"] is None
    assert latest["values"]["temperature_c"] is None


def test_a_slice_has_its_sm_activity_and_no_utilisation(bob: APIClient) -> None:
    """D08: nothing is put in the place of what the driver does not tell, not the card's and not 0."""
    home = node()
    card, part = gpu(home, mig_mode=True), gpu(home, 1, parent_uuid="GPU-n1-0", mig_profile="1g.18gb")
    write(card, power_w=310.0)
    write(part, sm_active=0.42)
    of_card, of_part = (bob.get(f"/api/v1/gpus/{one.pk}/").json()["latest"]["values"] for one in (card, part))

    assert (of_part["sm_active"], of_part["gpu_util_pct"]) == (0.42, None)
    assert (of_card["sm_active"], of_card["gpu_util_pct"]) == (None, None)


def test_old_readings_are_not_the_latest(bob: APIClient) -> None:
    """What is minutes old is not shown as now."""
    card = gpu(node())
    write(card, 600, power_w=100.0)

    assert bob.get(f"/api/v1/gpus/{card.pk}/").json()["latest"] is None


def test_it_gives_the_bottleneck_with_its_shares(bob: APIClient) -> None:
    """Null as long as nothing was judged."""
    home = node()
    judged, new = gpu(home, 0), gpu(home, 1)
    diagnose(judged)
    rows = {row["id"]: row for row in bob.get("/api/v1/gpus/").json()["results"]}

    assert rows[judged.pk]["bottleneck"]["bottleneck"] == "data"
    assert rows[judged.pk]["bottleneck"]["shares"] == {"data": 0.6, "compute": 0.4}
    assert rows[new.pk]["bottleneck"] is None


def test_it_says_when_a_gpu_is_stale_or_gone(bob: APIClient) -> None:
    """The state is its node's, and unknown once its agent no longer lists it."""
    stale = gpu(node("n1", last_seen_at=timezone.now() - timedelta(minutes=5)))
    home = node("n2")
    here, gone = gpu(home, 0), gpu(home, 1, present=False)
    states = {row["id"]: row["state"] for row in bob.get("/api/v1/gpus/").json()["results"]}

    assert states == {stale.pk: "stale", here.pk: "ok", gone.pk: "unknown"}
    for state, card in (("stale", stale), ("ok", here), ("unknown", gone)):
        assert [row["id"] for row in bob.get(f"/api/v1/gpus/?state={state}").json()["results"]] == [card.pk]


def test_it_can_be_narrowed(bob: APIClient) -> None:
    """By node, model and bottleneck."""
    one = gpu(node("n1"), 0, model="NVIDIA H100")
    two = gpu(node("n2"), 0)
    diagnose(two)

    def ids(query: str) -> list[int]:
        return [row["id"] for row in bob.get(f"/api/v1/gpus/?{query}").json()["results"]]

    assert ids("node=n1") == [one.pk]
    assert ids("model=h200") == [two.pk]
    assert ids("bottleneck=data") == [two.pk]
    assert ids(f"uuid={one.uuid}") == [one.pk]


def test_a_page_reads_database_and_store_once(
    bob: APIClient, django_assert_num_queries: DjangoAssertNumQueries, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The numbers of queries and reads do not grow with the page."""
    bob.get("/api/v1/gpus/")
    for number in range(10):
        card = gpu(node(f"n{number}"))
        write(card, power_w=float(number))
        diagnose(card)
    reads: list[object] = []
    real = type(store()).latest

    def counted(*args: Any) -> Any:
        reads.append(args)
        return real(*args)

    monkeypatch.setattr(type(store()), "latest", counted)

    with django_assert_num_queries(5):
        rows = bob.get("/api/v1/gpus/").json()["results"]
    assert [row["latest"]["values"]["power_w"] for row in rows] == [float(number) for number in range(10)]
    assert len(reads) == 1


def test_a_store_that_fails_is_said_so(bob: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """503 with a sentence that names no path."""
    from fleet.store.series import StoreError

    def broken(*_: object) -> None:
        raise StoreError("/secret/path is gone")

    gpu(node())
    monkeypatch.setattr(type(store()), "latest", broken)
    answer = bob.get("/api/v1/gpus/")

    assert answer.status_code == 503
    assert answer.json()["detail"] == "The store of telemetry does not answer; try again shortly."
    assert "/secret" not in answer.content.decode()


def test_a_gpu_tells_its_numa_node_and_who_uses_it(bob: APIClient) -> None:
    """Null and empty where nobody says."""
    one = node("n1")
    gpu(one, 0, numa_node=1, labels={"pod": "train-0", "namespace": "ml"})
    gpu(one, 1)

    assert [(row["numa_node"], row["labels"]) for row in bob.get("/api/v1/gpus/").json()["results"]] == [
        (1, {"pod": "train-0", "namespace": "ml"}),
        (None, {}),
    ]
