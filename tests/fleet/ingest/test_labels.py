"""What is told of processes in words, as rows: one a process, although nobody says when it began and pids come again."""

import pytest
from django.db import OperationalError
from pytest_django import DjangoAssertNumQueries

from fleet.ingest import labels as module
from fleet.ingest.columns import Accepted, Chunk
from fleet.ingest.labels import GAP_S, KEEP_S, SEEN_EVERY_S, LabelBook
from fleet.inventory.models import Node, Process
from tests.fleet.ingest.telling import T, Teller, processes

pytestmark = pytest.mark.django_db


class Spoken:
    """A node whose batches go straight to the book."""

    def __init__(self) -> None:
        self.teller = Teller()
        self.book = LabelBook()

    def says(self, at: float, listed: dict[int, str], labels: dict[int, dict[str, str]] | None = None) -> Accepted:
        """One batch, `at` seconds after T, in a flush of its own."""
        taken = self.teller.says(at, processes=processes(listed, labels))
        self.book.apply([Chunk([taken])])
        return taken

    def rows(self) -> list[tuple[int, str, dict[str, str], float, float]]:
        """Pid, name, labels, and seconds after T at which it was first and last seen."""
        return [
            (row.pid, row.name, row.labels, row.first_seen_at.timestamp() - T, row.last_seen_at.timestamp() - T)
            for row in Process.objects.order_by("first_seen_at", "pid")
        ]


@pytest.fixture
def node() -> Spoken:
    """A node."""
    return Spoken()


def test_labels_that_change_are_one_process(node: Spoken) -> None:
    """What is told replaces what was told before; the name that it gives itself later is its name."""
    node.says(0, {7: "python", 8: "sshd"}, {7: {"torch": "2.9", "slurm_job": "1"}})
    node.says(1, {7: "python"})
    node.says(2, {7: "VLLM::Worker"}, {7: {"engine": "vllm\x00\u202e"}})

    assert node.rows() == [(7, "VLLM::Worker", {"engine": "vllm"}, 0, 2)]


def test_a_process_without_words_has_no_row(node: Spoken) -> None:
    """Who holds a GPU is in the store; rows are for words."""
    node.says(0, {7: "python"}, {7: {}})

    assert node.rows() == []


def test_labels_that_come_after_the_process_was_listed_count(node: Spoken) -> None:
    """Reading them takes a while."""
    node.says(0, {7: "python"})
    node.says(5, {7: "python"}, {7: {"torch": "2.9"}})
    node.says(6, {}, {7: {"torch": "2.9", "cuda": "13.0"}})

    assert node.rows() == [(7, "python", {"torch": "2.9", "cuda": "13.0"}, 5, 6)]


def test_a_pid_that_comes_back_with_other_words_is_another_process(node: Spoken) -> None:
    """The kernel gives pids anew: the first one's row keeps its own words."""
    node.says(0, {7: "python"}, {7: {"slurm_job": "1"}})
    node.says(1, {8: "x"})
    node.says(GAP_S + 1, {7: "python"}, {7: {"slurm_job": "2"}})

    assert node.rows() == [(7, "python", {"slurm_job": "1"}, 0, 0), (7, "python", {"slurm_job": "2"}, GAP_S + 1, GAP_S + 1)]


def test_a_pid_that_comes_back_as_another_program_takes_over_no_words(node: Spoken) -> None:
    """Even while nothing was told of the new one."""
    node.says(0, {7: "python"}, {7: {"slurm_job": "1"}})
    node.says(SEEN_EVERY_S + 1, {7: "hashcat"})
    assert node.rows() == [(7, "python", {"slurm_job": "1"}, 0, 0)]
    node.says(SEEN_EVERY_S + 2, {7: "hashcat"}, {7: {"container": "c"}})

    assert [row[1] for row in node.rows()] == ["python", "hashcat"]


def test_a_listing_that_failed_for_a_moment_ends_no_process(node: Spoken) -> None:
    """A driver that hangs leaves the list empty; an agent that is started anew tells everything once more."""
    node.says(0, {7: "python"}, {7: {"slurm_job": "1"}})
    node.says(10, {})
    node.says(20, {7: "python"}, {7: {"slurm_job": "1", "torch": "2.9"}})
    node.book = LabelBook()
    node.says(1200, {7: "python"}, {7: {"slurm_job": "1", "torch": "2.9"}})

    assert node.rows() == [(7, "python", {"slurm_job": "1", "torch": "2.9"}, 0, 1200)]


def test_a_process_that_runs_on_is_seen_once_a_minute(node: Spoken) -> None:
    """Retention must not take what is still there; nor is each tick a write."""
    node.says(0, {7: "python"}, {7: {"slurm_job": "1"}})
    for at in range(1, 150):
        node.says(at, {7: "python"})

    assert node.rows() == [(7, "python", {"slurm_job": "1"}, 0, 2 * SEEN_EVERY_S)]


def test_a_quiet_tick_asks_the_database_nothing(node: Spoken, django_assert_num_queries: DjangoAssertNumQueries) -> None:
    """Nothing told, nothing due: nothing written, nothing read."""
    node.says(0, {7: "python"}, {7: {"slurm_job": "1"}})
    taken = node.teller.says(1, processes=processes({7: "python"}))

    with django_assert_num_queries(0):
        node.book.apply([Chunk([taken])])


def test_a_backlog_changes_no_words_that_are_newer(node: Spoken) -> None:
    """It may tell of who had the pid before, and of processes that have ended."""
    node.says(1000, {7: "python"}, {7: {"slurm_job": "9"}})
    node.says(500, {7: "train", 6: "python"}, {7: {"slurm_job": "1"}, 6: {"slurm_job": "1"}})
    node.says(999, {7: "python"}, {7: {"slurm_job": "8"}})

    assert node.rows() == [
        (6, "python", {"slurm_job": "1"}, 500, 500),
        (7, "train", {"slurm_job": "1"}, 500, 500),
        (7, "python", {"slurm_job": "9"}, 1000, 1000),
    ]


def test_a_batch_that_comes_again_changes_nothing(node: Spoken) -> None:
    """In this process, and in one that begins after a crash, however long ago the process ended."""
    said = [
        node.says(0, {7: "python"}, {7: {"slurm_job": "1"}}),
        node.says(2 * KEEP_S, {7: "python"}, {7: {"slurm_job": "2"}}),
    ]
    rows = node.rows()
    assert len(rows) == 2
    for book in (node.book, LabelBook()):
        for one in said:
            book.apply([Chunk([one])])
    LabelBook().apply([Chunk(said)])

    assert node.rows() == rows


def test_what_the_database_refused_is_written_by_the_next_call(node: Spoken, monkeypatch: pytest.MonkeyPatch) -> None:
    """The chunk that is tried again finds nothing new in memory, and yet nothing is lost."""

    def locked(*words: object, **more: object) -> None:
        raise OperationalError("database is locked")

    with monkeypatch.context() as patch:
        patch.setattr(type(Process.objects), "bulk_create", locked)
        with pytest.raises(OperationalError):
            node.says(0, {7: "python"}, {7: {"slurm_job": "1"}})
    node.says(1, {7: "python"})
    with monkeypatch.context() as patch:
        patch.setattr(module, "_execute", locked)
        with pytest.raises(OperationalError):
            node.says(2, {7: "python"}, {7: {"slurm_job": "2"}})
    node.says(3, {7: "python"})

    assert [(row[2], row[3]) for row in node.rows()] == [({"slurm_job": "2"}, 0)]


def test_a_node_that_was_deleted_costs_nobody_the_flush(node: Spoken) -> None:
    """Its words go nowhere."""
    taken = node.teller.says(0, processes=processes({7: "python"}, {7: {"slurm_job": "1"}}))
    Node.objects.all().delete()
    node.book.apply([Chunk([taken])])

    assert node.rows() == []


def test_rows_of_a_node_are_bounded(node: Spoken, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those seen last stay."""
    monkeypatch.setattr(module, "MAX_ROWS", 5)
    monkeypatch.setattr(module, "_TRIM_AFTER", 4)
    for number in range(16):
        node.says(number, {number: "p"}, {number: {"slurm_job": "1"}})

    assert [row[0] for row in node.rows()] == [11, 12, 13, 14, 15]


def test_memory_of_processes_that_ended_and_of_silent_nodes_goes(node: Spoken) -> None:
    """After an hour."""
    for number in range(10):
        node.says(number, {number: "p"}, {number: {"slurm_job": "1"}})
    node.says(2 * KEEP_S, {99: "p"}, {99: {"slurm_job": "1"}})
    (kept,) = node.book._nodes.values()
    assert set(kept.known) == {99}
    other = Teller("other")
    node.book.apply([Chunk([other.says(4 * KEEP_S, processes=processes({1: "p"}))])])

    assert set(node.book._nodes) == {other.row.pk}


def test_a_thousand_processes_take_few_statements(node: Spoken, django_assert_max_num_queries: DjangoAssertNumQueries) -> None:
    """New or changed, statements for hundreds of rows each."""
    listed = dict.fromkeys(range(1000), "p")
    for at, job in ((0, "1"), (1, "2")):
        with django_assert_max_num_queries(14):
            node.says(at, listed, {pid: {"slurm_job": job} for pid in listed})

    assert {row[2]["slurm_job"] for row in node.rows()} == {"2"}
    assert len(node.rows()) == 1000
