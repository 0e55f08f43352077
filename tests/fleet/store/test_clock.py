"""Telemetry of nodes whose clocks are off, read on the server's clock: each call of the store, then every reader of it."""

import time
from datetime import UTC, datetime
from typing import Any

import polars as pl
import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import Settings
from rest_framework.test import APIClient

from fleet.accounts.models import User
from fleet.api import readings as api
from fleet.dashboard import readings
from fleet.findings.windows import look
from fleet.inventory.models import Gpu, Node
from fleet.store import clock
from fleet.store.series import store
from tests.fleet.rows import gpu, node

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("memory_store")]
OFF = {"45-s-behind": -45.2, "10-min-behind": -600.4, "2-h-behind": -7200.0, "30-s-ahead": 30.3}
T = 1_750_000_000


@pytest.fixture(autouse=True)
def no_snapshot() -> None:
    """What another test read is forgotten."""
    readings.fleet.forget()


def reporting(name: str, skew: float | None, now: float, seconds: int = 90) -> Gpu:
    """A node whose samples came each second until `now`, each with the time of its own clock."""
    card = gpu(node(name, clock_skew_s=skew, last_seen_at=timezone.now()))
    own = int(now) + round(skew or 0.0)
    ts = list(range(own - seconds + 1, own + 1))
    power = [float(at - own) + 1000 for at in ts]  # 1000 W now, one less for each second before
    key = {"entity": [card.pk] * seconds, "ts": ts}
    store().write("gpu", pl.DataFrame({**key, "power_w": power, "sm_active": [0.5] * seconds}))
    store().write("process", pl.DataFrame({**key, "pid": [7] * seconds, "name": ["p"] * seconds, "user": ["u"] * seconds,
                                           "gpu_mem_bytes": [1e9] * seconds}))  # fmt: skip
    total = [1e9 + at * 1e6 for at in range(seconds)]
    store().write("host", pl.DataFrame({"entity": [card.node_id] * seconds, "ts": ts, "disk_read_bytes_total": total}))
    return card


def test_small_skews_are_none_so_that_axes_do_not_tremble() -> None:
    """Only what is off by two seconds or more moves, and by whole seconds."""
    cards = [reporting(f"n{number}", skew, T) for number, skew in enumerate((None, 0.0, 1.9, -1.9, 2.2, -45.6))]

    assert clock.ahead("gpu") == {cards[4].pk: 2, cards[5].pk: -46}
    assert clock.ahead("host") == {cards[4].node_id: 2, cards[5].node_id: -46}
    assert clock.ahead("process", [cards[4].pk, cards[0].pk]) == {cards[4].pk: 2}


def test_rows_of_all_clocks_come_back_in_one_order_and_one_time() -> None:
    """The span asked for is the server's, whatever each node calls it; nothing is doubled and nothing is missing."""
    cards = [reporting(name, skew, T) for name, skew in {"right": None, **OFF}.items()]
    ids = [card.pk for card in cards]
    for entities in (ids, None):
        frame = clock.window("gpu", T - 9, T + 1, entities, ["power_w"])
        newest = clock.latest("process", T - 30, entities)

        assert frame["entity"].to_list() == [pk for pk in ids for _ in range(10)]
        assert frame["ts"].to_list() == list(range(T - 9, T + 1)) * len(ids)
        assert frame["power_w"].to_list() == [991.0 + at for at in range(10)] * len(ids)
        assert sorted(newest.select("entity", "pid", "ts").iter_rows()) == [(pk, 7, T) for pk in ids]


def test_what_is_old_stays_old() -> None:
    """Reading further back for one node's sake shows nobody's old rows as new."""
    silent = [reporting(f"{name}-silent", skew, T - 100) for name, skew in {"right": None, **OFF}.items()]
    reporting("fresh", -600.0, T)

    assert clock.latest("gpu", T - 30, [card.pk for card in silent]).is_empty()
    assert clock.latest("gpu", T - 30).height == 1


@pytest.mark.parametrize("step", [1, 2, 10, 60, 240])
@pytest.mark.parametrize("skew", OFF.values(), ids=OFF)
def test_buckets_stand_on_the_servers_grid(skew: float, step: int) -> None:
    """Right to half a bucket, and at multiples of the step as everyone expects them."""
    card = reporting("n", skew, T, seconds=600)
    frame = clock.series("gpu", card.pk, ["power_w"], T - 480, T, step)

    assert all(ts % step == 0 for ts in frame["ts"])
    ages = [T - ts - (1000 - power) for ts, power in frame.select("ts", "power_w").iter_rows()]
    assert frame.height >= 480 // step - 1
    assert max(map(abs, ages)) <= 1.5 * step + 1  # half a bucket, and where in a bucket its mean lies


@pytest.mark.parametrize("skew", OFF.values(), ids=OFF)
def test_pages_show_the_newest_values_of_a_node_whose_clock_is_off(skew: float) -> None:
    """A page that says "reporting" has values in its cells, its map and its charts, at the server's time."""
    now = time.time()
    card = reporting("n", skew, now)
    client = Client()
    client.force_login(User.objects.create_user("vera", password="x"))

    assert not Node.objects.get().is_stale
    assert readings.newest("gpu", [card.pk])[card.pk]["power_w"] == 1000.0
    assert [row["pid"] for row in readings.processes([card.pk])] == [7]
    assert readings.host(card.node_id)["disk_read_bytes_per_s"] == pytest.approx(1e6)
    assert readings.summarise(readings.fleet.snapshot()).busy == 1
    figure = client.get(f"/gpus/{card.pk}/series.json?minutes=10").json()["figures"]["power"]["data"][0]
    x0 = datetime.strptime(figure["x0"], "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC).timestamp()
    drawn = [x0 + number * figure["dx"] / 1000 for number, value in enumerate(figure["y"]) if value is not None]
    assert abs(drawn[-1] - now) < 5
    assert abs(drawn[0] - (now - 90)) < 5


@pytest.mark.parametrize("skew", OFF.values(), ids=OFF)
def test_the_api_gives_the_newest_values_of_a_node_whose_clock_is_off(skew: float) -> None:
    """Its times are the server's too."""
    now = time.time()
    card = reporting("n", skew, now)
    bob = APIClient()
    bob.force_authenticate(User.objects.create_user("bob", password="x"))
    latest = bob.get(f"/api/v1/gpus/{card.pk}/").json()["latest"]

    assert latest["values"]["power_w"] == 1000.0
    assert abs(latest["ts"] - now) <= 2
    end = int(now) + 1
    assert api.columns("gpu", card.pk, ["power_w"], end - 3, end, 1)["power_w"][-1] == pytest.approx(1000.0, abs=1)


@pytest.mark.parametrize("skew", OFF.values(), ids=OFF)
def test_the_advisor_judges_a_node_whose_clock_is_off(skew: float, settings: Settings) -> None:
    """Its window is as full as anyone's, and stands beside theirs."""
    now = int(time.time())
    right, off = reporting("right", None, now), reporting("off", skew, now)
    seen = look(timezone.now(), 60, 2.0)

    times = {pk: seen.window.gpu.filter(pl.col("gpu") == pk)["t"].to_list() for pk in (right.pk, off.pk)}
    assert seen.fresh_nodes == {right.node_id, off.node_id}
    assert abs(len(times[off.pk]) - len(times[right.pk])) <= 1
    assert abs(times[off.pk][-1] - times[right.pk][-1]) <= 1
    assert set(seen.window.process["gpu"]) == {right.pk, off.pk}
    assert set(seen.window.host["node"]) == {right.node_id, off.node_id}


@pytest.mark.parametrize("scope", ["gpu", "process", "host"])
def test_what_a_clock_that_was_set_back_left_in_the_future_is_not_the_newest(scope: Any) -> None:
    """A node lives an hour again: its newest row is the one that it told of last, not the one from before."""
    now = int(time.time())
    card = reporting("set-back", -3600.0, now - 3600)
    entity = card.node_id if scope == "host" else card.pk
    pid = {"pid": [7]} if scope == "process" else {}
    store().write(scope, pl.DataFrame({"entity": [entity], "ts": [now], **pid}))  # before its clock was set back
    store().write(scope, pl.DataFrame({"entity": [entity], "ts": [now - 3601], **pid}))
    other = reporting("right", None, now)
    found = clock.latest(scope, now - 7200, [entity, other.node_id if scope == "host" else other.pk])

    assert dict(found.select("entity", "ts").iter_rows()) == {
        entity: now - 1,
        other.node_id if scope == "host" else other.pk: now,
    }
    assert found.columns == store().latest(scope, 0).columns
