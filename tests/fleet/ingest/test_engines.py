"""Serving engines become rows of the inventory, and their readings series of those rows."""

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace
from pytest_django import DjangoAssertNumQueries

from fleet.ingest import engines as module
from fleet.ingest.columns import Accepted, Chunk, gather
from fleet.ingest.engines import MAX_ROWS, SEEN_EVERY_S, resolve
from fleet.ingest.window import Ring
from fleet.inventory.models import Engine, Node
from fleet.store.memory import MemorySeries
from tests.fleet.ingest.telling import URL, T, Teller, engines
from wire.codec import WireError
from wire.messages import EngineAbsence, Engines

pytestmark = pytest.mark.django_db


def chunk(*taken: Accepted) -> Chunk:
    """The batches as columns."""
    return gather(list(taken), Ring())


def test_an_engine_appears_with_its_readings_under_its_id() -> None:
    """Two nodes may ask the same address: each has an engine of its own. What it does not say is null."""
    one, two = Teller("a"), Teller("b")
    rows = resolve([chunk(one.says(0, engines=engines(URL, requests_running=3, kv_cache_used=0.5)),
                          two.says(0, engines=engines(URL, requests_running=9)),
                          one.says(1, engines=engines(URL, requests_running=4)))])  # fmt: skip
    assert rows is not None
    store = MemorySeries()
    store.write("engine", rows)
    first, second = Engine.objects.get(node=one.row), Engine.objects.get(node=two.row)

    stored = store.window("engine", int(T), int(T) + 9)
    assert stored.select("entity", "ts", "requests_running", "kv_cache_used").rows() == [
        (first.pk, int(T), 3, 0.5), (first.pk, int(T) + 1, 4, None), (second.pk, int(T), 9, None),
    ]  # fmt: skip
    assert (first.kind, first.model, first.pid, first.first_seen_at.timestamp()) == ("vllm", "Qwen3-8B", 4711, T)


def test_an_engine_that_could_not_be_asked_is_there_without_values() -> None:
    """Absent is not zero, and not gone."""
    teller = Teller()
    rows = resolve([chunk(teller.says(0, engines=engines(URL)))])

    assert rows is not None
    assert rows.select("requests_running", "kv_cache_used").rows() == [(None, None)]


def test_an_impossible_value_is_null_counted_and_no_absence_of_a_gpu() -> None:
    """Absences are of GPUs and the host; an engine's id may equal a GPU's."""
    teller = Teller()
    made = chunk(teller.says(0, engines=engines(URL, kv_cache_used=7.0, requests_running=2)))
    rows = resolve([made])

    assert rows is not None
    assert rows.select("kv_cache_used", "requests_running").rows() == [(None, 2)]
    assert [(bad.metric, bad.gpu, bad.of_engine) for bad in made.impossible] == [("kv_cache_used", None, True)]


def test_what_an_engine_says_of_itself_follows_the_newest_batch() -> None:
    """A backlog changes no words; text is cleaned; the time is written once a minute."""
    teller = Teller()
    resolve([chunk(teller.says(10, engines=engines(URL, model="a")))])
    resolve(
        [
            chunk(
                teller.says(20, engines=engines(URL, model="b\x00\u202e", pid=5)),
                teller.says(5, engines=engines(URL, model="old")),
            )
        ]
    )
    engine = Engine.objects.get()
    assert (engine.model, engine.pid, engine.last_seen_at.timestamp()) == ("b", 5, T + 20)
    resolve([chunk(teller.says(30, engines=engines(URL, model="b", pid=5)))])
    engine.refresh_from_db()
    assert engine.last_seen_at.timestamp() == T + 20
    resolve([chunk(teller.says(20 + SEEN_EVERY_S, engines=engines(URL, model="b", pid=5)))])
    engine.refresh_from_db()

    assert engine.last_seen_at.timestamp() == T + 20 + SEEN_EVERY_S
    assert Engine.objects.count() == 1


def test_the_same_chunk_twice_makes_one_engine() -> None:
    """A flush that failed is tried again."""
    made = chunk(Teller().says(0, engines=engines(URL)))

    assert resolve([made]) is not None
    assert resolve([made]) is not None
    assert Engine.objects.count() == 1


def test_ever_new_names_leave_a_bounded_number_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engines that were not told of for the longest go; those of the batch at hand, and those of other nodes, stay."""
    monkeypatch.setattr(module, "MAX_ROWS", 8)
    assert MAX_ROWS > 8
    teller, other = Teller("a"), Teller("b")
    resolve([chunk(other.says(0, engines=engines(URL)))])
    for number in range(5):
        resolve([chunk(teller.says(number, engines=engines(*(f"http://h{number}:{port}" for port in range(4)))))])

    assert {engine.name for engine in teller.row.engines.all()} == {f"http://h{n}:{port}" for n in (3, 4) for port in range(4)}
    assert other.row.engines.count() == 1


def test_an_engine_of_a_node_that_was_deleted_costs_nobody_the_flush() -> None:
    """Its rows are left out, the others' are stored."""
    gone, here = Teller("a"), Teller("b")
    made = chunk(gone.says(0, engines=engines(URL)), here.says(0, engines=engines(URL)))
    Node.objects.filter(pk=gone.row.pk).delete()
    rows = resolve([made])

    assert rows is not None
    assert rows["entity"].to_list() == [here.row.engines.get().pk]


def test_an_engine_that_a_person_deleted_is_made_anew() -> None:
    """As long as its agent tells of it."""
    teller = Teller()
    resolve([chunk(teller.says(0, engines=engines(URL)))])
    Engine.objects.all().delete()
    resolve([chunk(teller.says(1, engines=engines(URL)))])

    assert Engine.objects.get().first_seen_at == datetime.fromtimestamp(T + 1, UTC)


def test_a_flush_of_many_nodes_takes_few_statements(django_assert_max_num_queries: DjangoAssertNumQueries) -> None:
    """Statements for hundreds of rows each, whether the engines are new or known."""
    tellers = [Teller(f"n{number}") for number in range(40)]
    for at in (0, 100):
        made = chunk(*(teller.says(at, engines=engines(URL, "http://h:2")) for teller in tellers))
        with django_assert_max_num_queries(8):
            resolve([made])

    assert Engine.objects.count() == 80


def test_batches_without_engines_ask_the_database_nothing(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    """Most nodes serve nothing."""
    made = chunk(Teller().says(0))
    with django_assert_num_queries(0):
        assert resolve([made]) is None


def because(reason: str | None, **metrics: str) -> Engines:
    """One engine and its reasons."""
    return replace(engines(URL), absent=[EngineAbsence(URL, reason, metrics)])


def test_why_an_engine_tells_nothing_is_kept_until_something_else_is_told() -> None:
    """Batches that tell no reason change none; the newest one counts, an older one does not."""
    teller = Teller()
    resolve([chunk(teller.says(0, engines=because("timeout")))])
    resolve([chunk(teller.says(1, engines=engines(URL)))])
    engine = Engine.objects.get()
    assert (engine.why_silent, engine.absent) == ("timeout", {})
    resolve([chunk(teller.says(90, engines=because(None, kv_cache_used="unsupported")), teller.says(91, engines=engines(URL)))])
    resolve([chunk(teller.says(5, engines=because("not_found")))])
    engine.refresh_from_db()

    assert (engine.why_silent, engine.absent) == ("", {"kv_cache_used": "unsupported"})


@pytest.mark.parametrize(
    "bad",
    [
        EngineAbsence("http://other", "timeout"),
        EngineAbsence(URL, "because"),
        EngineAbsence(URL, None, {"kv_cache_used": "because"}),
        EngineAbsence(URL, None, {"secret": "timeout"}),
    ],
)
def test_reasons_that_are_none_are_refused(bad: EngineAbsence) -> None:
    """As those of GPUs; and of engines that the batch does not list."""
    with pytest.raises(WireError, match="wrong_shape"):
        Teller().says(0, engines=replace(engines(URL), absent=[bad]))


def test_an_engines_reasons_are_told_once_in_a_batch() -> None:
    """Which of the two were true?"""
    with pytest.raises(WireError, match="twice"):
        Teller().says(0, engines=replace(engines(URL), absent=[EngineAbsence(URL, "timeout"), EngineAbsence(URL, None)]))
