"""The kubelet's pod-resources socket, asked through HTTP/2 as gRPC's own server speaks it."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("grpc", reason="grpcio of requirements/dev.txt is not installed")
pytest.importorskip("h2", reason="h2 of requirements/agent.txt is not installed")

import grpc

from agents.pod_resources import MAX_GIVEN, Given, allocatable, given
from agents.unary_call import CallError, call
from tests.agents.kubelet import Kubelet, serving

GPU = "GPU-8d3d7b92-1b1e-4e2c-9d5f-3a1c0f6f7a01"


@pytest.fixture
def kubelet(tmp_path: Path) -> Iterator[Kubelet]:
    """One that answers."""
    with serving(tmp_path / "kubelet.sock") as one:
        yield one


def test_every_device_of_every_container_is_told(kubelet: Kubelet) -> None:
    """With its pod, its namespace, its container and its resource; pods without devices are not there."""
    kubelet.pods = {
        ("ml", "train-0"): {"main": {"nvidia.com/gpu": [GPU, "GPU-2"]}, "sidecar": {}},
        ("serve", "llm-abc"): {"vllm": {"nvidia.com/mig-1g.10gb": ["MIG-1"], "rdma/hca": ["mlx5_0"]}},
        ("kube-system", "dns"): {"dns": {}},
    }

    assert given(kubelet.path) == [
        Given("ml", "train-0", "main", "nvidia.com/gpu", GPU),
        Given("ml", "train-0", "main", "nvidia.com/gpu", "GPU-2"),
        Given("serve", "llm-abc", "vllm", "nvidia.com/mig-1g.10gb", "MIG-1"),
        Given("serve", "llm-abc", "vllm", "rdma/hca", "mlx5_0"),
    ]


def test_a_node_without_pods_has_none(kubelet: Kubelet) -> None:
    """An empty message is an answer: nobody has a device."""
    assert given(kubelet.path) == []


def test_what_can_be_given_is_told(kubelet: Kubelet) -> None:
    """By resource, whoever has it."""
    kubelet.allocatable = {"nvidia.com/gpu.shared": [f"{GPU}::0", f"{GPU}::1"]}

    assert allocatable(kubelet.path) == [("nvidia.com/gpu.shared", f"{GPU}::0"), ("nvidia.com/gpu.shared", f"{GPU}::1")]


def test_an_answer_of_many_megabytes_is_read_whole(kubelet: Kubelet) -> None:
    """Windows of HTTP/2 are given back as they fill: 5 MB are eighty of them (fault I08)."""
    kubelet.pods = {
        ("n" * 60, f"pod-{number:05}-{'x' * 200}"): {"c": {"nvidia.com/gpu": [f"GPU-{number}"]}} for number in range(16_000)
    }
    size = len(kubelet.answer())
    found = given(kubelet.path)

    assert size > 4_500_000
    assert len(found) == 16_000
    assert found[-1].device == "GPU-15999"


def test_an_answer_past_the_bound_is_given_up(kubelet: Kubelet) -> None:
    """It is never held whole: `out_of_range`, in a sentence."""
    kubelet.raw = bytes(300_000)

    with pytest.raises(CallError, match="more than 100000 bytes") as caught:
        call(kubelet.path, "/v1.PodResourcesLister/List", max_bytes=100_000)
    assert caught.value.reason == "out_of_range"


def test_more_devices_than_a_node_has_are_refused(kubelet: Kubelet) -> None:
    """A bound on what is kept, too."""
    kubelet.pods = {("a", "b"): {"c": {"nvidia.com/gpu": [f"GPU-{number}" for number in range(MAX_GIVEN + 1)]}}}

    with pytest.raises(CallError, match="more than"):
        given(kubelet.path)


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (grpc.StatusCode.UNIMPLEMENTED, "unsupported"),
        (grpc.StatusCode.PERMISSION_DENIED, "not_permitted"),
        (grpc.StatusCode.INTERNAL, "driver_error"),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "driver_error"),
    ],
)
def test_a_refusal_says_which_and_why(kubelet: Kubelet, status: grpc.StatusCode, reason: str) -> None:
    """The status becomes one of the registry's reasons; the kubelet's own words stay, unescaped."""
    kubelet.refuses = status

    with pytest.raises(CallError, match=r"refuses List with gRPC status .*not today: 100%") as caught:
        given(kubelet.path)
    assert caught.value.reason == reason


def test_a_kubelet_that_hangs_is_left(kubelet: Kubelet) -> None:
    """After the deadline, as `timeout`."""
    kubelet.hangs = True

    with pytest.raises(CallError, match=r"within 0\.2 s") as caught:
        call(kubelet.path, "/v1.PodResourcesLister/List", deadline_s=0.2)
    assert caught.value.reason == "timeout"


def test_a_socket_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    """Nobody listens: not a Kubernetes node, or the folder is not mounted."""
    with pytest.raises(CallError, match=r"no\.sock is not there") as caught:
        given(tmp_path / "no.sock")
    assert caught.value.reason == "not_found"


@pytest.mark.parametrize(
    "raw",
    [b"\x0a\x05abc", b"\xff" * 11, b"\x0a\x02\x08\x01", b"\x0b", b"\x0a\x06\x0a\x02\x1b[\x12\x00"],
    ids=["cut off", "no varint", "a number for a name", "a group", "control characters"],
)  # fmt: skip
def test_what_is_no_list_of_pods_is_refused(kubelet: Kubelet, raw: bytes) -> None:
    """Never half of it, and never another exception."""
    kubelet.raw = raw

    with pytest.raises(CallError, match="no list of pods") as caught:
        given(kubelet.path)
    assert caught.value.reason == "driver_error"


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n" + bytes(60), b"\0" * 200])
def test_who_speaks_no_http2_is_refused(tmp_path: Path, said: bytes) -> None:
    """A socket of something else, or one that closes."""
    path = tmp_path / "other.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen(1)

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(said)

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(CallError) as caught:
            call(path, "/v1.PodResourcesLister/List", deadline_s=2)
        thread.join()

    assert caught.value.reason in ("driver_error", "not_found")
