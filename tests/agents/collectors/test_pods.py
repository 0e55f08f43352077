"""Which pods the kubelet has given each GPU to, over a stub that speaks its protocol."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("grpc", reason="grpcio of requirements/dev.txt is not installed")
pytest.importorskip("h2", reason="h2 of requirements/agent.txt is not installed")

import grpc

from agents.collectors.pods import PERIOD_S, PodCollector, joined, of, pods_label
from agents.config import AgentConfig
from agents.machine import Machine
from agents.nvml_device import NvmlDriver
from agents.source import ALL_GPUS, GPU, HOST, Absences, Tick
from agents.told_gpu_labels import ToldGpuLabels
from tests.agents.fake_nvml import FakeNvml
from tests.agents.kubelet import Kubelet, serving
from wire.labels import MAX_PODS
from wire.messages import PODS, AbsentChange, GpuFacts

A, B = "GPU-aaaaaaaa-0000-0000-0000-000000000000", "GPU-bbbbbbbb-0000-0000-0000-000000000000"
CARDS = (GpuFacts(index=0, uuid=A, name="H100"), GpuFacts(index=1, uuid=B, name="H100"))
SLICE = GpuFacts(
    index=100, uuid="MIG-cccccccc-0000-0000-0000-000000000000", name="H100", parent_uuid=A, mig_gpu_instance=7, mig_compute_instance=0
)  # fmt: skip


def state(asking: "Asking") -> tuple[str | None, str]:
    """Why nothing is known, as a reason and in a sentence."""
    return asking.pods.reason, asking.pods.trouble


class Asking:
    """A collector whose clock is moved by hand; each `look` waits for the kubelet's answer."""

    def __init__(self, path: Path, *, is_asked_for: bool = True) -> None:
        self.pods = PodCollector(path, "site", is_asked_for)
        self.now = 0.0

    def look(self, gpus: tuple[GpuFacts, ...] = CARDS, holders: Any = None) -> list[dict[str, str]]:
        """The labels after one more answer."""
        self.now += PERIOD_S
        self.pods.collect(self.now, gpus, holders or {})
        ends = time.monotonic() + 10
        while self.pods.is_busy and time.monotonic() < ends:
            time.sleep(0.002)
        return self.pods.collect(self.now, gpus, holders or {})


@pytest.fixture
def kubelet(tmp_path: Path) -> Iterator[Kubelet]:
    """One that answers."""
    with serving(tmp_path / "kubelet.sock") as one:
        yield one


@pytest.fixture
def asking(kubelet: Kubelet) -> Iterator[Asking]:
    """A collector of it."""
    one = Asking(kubelet.path)
    yield one
    one.pods.close()


def test_a_gpu_bears_the_names_of_its_pod(kubelet: Kubelet, asking: Asking) -> None:
    """Pod, namespace and container, and which Kubernetes that is; a GPU that nobody has says that it is known."""
    kubelet.pods = {("ml", "train-0"): {"main": {"nvidia.com/gpu": [A]}}}

    assert asking.look() == [
        {"cluster": "site", "pods": "ml/train-0", "namespace": "ml", "pod": "train-0", "container": "main"},
        {"cluster": "site"},
    ]
    assert state(asking)[0] is None


def test_replicas_of_a_gpu_are_shared(kubelet: Kubelet, asking: Asking) -> None:
    """Time-slicing and MPS: every pod is named with its own namespace, and the GPU is marked (fault I07)."""
    kubelet.pods = {
        ("serve", "llm"): {"vllm": {"nvidia.com/gpu.shared": [f"{A}::0"]}},
        ("dev", "notebook"): {"lab": {"nvidia.com/gpu.shared": [f"{A}::3"]}},
        ("dev", "alone"): {"lab": {"nvidia.com/gpu": [B]}},
    }
    first, second = asking.look()

    assert (first["pods"], first["shared"]) == ("dev/notebook,serve/llm", "yes")
    assert (first["namespace"], first["container"]) == ("dev,serve", "lab,vllm")
    assert second["pods"] == "dev/alone"
    assert "shared" not in second


@pytest.mark.parametrize("device", [SLICE.uuid, f"MIG-{A}/7/0", f"{SLICE.uuid}::1"])
def test_a_mig_instance_has_its_own_pod(kubelet: Kubelet, asking: Asking, device: str) -> None:
    """By its UUID, or by the name that drivers before 470 gave it; its card belongs to nobody."""
    kubelet.pods = {("ml", "small"): {"main": {"nvidia.com/mig-1g.10gb": [device]}}}
    card, instance = asking.look((CARDS[0], SLICE))

    assert card == {"cluster": "site"}
    assert instance["pods"] == "ml/small"
    assert ("shared" in instance) is ("::" in device)


def test_a_kubelet_that_ceases_to_answer_costs_nothing_but_the_news(kubelet: Kubelet, asking: Asking) -> None:
    """What was known stands, the reason is told, and it is over with the next answer (fault I08)."""
    kubelet.pods = {("ml", "train-0"): {"main": {"nvidia.com/gpu": [A]}}}
    known = asking.look()
    kubelet.refuses = grpc.StatusCode.UNAVAILABLE

    assert asking.look() == known
    assert state(asking)[0] == "timeout"
    assert "refuses List" in state(asking)[1]
    kubelet.refuses, kubelet.pods = None, {}
    assert asking.look() == [{"cluster": "site"}, {"cluster": "site"}]
    assert state(asking) == (None, "")


def test_pods_that_come_and_go_change_labels_and_no_series(kubelet: Kubelet, asking: Asking) -> None:
    """A new pod each look is one change of one GPU; one that stays is told once (fault I08)."""
    told = ToldGpuLabels()
    news = []
    for number in range(3):
        kubelet.pods = {
            ("ml", f"job-{number}"): {"main": {"nvidia.com/gpu": [A]}},
            ("ml", "stays"): {"main": {"nvidia.com/gpu": [B]}},
        }
        news.append([(one.gpu, one.labels["pod"]) for one in told.news(asking.look())])

    assert news == [[(0, "job-0"), (1, "stays")], [(0, "job-1")], [(0, "job-2")]]


def test_a_pod_that_has_ended_gives_way_to_the_one_that_has_its_gpu_now(kubelet: Kubelet, asking: Asking) -> None:
    """Older kubelets name both; only a replica may have two."""
    kubelet.pods = {("ml", "over"): {"main": {"nvidia.com/gpu": [A]}}}
    asking.look()
    kubelet.pods = {**kubelet.pods, ("ml", "new"): {"main": {"nvidia.com/gpu": [A]}}}

    assert asking.look()[0]["pods"] == "ml/new"
    assert asking.look()[0]["pods"] == "ml/new"
    kubelet.pods = {("ml", "over"): {"main": {"nvidia.com/gpu": [A]}}, ("ml", "newest"): {"main": {"nvidia.com/gpu": [A]}}}
    assert asking.look()[0]["pods"] == "ml/newest"


def test_a_node_without_a_kubelet_says_nothing(tmp_path: Path) -> None:
    """It is no node of a Kubernetes: no labels, and nothing is absent."""
    asking = Asking(tmp_path / "no.sock", is_asked_for=False)

    assert asking.look() == [{}, {}]
    assert state(asking) == (None, "")
    asking.pods.close()


def test_a_kubelet_that_was_asked_for_and_is_not_there_is_absent(tmp_path: Path) -> None:
    """With the reason, and the processes' cgroups say what they can."""
    asking = Asking(tmp_path / "no.sock")
    holders = {1: [{"pod": "0123-uid"}, {"pod": "4567-uid", "pod_name": "web-0"}, {"container": "f00"}]}

    assert asking.look(holders=holders) == [{}, {"pod": "0123-uid,web-0"}]
    assert state(asking)[0] == "not_found"
    asking.pods.close()


def test_a_list_too_long_ends_with_whole_names() -> None:
    """What is left out is marked: nobody takes half a name for a pod."""
    pods = [f"{'n' * 60}/{'p' * 60}-{number:04}" for number in range(200)]
    text = pods_label(pods)["pods"]

    assert len(text) <= MAX_PODS
    assert text.endswith(",…")
    assert set(text.split(",")) <= {*pods, "…"}
    assert pods_label([]) == {}


def test_the_kubelets_word_stands_before_an_exporters() -> None:
    """That nobody has the GPU, too; what the kubelet does not tell of stays."""
    exporter = {"pod": "old", "namespace": "ml", "hpc_job": "7"}

    assert joined(exporter, {"cluster": "site"}) == {"cluster": "site", "hpc_job": "7"}
    assert joined(exporter, {"cluster": "site", "pod": "new"})["pod"] == "new"
    assert joined(exporter, {}) == exporter
    assert joined({}, {"pod": "by-cgroup"}) == {"pod": "by-cgroup"}


def tick(reason: str | None) -> Tick:
    """A tick of which nothing else is told."""
    return Tick([], [], [None] * len(HOST), [None] * len(HOST), pods_reason=reason)


def test_the_reason_travels_when_it_changes() -> None:
    """Once, and again after records were lost."""
    absences = Absences()
    told = [absences.changes(tick(reason)) for reason in (None, "no_previous", "no_previous", None)]
    absences.changes(tick("timeout"))
    absences.reset()
    after = absences.changes(tick(None))

    assert told == [[], [AbsentChange(ALL_GPUS, PODS, "no_previous")], [], [AbsentChange(ALL_GPUS, PODS, None)]]
    assert after == [AbsentChange(ALL_GPUS, PODS, None)]


async def test_the_readings_of_a_gpu_stand_whatever_the_kubelet_does(kubelet: Kubelet) -> None:
    """A tick is whole at once while the kubelet hangs; the labels come when it answers (fault I08)."""
    kubelet.hangs = True
    machine = Machine(NvmlDriver(FakeNvml()), pods=of(AgentConfig(pod_resources=kubelet.path)))
    try:
        await machine.collect()
        tick = await machine.collect()

        assert machine.is_asking
        assert len(tick.gpu) == len(GPU)
        assert set(tick.gpu_reasons[0]) == {None, "unsupported"}  # retired pages are of cards before Ampere
        assert tick.gpu_reasons[0].count("unsupported") == 1
        assert (tick.gpu_labels, tick.pods_reason) == ([{}, {}], "no_previous")

        kubelet.pods = {("ml", "a"): {"main": {"nvidia.com/gpu": [machine.inventory.gpus[1].uuid]}}}
        kubelet.end()
        ends = time.monotonic() + 10
        while machine.is_asking and time.monotonic() < ends:
            time.sleep(0.005)
        tick = await machine.collect()
        assert [one.get("pods") for one in tick.gpu_labels] == [None, "ml/a"]
        assert tick.gpu_labels[0]["cluster"] == "kubernetes"
        assert tick.pods_reason is None
    finally:
        await machine.close()
