"""Who uses a GPU, as its agent tells: kept on its row, taken back when told so, never by older news."""

from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries

from fleet.ingest import gpu_labels
from fleet.ingest.columns import Accepted, gather
from fleet.ingest.roster import enrol
from fleet.ingest.window import Ring
from fleet.inventory.models import Gpu
from tests.fleet.ingest.telling import Teller
from wire.codec import WireError
from wire.labels import MAX_LABEL
from wire.messages import GpuLabels

pytestmark = pytest.mark.django_db


class Labelled(Teller):
    """A node with two GPUs in the inventory."""

    def __init__(self) -> None:
        super().__init__()
        self.session.gpus = enrol(self.said, is_current=True, process="p").gpus

    def tells(self, at: float, *labels: GpuLabels, **changes: Any) -> Accepted:
        """A batch with labels."""
        return self.says(at, gpu_labels=list(labels), **changes)


def apply(*taken: Accepted) -> None:
    """As the store's thread does."""
    gpu_labels.apply([gather(list(taken), Ring())])


def kept() -> list[dict[str, str]]:
    """The labels of all GPUs."""
    return [gpu.labels for gpu in Gpu.objects.order_by("index")]


@pytest.fixture
def teller() -> Labelled:
    """A node."""
    return Labelled()


def test_labels_are_kept_and_replaced(teller: Labelled) -> None:
    """One batch names one GPU; the other's stand."""
    apply(teller.tells(0, GpuLabels(0, {"pod": "a", "namespace": "ml"}), GpuLabels(1, {"hpc_job": "7"})))
    assert kept() == [{"pod": "a", "namespace": "ml"}, {"hpc_job": "7"}]
    apply(teller.tells(1), teller.tells(2, GpuLabels(0, {"pod": "b"})))
    assert kept() == [{"pod": "b"}, {"hpc_job": "7"}]
    apply(teller.tells(3, GpuLabels(0, {})))

    assert kept() == [{}, {"hpc_job": "7"}]


def test_a_new_boot_takes_back_what_it_does_not_tell(teller: Labelled) -> None:
    """Its first batch names every GPU that has labels."""
    apply(teller.tells(0, GpuLabels(0, {"pod": "a"}), GpuLabels(1, {"pod": "b"})))
    teller.seq = 0
    apply(teller.tells(60, GpuLabels(1, {"pod": "b"})))

    assert kept() == [{}, {"pod": "b"}]


def test_a_backlog_does_not_undo_newer_news(teller: Labelled) -> None:
    """It was so once."""
    apply(teller.tells(100, GpuLabels(0, {"pod": "new"})))
    apply(teller.tells(50, GpuLabels(0, {"pod": "old"})))

    assert kept()[0] == {"pod": "new"}


def test_batches_without_labels_ask_the_database_nothing(
    teller: Labelled, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    """Nearly all are such."""
    teller.seq = 1
    taken = [teller.tells(at) for at in range(10)]

    with django_assert_num_queries(0):
        apply(*taken)


def test_characters_that_lead_astray_are_left_out(teller: Labelled) -> None:
    """An exporter's labels are anybody's text."""
    apply(teller.tells(0, GpuLabels(0, {"pod": "a\u202eb\x00\n", "container": "\u200b"})))

    assert kept()[0] == {"pod": "ab"}


@pytest.mark.parametrize(
    "labels",
    [
        [GpuLabels(2, {"pod": "a"})],
        [GpuLabels(-1, {"pod": "a"})],
        [GpuLabels(0, {"pod": "a"}), GpuLabels(0, {"pod": "b"})],
        [GpuLabels(0, {"env.SECRET": "x"})],
        [GpuLabels(0, {"pod_label_app": "x"})],
        [GpuLabels(0, {"pod": "x" * (MAX_LABEL + 1)})],
    ],
)
def test_labels_that_are_none_are_refused(teller: Labelled, labels: list[GpuLabels]) -> None:
    """Other names, other sizes, other GPUs: nothing of the batch is stored, and the value is not repeated."""
    with pytest.raises(WireError, match="wrong_shape"):
        teller.tells(0, *labels)
