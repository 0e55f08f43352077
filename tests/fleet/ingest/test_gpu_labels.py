"""Who uses a GPU, as its agent tells: kept on its row, taken back when told so, never by older news."""

from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries

from fleet.ingest import gpu_labels
from fleet.ingest.columns import Accepted, gather
from fleet.ingest.roster import enrol
from fleet.ingest.window import Ring
from fleet.inventory.models import Gpu
from fleet.jobs.models import Job
from tests.fleet.ingest.telling import Teller
from wire.codec import WireError
from wire.labels import MAX_LABEL, MAX_PODS
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


def test_what_the_kubelet_says_becomes_jobs(teller: Labelled) -> None:
    """In the order of the node's clock, whatever came in one chunk; an exporter's words make none."""
    given = {"cluster": "site", "pods": "ml/a", "pod": "a"}
    apply(
        teller.tells(0),
        teller.tells(1, GpuLabels(0, given), GpuLabels(1, {"pod": "b", "namespace": "ml"})),
    )
    apply(teller.tells(5, GpuLabels(0, {"cluster": "site"}), GpuLabels(1, {"cluster": "site", "pods": "ml/c"})))

    assert [(job.target, job.ended_at is None) for job in Job.objects.order_by("pk")] == [
        ("site/ml.a", False),
        ("site/ml.c", True),
    ]


def test_an_agent_that_starts_anew_ends_no_job(teller: Labelled) -> None:
    """Its first batch names no labels, for the kubelet has not answered yet."""
    apply(teller.tells(1, GpuLabels(0, {"cluster": "site", "pods": "ml/a"})))
    teller.seq = 0
    apply(teller.tells(9))
    apply(teller.tells(10, GpuLabels(0, {"cluster": "site", "pods": "ml/a"})))

    assert [job.ended_at for job in Job.objects.all()] == [None]


def test_the_pods_of_a_gpu_may_be_many(teller: Labelled) -> None:
    """More than other labels hold, and no more than there is room for."""
    apply(teller.tells(0, GpuLabels(0, {"pods": "x" * MAX_PODS})))

    with pytest.raises(WireError, match="characters in label pods"):
        teller.tells(1, GpuLabels(0, {"pods": "x" * (MAX_PODS + 1)}))
