"""What the advisor knows beside the samples: minutes of the rarer metrics, words, engines."""

from datetime import datetime, timedelta
from typing import Any

import polars as pl
import pytest
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from advisor import services
from fleet.findings import allocated, minutes, told
from fleet.findings.windows import NOTHING, Look
from fleet.inventory.models import Engine, Node, Process
from fleet.store.series import store
from tests.fleet.rows import gpu, node

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("memory_store")]
NOW = timezone.now().replace(microsecond=0)
SERVES = pl.DataFrame(schema=services.SERVES)


def swaps(home: Node, first: int, seconds: int, each: float) -> None:
    """The host's rows: a counter that grows by `each` a second."""
    rows = [{"entity": home.pk, "ts": first + second, "swap_in_bytes_total": (second + 1) * each} for second in range(seconds)]
    store().write("host", pl.DataFrame(rows, schema_overrides={"ts": pl.Int64}))


def test_five_minutes_are_read_once_and_merged() -> None:
    """The next look within the minute reads nothing, and the minute after it one minute."""
    home = node("n1")
    end = int(NOW.timestamp()) // 60 * 60
    swaps(home, end - 300, 300, 1e6)
    at = datetime.fromtimestamp(end + minutes.LATE_S, NOW.tzinfo)

    first = minutes.last(at, 300, SERVES)

    assert first.host["swap_in_bytes_total|growth"].to_list() == [299e6]
    assert minutes.last(at + timedelta(seconds=20), 300, SERVES) is first
    later = minutes.last(at + timedelta(seconds=60), 300, SERVES)
    assert later.host["swap_in_bytes_total|growth"].to_list() == [239e6]


def test_a_minute_that_is_not_over_is_left_for_the_next_look() -> None:
    """Ingest writes seconds later: a minute is read when all of it can be there."""
    home = node("n1")
    end = int(NOW.timestamp()) // 60 * 60
    swaps(home, end - 60, 60, 1e6)

    early = minutes.last(datetime.fromtimestamp(end + minutes.LATE_S - 1, NOW.tzinfo), 60, SERVES)
    over = minutes.last(datetime.fromtimestamp(end + minutes.LATE_S, NOW.tzinfo), 60, SERVES)

    assert early.host.is_empty()
    assert over.host["samples"].to_list() == [60]


def process(home: Node, pid: int, labels: dict[str, str], **more: Any) -> Process:
    """A process that is there."""
    seen = {"told_at": NOW, "first_seen_at": NOW, "last_seen_at": NOW}
    return Process.objects.create(node=home, pid=pid, name="python", labels=labels, **(seen | more))


def test_labels_are_read_when_they_change(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    """Who was told of before costs one query for all; who left is forgotten."""
    home = node("n1")
    one = process(home, 7, {"launcher": "torchrun", "flag.num-workers": "4"})
    words = told.Words()
    assert words.frame(NOW, {"flag_num_workers"}).select("pid", "launcher", "flag_num_workers").rows() == [(7, "torchrun", 4.0)]

    with django_assert_num_queries(1):
        again = words.frame(NOW, {"flag_num_workers"})
    assert again["pid"].to_list() == [7]

    one.labels, one.told_at = {"launcher": "deepspeed"}, NOW + timedelta(seconds=1)
    one.save()
    assert words.frame(NOW, {"flag_num_workers"}).select("launcher", "flag_num_workers").rows() == [("deepspeed", None)]
    assert words.frame(NOW + timedelta(hours=1), ()).is_empty()


def engine(home: Node, name: str, pid: int | None) -> Engine:
    """A vLLM that is there."""
    return Engine.objects.create(node=home, name=name, kind="vllm", model="m", pid=pid, first_seen_at=NOW, last_seen_at=NOW)


def test_an_engines_gpus_are_its_own_process_or_those_that_it_started() -> None:
    """A front without a GPU has the workers of its kind on its node; of two fronts nobody knows whose they are."""
    home, other = node("n1"), node("n2")
    held = pl.DataFrame(
        [(home.pk, 1, 50), (home.pk, 2, 51), (other.pk, 3, 60)],
        schema={"node": pl.Int64, "gpu": pl.Int64, "pid": pl.Int64},
        orient="row",
    )
    front = engine(home, "http://127.0.0.1:8000", 40)
    own = engine(other, "http://127.0.0.1:8000", 60)
    serving = {(home.pk, 50): "vllm", (home.pk, 51): "vllm", (home.pk, 40): "vllm"}

    named, serves = told.engines(NOW, held, serving)

    assert named["service"].to_list() == [front.pk, own.pk]
    assert serves.rows() == [(front.pk, 1, 50), (front.pk, 2, 51), (own.pk, 3, 60)]

    engine(home, "http://127.0.0.1:8001", None)
    _, serves = told.engines(NOW, held, serving)
    assert serves.rows() == [(own.pk, 3, 60)]


def test_a_gpu_of_nobody_serves_nothing() -> None:
    """An engine whose process is on no GPU, and of which no worker is known."""
    card = gpu(node("n1"))
    engine(card.node, "http://127.0.0.1:8000", 40)

    _, serves = told.engines(NOW, pl.DataFrame(schema={"node": pl.Int64, "gpu": pl.Int64, "pid": pl.Int64}), {})

    assert serves.is_empty()


def test_whom_a_gpu_is_given_to_is_told_while_it_is_listed() -> None:
    """The pod before the job; a card that went has nobody."""
    home = node("n1")
    one, two, gone = (gpu(home, index=number) for number in range(3))
    for card, labels in ((one, {"pod": "train-0", "hpc_job": "17"}), (two, {"hpc_job": "18"}), (gone, {"pod": "x"})):
        card.labels, card.labels_told_at, card.present = labels, NOW, card is not gone
        card.save()

    frame = allocated.of_gpus(NOW, Look(NOTHING, {}, frozenset()))
    assert frame.sort("gpu").select("gpu", "allocated_to").rows() == [(one.pk, "train-0"), (two.pk, "18")]
