"""Absences as rows: what agents say lasts until they say otherwise, what the server refused ends by itself."""

from typing import Any

import pytest
from django.db import OperationalError

from fleet.ingest import absence
from fleet.ingest.absence import CLOSES_AFTER_S, AbsenceBook
from fleet.ingest.accept import Session, check_batch, check_hello
from fleet.ingest.columns import Accepted, gather
from fleet.ingest.outbox import Outbox
from fleet.ingest.window import Ring
from fleet.inventory.models import Absence, Gpu, Node
from tests.speaking import batch, hello
from wire.codec import WireError
from wire.messages import PODS, AbsentChange, Batch, Hold, Processes
from wire.metrics import HELD

pytestmark = pytest.mark.django_db

T = 1_750_000_000.0


async def nobody(message: object) -> None:
    """Nobody listens to the acks."""


class Node1:
    """A node with two GPUs whose batches go straight to the book."""

    def __init__(self) -> None:
        self.said = hello("n")
        row = Node.objects.create(name="n")
        self.gpus = tuple(Gpu.objects.create(node=row, uuid=f"GPU-n-{n}", index=n, model="H200").pk for n in (0, 1))
        self.session = Session(
            node=row.pk,
            node_name="n",
            boot="boot-1",
            layout=check_hello(self.said, "n"),
            gpus=self.gpus,
            gpu_by_uuid={},
            outbox=Outbox(nobody),
        )
        self.book = AbsenceBook()
        self.seq = 0

    def says(self, at: float, power_w: float | None = None, *absent: AbsentChange, holds: tuple[Hold, ...] = ()) -> None:
        """One batch, `at` seconds after T."""
        processes = Processes(holds=list(holds))
        made = batch(self.said, self.seq, T + at, {"power_w": power_w}, absent=list(absent), processes=processes)
        self.seq += 1
        check_batch(made, self.session, T + at)
        self.take(made)

    def take(self, made: Batch) -> None:
        """One batch into the book."""
        self.book.apply([gather([Accepted(self.session, made, made.t, 100)], Ring())])

    def rows(self) -> list[tuple[str, str, int, float | None]]:
        """Metric, reason, place of the GPU, and seconds after T at which it ended."""
        return [
            (row.metric, row.reason, self.gpus.index(row.gpu_id or 0), None if row.until is None else row.until.timestamp() - T)
            for row in Absence.objects.order_by("since", "pk")
        ]


@pytest.fixture
def node() -> Node1:
    """A node with two GPUs."""
    return Node1()


def test_what_an_agent_calls_impossible_stays_absent_until_it_is_back(node: Node1) -> None:
    """Its gate has the same reason as the server's and says so once: silence is no end of it, not even over a restart."""
    node.says(0, None, AbsentChange(0, "power_w", "out_of_range"))
    for at in range(1, 3 * int(CLOSES_AFTER_S), 10):
        node.says(at)
    node.book = AbsenceBook()
    node.says(200, None, AbsentChange(1, "fp64_active", "unsupported"))
    node.says(300)

    assert node.rows() == [("power_w", "out_of_range", 0, None), ("fp64_active", "unsupported", 1, None)]
    node.says(310, 250.0, AbsentChange(0, "power_w", None))
    assert node.rows()[0] == ("power_w", "out_of_range", 0, 310.0)


def test_what_the_server_refused_ends_when_nothing_was_refused_for_a_while(node: Node1) -> None:
    """One bad value is one short row, even when the server starts anew in between."""
    node.says(0, 1e9)
    node.book = AbsenceBook()
    node.says(5, 250.0, AbsentChange(1, "fp64_active", "unsupported"))
    assert node.rows()[:2] == [("power_w", "out_of_range", 0, None), ("power_w", "out_of_range", 1, None)]
    node.says(CLOSES_AFTER_S + 2, 250.0)

    assert node.rows()[:2] == [("power_w", "out_of_range", 0, 1.0), ("power_w", "out_of_range", 1, 1.0)]


def test_a_value_that_is_still_impossible_is_one_row(node: Node1) -> None:
    """A batch that tells of another absence does not end it: the value that it brings was refused as well."""
    node.says(0, 1e9)
    node.says(1, 1e9, AbsentChange(0, "fp64_active", "unsupported"))

    assert [row for row in node.rows() if row[0] == "power_w"] == [("power_w", "out_of_range", n, None) for n in (0, 1)]


def test_an_agent_that_learns_of_it_takes_the_absence_over(node: Node1) -> None:
    """What the server refused and the agent then calls absent lasts until the agent says that it is back."""
    node.says(0, 1e9)
    node.says(1, None, AbsentChange(0, "power_w", "out_of_range"), AbsentChange(1, "power_w", "timeout"))
    node.says(2 * CLOSES_AFTER_S)

    assert node.rows()[2:] == [("power_w", "out_of_range", 0, None), ("power_w", "timeout", 1, None)]


def test_processes_that_cannot_be_listed_are_an_absence(node: Node1) -> None:
    """Its own row for each GPU, from the batch that said so until the one that says that they are back."""
    node.says(0, 1.0, AbsentChange(1, "processes", "timeout"))
    node.says(1, 1.0, AbsentChange(0, "fp64_active", "unsupported"), holds=(Hold(0, 7, None),))
    assert node.rows()[0] == ("processes", "timeout", 1, None)
    node.says(9, 1.0, AbsentChange(1, "processes", None))

    assert node.rows()[0] == ("processes", "timeout", 1, 9.0)


def test_a_holder_is_the_end_of_an_absence_of_processes_whose_end_was_lost(node: Node1) -> None:
    """As a value is for a metric."""
    node.says(0, 1.0, AbsentChange(0, "processes", "timeout"), AbsentChange(1, "processes", "timeout"))
    node.says(5, 1.0, AbsentChange(0, "fp64_active", "unsupported"), holds=(Hold(1, 7, None),))

    assert node.rows()[:2] == [("processes", "timeout", 0, None), ("processes", "timeout", 1, 5.0)]


@pytest.mark.parametrize(
    "change",
    [AbsentChange(-1, "processes", "timeout"), AbsentChange(0, "processes", "?"), AbsentChange(0, "power_w", ""),
     AbsentChange(0, "power_w", "because"), AbsentChange(0, "process", "timeout"), AbsentChange(0, "cpu_busy_cores", "timeout")],
)  # fmt: skip
def test_other_names_and_reasons_are_refused(node: Node1, change: AbsentChange) -> None:
    """Registry names of the scope, and `processes` for a GPU; reasons of the registry alone."""
    with pytest.raises(WireError, match="wrong_shape"):
        node.says(0, 1.0, change)


def test_two_changes_of_one_metric_in_one_batch_are_refused(node: Node1) -> None:
    """A batch is one moment: a metric is absent in it or not."""
    with pytest.raises(WireError, match="wrong_shape"):
        node.says(0, 1.0, AbsentChange(0, "power_w", "timeout"), AbsentChange(0, "power_w", None))


def test_what_flaps_without_end_is_written_at_its_share_and_ends_in_its_last_state(
    node: Node1, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows stay few however often an agent changes its mind; once it is calm the newest state is the one that stands."""
    monkeypatch.setattr(absence, "CHANGES_AT_ONCE", 10)
    for number in range(200):
        node.says(0.001 * number, None, AbsentChange(0, "power_w", "timeout" if number % 2 else "gpu_lost"))
    assert 10 <= Absence.objects.count() < 20
    node.says(30)

    assert [row[:2] for row in node.rows() if row[3] is None] == [("power_w", "timeout")]


def test_what_waits_for_its_share_holds_the_batches_that_said_it(node: Node1, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each key the newest alone: a batch all of whose changes are written or overtaken is held no longer, so few ever are."""
    monkeypatch.setattr(absence, "CHANGES_AT_ONCE", 1)
    for number in range(100):
        node.says(0.001 * number, None, AbsentChange(0, "power_w", ("timeout", "gpu_lost")[number % 2]))
    assert node.book.held() == {(node.session, 99)}
    node.says(1, None, AbsentChange(1, "sm_active", "timeout"))
    assert node.book.held() <= {(node.session, 99), (node.session, 100)}
    node.says(9)

    assert node.book.held() == set()
    assert [row[:2] for row in node.rows() if row[3] is None] == [("power_w", "gpu_lost"), ("sm_active", "timeout")]


def test_after_a_crash_the_batches_that_were_held_bring_what_was_lost(node: Node1, monkeypatch: pytest.MonkeyPatch) -> None:
    """They were not acked, so their agent sends them again, to a process that knows nothing."""
    sent: list[Batch] = []
    with monkeypatch.context() as patch:
        patch.setattr(absence, "CHANGES_AT_ONCE", 3)
        for number in range(9):
            absent = [AbsentChange(gpu, "power_w", ("timeout", "gpu_lost")[number % 2]) for gpu in (0, 1)]
            sent.append(batch(node.said, number, T + 0.01 * number, {}, absent=absent))
            node.take(sent[-1])
    held = {seq for _, seq in node.book.held()}
    node.book = AbsenceBook()
    for made in sent:
        if made.seq in held:
            node.take(made)

    assert [row[:3] for row in node.rows() if row[3] is None] == [("power_w", "timeout", 0), ("power_w", "timeout", 1)]


def test_a_boots_first_batch_that_comes_again_after_a_crash_ends_what_the_earlier_boot_lacked(node: Node1) -> None:
    """The server may have met the boot's hello and died before it wrote the batch."""
    node.seq = 7
    node.says(0, None, AbsentChange(0, "power_w", "timeout"))
    node.book, node.seq = AbsenceBook(), 0
    node.says(50, 250.0)

    assert node.rows() == [("power_w", "timeout", 0, 50.0)]


def test_a_node_that_is_long_silent_is_forgotten_and_read_anew(node: Node1) -> None:
    """Its open absences are rows; the memory is for who speaks."""
    node.says(0, None, AbsentChange(0, "power_w", "timeout"))
    node.book.apply([])
    assert node.book._nodes == {}
    node.says(9, None, AbsentChange(0, "power_w", None))

    assert node.rows() == [("power_w", "timeout", 0, 9.0)]


def test_gpus_that_are_gone_are_forgotten(node: Node1) -> None:
    """Each change of MIG makes new ones: what is known of a node does not grow with them."""
    node.says(0, None, AbsentChange(0, "power_w", "timeout"), AbsentChange(1, "power_w", "timeout"))
    Gpu.objects.filter(pk=node.gpus[0]).delete()
    only = hello("n", gpus=1)
    node.session.gpus = node.gpus[1:]
    node.take(batch(only, 0, T + 5, {}, absent=[AbsentChange(0, "power_w", "timeout")]))

    (book,) = node.book._nodes.values()
    assert {key[1] for key in (*book.open, *book.changed_at)} == {node.gpus[1]}


def test_a_few_thousand_changes_take_few_statements(node: Node1, django_assert_max_num_queries: Any) -> None:
    """All metrics of all GPUs go absent at once, and are back at once: statements for hundreds of rows each."""
    changes = [AbsentChange(gpu, name, "gpu_lost") for gpu in (0, 1) for name in node.session.layout.gpu]
    with django_assert_max_num_queries(12):
        node.says(0, None, *changes)
    with django_assert_max_num_queries(12):
        node.says(1, None, *(AbsentChange(change.gpu, change.metric, None) for change in changes))

    assert len(node.rows()) == len(changes)
    assert all(until == 1.0 for *_, until in node.rows())


def test_what_the_database_refused_is_written_by_the_next_call_once(node: Node1, monkeypatch: pytest.MonkeyPatch) -> None:
    """A chunk that is tried again after a locked database makes no second row, and its end is kept."""

    def locked(rows: object) -> None:
        raise OperationalError("database is locked")

    node.says(0, None, AbsentChange(0, "power_w", "timeout"))
    with monkeypatch.context() as patch:
        patch.setattr(absence, "_end", locked)
        with pytest.raises(OperationalError):
            node.says(5, None, AbsentChange(0, "power_w", "gpu_lost"))
    node.seq -= 1
    node.says(5, None, AbsentChange(0, "power_w", "gpu_lost"))

    assert node.rows() == [("power_w", "timeout", 0, 5.0), ("power_w", "gpu_lost", 0, None)]


def test_a_column_that_was_not_read_ends_no_absence(node: Node1) -> None:
    """Metrics that are read every quarter of a minute travel as empty columns in between: what was told last holds."""
    held = next(name for name in node.said.gpu_metrics if name in HELD)
    node.says(0, None, AbsentChange(0, held, "frozen"))
    made = batch(node.said, node.seq, T + 1, {})
    made.gpu[node.said.gpu_metrics.index(held)] = []
    node.take(made)

    assert (held, "frozen", 0, None) in node.rows()


def test_a_kubelet_that_does_not_say_who_has_the_gpus_is_absent_until_it_does(node: Node1) -> None:
    """Of the host, whatever else comes: no value could say that it is back."""
    node.says(0, 1.0, AbsentChange(-1, PODS, "no_previous"))
    node.says(5, 1.0)
    node.says(9, 1.0, AbsentChange(-1, PODS, None))

    row = Absence.objects.get()
    assert (row.metric, row.gpu, row.reason) == (PODS, None, "no_previous")
    assert row.until is not None
    assert row.until.timestamp() == T + 9
    with pytest.raises(WireError):
        node.says(10, 1.0, AbsentChange(0, PODS, "timeout"))
