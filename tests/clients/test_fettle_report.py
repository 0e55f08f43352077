"""The client that training scripts import: alone, with an agent's socket, with torch, over forks and threads."""

import ast
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import types
from pathlib import Path
from typing import Any

import pytest

from tests.clients.reporting import SOURCE, got


def test_a_step_is_a_datagram_of_sums_since_the_start(agent: socket.socket, client: Any) -> None:
    """The first step has no time; a figure that a step does not give stays out."""
    client.step(samples=10, loss=2.5)
    client.step(samples=10, data_wait_s=0.5, loss_scale=8)
    first, second = got(agent)

    assert (first["steps"], first["timed"], first["loss"], first["samples"]) == (1, 0, 2.5, 0.0)
    assert "loss_scale" not in first
    assert (second["steps"], second["timed"], second["waits"], second["wait_s"], second["samples"]) == (2, 1, 1, 0.5, 10.0)
    assert second["step_s"] == second["sampled_s"] > 0
    assert second["loss_scale"] == 8.0


def test_quick_steps_share_a_datagram(agent: socket.socket, client: Any) -> None:
    """And none of them is lost."""
    client.SEND_S = 3600
    for _ in range(1000):
        client.step()
    client._reporter.send_at = 0.0
    client.step()

    assert [one["steps"] for one in got(agent)] == [1, 1001]


def test_without_an_agent_nothing_happens_and_one_that_comes_later_is_found(path: Path, client: Any) -> None:
    """It is looked for every few seconds; what was counted meanwhile is not lost."""
    client.step()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as link:
        link.bind(str(path))
        link.setblocking(False)
        client.step()
        assert got(link) == []
        client._reporter.retry_at = 0.0
        client.step()
        assert [one["steps"] for one in got(link)] == [3]
    client.step()  # it has gone
    path.unlink()
    client._reporter.retry_at = 0.0
    client.step()


def test_a_full_socket_drops_and_counts(agent: socket.socket, client: Any) -> None:
    """It never waits for an agent that does not read."""
    for _ in range(2000):
        client.step()
    waiting = got(agent)
    client.step()

    assert 0 < len(waiting) < 2000
    assert got(agent)[0]["dropped"] == 2000 - len(waiting)


@pytest.mark.parametrize("odd", ["1", b"1", [1], {}, object(), None, 10**400, complex(1), float("nan"), -1, 1e300])
def test_nothing_that_a_script_may_give_raises(agent: socket.socket, client: Any, odd: object) -> None:
    """What is no usable number is left out; the datagram stays JSON that every reader takes."""
    client.step(samples=odd, data_wait_s=odd, loss_scale=odd)
    client.step(samples=odd, data_wait_s=odd, loss_scale=odd, loss=odd)
    found = got(agent)
    assert [one["steps"] for one in found] == [1, 2]
    for one in found:
        json.dumps(one, allow_nan=False)
        assert (one["samples"], one["waits"]) == (0.0, 0)


def test_words_that_it_does_not_know_are_left_out(agent: socket.socket, client: Any) -> None:
    """A misspelt one, or one of a newer version: the step counts all the same."""
    client.step(sample=3)
    client.step(10, 2.5, 0.1, 8, 4711, rank=3)

    assert [(one["steps"], one["samples"]) for one in got(agent)] == [(1, 0.0), (2, 10.0)]


def test_it_is_imported_where_nothing_forks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python without `os.register_at_fork`, as on Windows."""
    monkeypatch.delattr(os, "register_at_fork")
    module = types.ModuleType("fettle_report")
    exec(compile(SOURCE.read_text(), str(SOURCE), "exec"), module.__dict__)

    module.step(samples=1)
    assert module._reporter.told["steps"] == 1


@pytest.mark.parametrize("answer", [object(), "many", None, float("nan"), float("inf")])
def test_an_allocator_that_answers_with_no_number_costs_its_own_figures_alone(
    agent: socket.socket, client: Any, monkeypatch: pytest.MonkeyPatch, answer: object
) -> None:
    """Every later datagram goes out, as JSON that every reader takes."""
    cuda = types.SimpleNamespace(
        is_initialized=lambda: True, memory_stats=lambda: {"allocated_bytes.all.peak": answer, "num_alloc_retries": 3}
    )
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(cuda=cuda))
    client.step()
    client.step()

    assert [(one["steps"], "alloc_peak_bytes" in one) for one in got(agent)] == [(1, False), (2, False)]


@pytest.mark.parametrize("loss", [float("nan"), float("inf"), -float("inf")])
def test_a_loss_that_is_no_number_is_counted(agent: socket.socket, client: Any, loss: float) -> None:
    """The last good one no longer stands."""
    client.step(loss=1.0)
    client.step(loss=loss)
    last = got(agent)[-1]

    assert (last["loss"], last["loss_not_finite"]) == (None, 1)


def test_a_tensor_is_never_read(agent: socket.socket, client: Any) -> None:
    """float() of one would wait for the GPU."""

    class Tensor:
        def __float__(self) -> float:
            raise AssertionError("the client waited for the GPU")

    client.step(loss=Tensor(), samples=Tensor())

    assert [one["steps"] for one in got(agent)] == [1]


class Cuda:
    """`torch.cuda` as far as the client asks; `memory_stats` would begin CUDA if it were asked too early."""

    def __init__(self) -> None:
        self.begun = False
        self.asked = 0

    def is_initialized(self) -> bool:
        return self.begun

    def memory_stats(self) -> dict[str, int]:
        assert self.begun
        self.asked += 1
        return {"allocated_bytes.all.peak": 1 << 30, "num_alloc_retries": 3, "reserved_bytes.all.peak": 1 << 31, "num_ooms": 0}


def test_what_the_allocator_counts_is_told_once_torch_is_there(
    agent: socket.socket, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is never imported, CUDA never begun, and the allocator asked once a second at most."""
    client.step()
    assert "torch" not in sys.modules
    torch, cuda = types.ModuleType("torch"), Cuda()
    monkeypatch.setitem(sys.modules, "torch", torch)
    client._reporter.torch_at = 0.0
    client.step()  # imported by half
    torch.cuda = cuda  # type: ignore[attr-defined]
    client._reporter.torch_at = 0.0
    client.step()
    assert all("alloc_retries" not in one for one in got(agent))
    cuda.begun = True
    client._reporter.torch_at = 0.0
    client.step()
    client.step()
    last = got(agent)[-1]

    assert (last["alloc_peak_bytes"], last["alloc_retries"], cuda.asked) == (1 << 30, 3, 1)
    assert (last["reserved_peak_bytes"], last["alloc_ooms"]) == (1 << 31, 0)


def test_threads_and_signal_handlers_may_step_at_once(agent: socket.socket, client: Any) -> None:
    """Nobody waits for anybody; a step that meets another is left out at worst."""
    threads = [threading.Thread(target=lambda: [client.step() for _ in range(500)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 500 <= client._reporter.told["steps"] <= 2000

    client._reporter.busy.acquire()
    signal.signal(signal.SIGUSR1, lambda *_: client.step())
    try:
        os.kill(os.getpid(), signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    client._reporter.busy.release()
    got(agent)


def test_a_forked_child_counts_for_itself(agent: socket.socket, path: Path) -> None:
    """Even where the fork came in the middle of another thread's step; the parent's sums go on."""
    script = (
        "import os, fettle_report as f\n"
        "f.SEND_S = 0\n"
        "f.step(); f.step()\n"
        "f._reporter.busy.acquire()\n"
        "pid = os.fork()\n"
        "if pid == 0:\n    f.step(); os._exit(0)\n"
        "os.waitpid(pid, 0)\n"
        "f._reporter.busy.release()\n"
        "f.step()\n"
    )
    environment = {"PYTHONPATH": str(SOURCE.parent), "FETTLE_REPORT_SOCKET": str(path)}
    subprocess.run([sys.executable, "-W", "error", "-c", script], env=environment, check=True)

    assert [one["steps"] for one in got(agent)] == [1, 2, 1, 3]


def test_the_client_is_one_file_for_old_pythons_without_dependencies() -> None:
    """Python 3.8 reads it, and it imports the standard library alone."""
    tree = ast.parse(SOURCE.read_text(), feature_version=(3, 8))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}

    assert imported <= set(sys.stdlib_module_names)
