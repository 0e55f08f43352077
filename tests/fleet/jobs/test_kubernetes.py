"""Pods as jobs: what the kubelet's labels on GPUs make of them."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from fleet.findings.tasks import forget
from fleet.inventory.models import Gpu, Node
from fleet.jobs.kubernetes import give_up, job_id, owner, take
from fleet.jobs.models import Allocation, Job, job_number

AT = datetime(2026, 11, 1, 12, tzinfo=UTC)
CARDS = [f"GPU-{number:08}-0000-0000-0000-000000000000" for number in range(3)]


class Kubelet:
    """A node whose labels come at a minute of the hour: a list of `namespace/pod` for each GPU, None: nothing is known of it."""

    def __init__(self) -> None:
        self.node = Node.objects.create(name="gpu01")
        for index, uuid in enumerate(CARDS):
            Gpu.objects.create(node=self.node, uuid=uuid, index=index, model="H100")

    def says(self, minute: int, *pods: str | None, shared: bool = False, cluster: str = "site") -> list[Job]:
        """The jobs that change."""
        gpus = list(self.node.gpus.order_by("index"))[: len(pods)]
        for gpu, named in zip(gpus, pods, strict=True):
            gpu.labels = {} if named is None else {"cluster": cluster} | ({"pods": named} if named else {})
            if shared and named:
                gpu.labels["shared"] = "yes"
        return take(self.node, gpus, AT + timedelta(minutes=minute))


@pytest.fixture
def kubelet(db: None) -> Kubelet:
    """A node."""
    return Kubelet()


def held(**of: Any) -> list[tuple[str, int, int, int | None]]:
    """(job, GPU's index, minute from, minute until) of every device."""
    rows = Allocation.objects.filter(**of).select_related("job", "gpu").order_by("from_at", "job__job_id", "device")
    return [
        (
            row.job.job_id,
            row.gpu.index if row.gpu else -1,
            _minute(row.from_at),
            None if row.until_at is None else _minute(row.until_at),
        )
        for row in rows
    ]


def _minute(at: datetime) -> int:
    return round((at - AT).total_seconds() / 60)


def test_a_pod_is_a_job_from_when_it_is_named_until_it_is_not(kubelet: Kubelet) -> None:
    """With its owner's name, its namespace in place of a user, and the GPUs that it holds."""
    kubelet.says(0, "ml/train-x7k2p", "ml/train-x7k2p", "")
    (job,) = Job.objects.all()

    assert (job.target, job.source, job.state, job.name, job.user) == (
        "site/ml.train-x7k2p",
        "kubernetes",
        "running",
        "train",
        "ml",
    )
    assert (job.family, job.gpus_total, job.ended_at) == ("site/ml/train", 2, None)
    assert job.labels == {"namespace": "ml", "pod": "train-x7k2p"}
    assert held() == [("ml.train-x7k2p", 0, 0, None), ("ml.train-x7k2p", 1, 0, None)]
    kubelet.says(7, "", "", "")
    job.refresh_from_db()
    assert (job.ended_at, job.state) == (AT + timedelta(minutes=7), "ended")  # a kubelet tells no more
    assert held() == [("ml.train-x7k2p", 0, 0, 7), ("ml.train-x7k2p", 1, 0, 7)]


def test_the_same_said_again_changes_nothing(kubelet: Kubelet) -> None:
    """An agent that starts anew tells all of it: the job goes on."""
    kubelet.says(0, "ml/a", "", "")

    assert kubelet.says(5, "ml/a", "", "") == []
    assert kubelet.says(6, None, None, None) == []
    assert held() == [("ml.a", 0, 0, None)]


def test_a_gpu_of_which_nothing_is_known_keeps_its_job(kubelet: Kubelet) -> None:
    """Nobody has it is one thing, nobody says is another; what is known of the others is taken."""
    kubelet.says(0, "ml/a", "ml/b", "ml/c")
    kubelet.says(5, None, "", "ml/c")

    assert held(until_at=None) == [("ml.a", 0, 0, None), ("ml.c", 2, 0, None)]


def test_only_what_changed_is_told(kubelet: Kubelet) -> None:
    """A pod's other GPUs stay its own where one alone is named anew."""
    kubelet.says(0, "ml/a", "ml/a", "")
    kubelet.says(5, "ml/b")

    assert held(until_at=None) == [("ml.a", 1, 0, None), ("ml.b", 0, 5, None)]
    assert Job.objects.get(job_id="ml.a").ended_at is None


def test_a_name_that_is_used_again_is_another_run(kubelet: Kubelet) -> None:
    """A StatefulSet's pod has the same name each time."""
    kubelet.says(0, "serve/llm-0")
    kubelet.says(5, "")
    kubelet.says(9, "serve/llm-0")

    assert [(run.name, _minute(run.started_at), run.ended_at is None) for run in Job.objects.order_by("started_at")] == [
        ("llm", 0, False),
        ("llm", 9, True),
    ]


def test_a_gpu_in_replicas_is_held_by_all_of_its_pods(kubelet: Kubelet) -> None:
    """Each by its own job, marked as shared: its readings are nobody's share (fault I07)."""
    kubelet.says(0, "a/x,b/y", "c/z")
    kubelet.says(1, "a/x,b/y", shared=True)
    rows = Allocation.objects.filter(until_at=None).order_by("job__job_id")

    assert [(row.job.job_id, row.shared) for row in rows] == [("a.x", True), ("b.y", True), ("c.z", False)]
    kubelet.says(4, "b/y", shared=True)
    assert [row.job.job_id for row in Allocation.objects.filter(until_at=None).order_by("job__job_id")] == ["b.y", "c.z"]


def test_a_list_that_was_cut_off_ends_nobody(kubelet: Kubelet) -> None:
    """Whoever is not named may be among those that did not fit."""
    kubelet.says(0, "a/x,b/y", shared=True)
    kubelet.says(5, "a/w,a/x,…", shared=True)

    assert [job for job, *_ in held(until_at=None)] == ["a.x", "b.y", "a.w"]


def test_a_cluster_that_is_called_otherwise_takes_its_jobs_along(kubelet: Kubelet) -> None:
    """The old name's end with it; a name that no cluster may have makes no job."""
    kubelet.says(0, "ml/a")
    kubelet.says(5, "ml/a", cluster="west")
    kubelet.says(6, "ml/b", cluster="no name")

    assert [(job.target, job.ended_at is None) for job in Job.objects.order_by("started_at")] == [
        ("site/ml.a", False),
        ("west/ml.a", True),
    ]


def test_a_device_that_is_gone_is_given_back(kubelet: Kubelet) -> None:
    """An instance of MIG that was destroyed: no label will ever tell of it again."""
    kubelet.says(0, "ml/a", "ml/b")
    kubelet.node.gpus.filter(index=0).update(present=False)
    kubelet.says(5, None, "ml/c")

    assert held(until_at=None) == [("ml.c", 1, 5, None)]


def test_a_job_of_a_node_that_never_comes_back_is_lost(kubelet: Kubelet) -> None:
    """From when the node was last heard of; while it may come back nothing is ended."""
    kubelet.says(0, "ml/a", "ml/a")
    Node.objects.update(last_seen_at=AT + timedelta(minutes=30))

    assert give_up(AT + timedelta(hours=20)) == 0
    assert give_up(AT + timedelta(days=2)) == 1
    job = Job.objects.get()
    assert (job.state, job.ended_at) == ("lost", AT + timedelta(minutes=30))
    assert held() == [("ml.a", 0, 0, 30), ("ml.a", 1, 0, 30)]


def test_jobs_are_given_up_by_the_hour(kubelet: Kubelet) -> None:
    """By the task that forgets what is past its time."""
    kubelet.says(0, "ml/a")
    Node.objects.update(last_seen_at=timezone.now() - timedelta(days=2))
    forget()

    assert Job.objects.get().state == "lost"


def test_a_job_that_was_given_up_goes_on_where_its_pod_is_named_again(kubelet: Kubelet) -> None:
    """It is the same run: nobody saw an end."""
    kubelet.says(0, "ml/a", "ml/a")
    Node.objects.update(last_seen_at=AT + timedelta(minutes=30))
    give_up(AT + timedelta(days=2))
    kubelet.says(4000, "ml/a", "ml/a")
    job = Job.objects.get()

    assert (job.state, job.ended_at) == ("running", None)
    assert held() == [("ml.a", 0, 0, None), ("ml.a", 1, 0, None)]


def test_names_that_no_pod_has_make_no_job(kubelet: Kubelet) -> None:
    """Whatever an agent says; the longest that one has fits."""
    kubelet.says(0, f"{'n' * 64}/a,ml,ml/,/a,ml/A b,ml/a/b", f"{'n' * 63}/{'p' * 253}")
    (job,) = Job.objects.all()

    assert (len(job.job_id), len(job.name), job.user) == (200, 200, "n" * 63)


@pytest.mark.parametrize(
    ("pod", "name"),
    [
        ("web-7d9c6b5f4d-x2x9z", "web"),
        ("train-x7k2p", "train"),
        ("sweep-12-x7k2p", "sweep"),
        ("llm-0", "llm"),
        ("bert-worker-3", "bert-worker"),
        ("resnet-train", "resnet-train"),
        ("notebook", "notebook"),
        ("x7k2p", "x7k2p"),
    ],
)
def test_a_pods_name_tells_what_it_belongs_to(pod: str, name: str) -> None:
    """Without what Kubernetes puts behind it; a word has vowels, which its hashes never do."""
    assert owner(pod) == name


def test_an_id_fits_however_long_the_names_are() -> None:
    """Two pods that differ at the end alone have two ids; a short one is as it is."""
    long = job_id("n" * 63, "p" * 252 + "a"), job_id("n" * 63, "p" * 252 + "b")

    assert job_id("ml", "a") == "ml.a"
    assert long[0] != long[1]
    for one in long:
        job_number(one)
