"""Labels of processes: read in a thread, told when known, and nothing told that should stay on the node."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agents.collectors import environment, process_labels, rounds
from agents.collectors.process_labels import ProcessLabels, read, with_described
from agents.collectors.processes import ProcessCollector
from agents.collectors.rounds import MAX_HANGS, Process
from agents.told_labels import ToldLabels
from tests.agents.proc import Proc
from wire.codec import encode
from wire.labels import MAX_LABELS, is_label
from wire.messages import Batch, GpuFacts, Labels, Processes

CONTAINER = "c" * 64


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    """An empty /proc."""
    return Proc(tmp_path)


def settled(
    labels: ProcessLabels, processes: list[Process], now: float, until: Callable[[], bool] | None = None
) -> dict[int, dict[str, str]]:
    """What is known once the thread is through (or `until` holds)."""
    labels.of(processes, now)
    deadline = time.monotonic() + 5
    while (labels._rounds.is_busy if until is None else not until()) and time.monotonic() < deadline:
        time.sleep(0.005)
    return labels.of(processes, now)


def test_labels_of_a_process_come_from_all_its_files(proc: Proc) -> None:
    """The cgroup outranks the environment; engine and launcher are looked for among the ancestors."""
    proc.process(5, cmdline="vllm serve q --max-num-seqs 64")
    proc.process(10, parent=5, cmdline="VLLM::EngineCore", namespace_pid=7)
    proc.words(10, "environ", "SLURM_JOB_ID=1", "NCCL_ALGO=Ring", "SECRET=x")
    (proc.root / "10" / "cgroup").write_text(f"0::/system.slice/slurmstepd.scope/job_2/step_0/docker/{CONTAINER}\n")

    found, denied = read(str(proc.root), 10, "alice")

    assert found == {
        "container": CONTAINER,
        "slurm_job": "2",
        "slurm_step": "0",
        "pid_in_namespace": "7",
        "engine": "vllm",
        "flag.model": "q",
        "flag.max-num-seqs": "64",
        "env.NCCL_ALGO": "Ring",
    }
    assert denied == set()


CARDS = tuple(GpuFacts(index=place, uuid=f"GPU-{digit * 8}-1", name="NVIDIA H200") for place, digit in enumerate("ab"))


@pytest.mark.parametrize(
    ("entries", "cgroup", "may_use"),
    [
        (("CUDA_VISIBLE_DEVICES=1",), "0::/", "GPU-bbbbbbbb"),
        (("CUDA_VISIBLE_DEVICES=1",), f"0::/docker/{CONTAINER}", "?1"),
        (("CUDA_VISIBLE_DEVICES=1", "SLURM_JOB_ID=7"), "0::/", "?1"),
        (("PATH=/bin",), "0::/", "all"),
        ((), "0::/", None),
    ],
)
def test_what_a_process_may_use_is_told_beside_the_variable(
    proc: Proc, entries: tuple[str, ...], cgroup: str, may_use: str | None
) -> None:
    """I02: an index counts what the process sees; an environment that is gone says nothing."""
    proc.process(10)
    proc.words(10, "environ", *entries)
    (proc.root / "10" / "cgroup").write_text(f"{cgroup}\n")

    assert read(str(proc.root), 10, "", CARDS)[0].get("visible_gpus") == may_use


def test_other_gpus_make_the_labels_be_read_again(proc: Proc) -> None:
    """A card that was split anew has other UUIDs."""
    proc.process(10)
    proc.words(10, "environ", "CUDA_VISIBLE_DEVICES=0")
    labels = ProcessLabels(proc.root)
    told = []
    for cards in (CARDS, CARDS[1:]):
        labels.of([(10, 100, "")], 0.0, cards)
        deadline = time.monotonic() + 5
        while labels._rounds.is_busy and time.monotonic() < deadline:
            time.sleep(0.005)
        told.append(labels.of([(10, 100, "")], 0.0, cards)[10]["visible_gpus"])

    assert told == ["GPU-aaaaaaaa", "GPU-bbbbbbbb"]


def test_secrets_of_a_real_process_do_not_leave_the_node(tmp_path: Path) -> None:
    """In its environment, its arguments, its files' names and its parent's arguments; the bytes of the frame are searched."""
    folder = tmp_path / "hunter2-home"
    folder.mkdir()
    script = folder / "train.py"
    script.write_text("import sys\nprint('up', flush=True)\nsys.stdin.read()\n")
    secrets = {
        "HF_TOKEN": "hunter2",
        "TORCH_HOME": "/home/hunter2/.cache",
        "NCCL_DEBUG_FILE": "https://hunter2@host/x",
        "PYTORCH_API_KEY": "hunter2",
        "TORCH_HUB_SECRET": "hunter2",
        "POD_NAME": "HUNTER2 hunter2",
        "SLURM_JOB_ID": "hunter2 hunter2",
        "NCCL_ALGO": "Ring",
    }
    arguments = ["--token", "hunter2", "--model", "s3://hunter2@b/hunter2", "--num-workers", "3", "--dtype=hunter2", "hunter2"]
    child = subprocess.Popen(
        [sys.executable, str(script), *arguments], env=secrets, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder
    )
    try:
        assert child.stdout is not None
        child.stdout.readline()
        (reading,) = ProcessCollector().collect([child.pid], 0.0)
        assert reading.start is not None
        found = settled(ProcessLabels(), [(child.pid, reading.start, reading.user)], 0.0)
        told = [Labels(pid, words) for pid, words in found.items()]
        processes = Processes(pid=[child.pid], name=[reading.name], user=[reading.user], labels=told)
        frame = encode(Batch(node="n", boot="b", seq=0, schema="s", t=0.0, processes=ToldLabels().news(processes)))
    finally:
        child.communicate()

    assert b"hunter2" not in frame.lower()
    assert found[child.pid].items() >= {"flag.num-workers": "3", "env.NCCL_ALGO": "Ring"}.items()
    assert all(is_label(name) for name in found[child.pid])
    assert b"train.py" in frame


def test_files_that_may_not_be_read_are_named_and_the_rest_is_told(proc: Proc, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent without the right to see an environment says so."""
    proc.process(10, cmdline="torchrun train.py")
    proc.words(10, "environ", "NCCL_ALGO=Ring")
    real = process_labels._whole

    def refused(path: str) -> bytes:
        if path.endswith("environ"):
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(process_labels, "_whole", refused)
    labels = ProcessLabels(proc.root)

    assert settled(labels, [(10, 100, "")], 0.0) == {10: {"launcher": "torchrun"}}
    assert labels.not_permitted == {"environ"}


def test_labels_are_read_again_after_a_while_and_at_once_for_a_reused_pid(proc: Proc) -> None:
    """A second look soon, for what is loaded late; then every few minutes."""
    proc.process(10, cmdline="torchrun train.py")
    labels = ProcessLabels(proc.root)
    settled(labels, [(10, 100, "")], 0.0)
    proc.process(10, cmdline="deepspeed train.py")

    assert settled(labels, [(10, 100, "")], 1.0)[10] == {"launcher": "torchrun"}
    assert settled(labels, [(10, 100, "")], process_labels.AGAIN_S)[10] == {"launcher": "deepspeed"}
    proc.process(10, cmdline="torchrun train.py")
    later = process_labels.AGAIN_S + 1
    assert settled(labels, [(10, 100, "")], later)[10] == {"launcher": "deepspeed"}
    assert settled(labels, [(10, 100, "")], later + process_labels.REFRESH_S)[10] == {"launcher": "torchrun"}
    proc.process(10, cmdline="accelerate launch train.py", start=200)
    assert settled(labels, [(10, 200, "")], later + process_labels.REFRESH_S + 1)[10] == {"launcher": "accelerate"}
    assert labels.of([], later + process_labels.REFRESH_S + 2) == {}


def test_a_process_that_ends_or_changes_while_it_is_read_gets_no_labels(proc: Proc) -> None:
    """A pid may be another's by then."""
    proc.process(10, cmdline="torchrun train.py", start=200)

    assert settled(ProcessLabels(proc.root), [(10, 100, ""), (11, 100, "")], 0.0) == {}


def test_a_process_that_hangs_its_reader_costs_its_own_labels_alone(
    proc: Proc, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The tick never waits; another thread reads the others; too many such processes end the reading, with one line each."""
    release = threading.Event()
    real = environment.labels

    def hanging(content: bytes, user: str) -> dict[str, str]:
        if user == "stuck":
            release.wait(30)
        return real(content, user)

    monkeypatch.setattr(environment, "labels", hanging)
    monkeypatch.setattr(rounds, "HANG_S", 0.05)
    pids = range(10, 20)
    for pid in pids:
        proc.process(pid, cmdline="torchrun train.py")
        proc.words(pid, "environ", "X=1")
    wanted: list[Process] = [(10, 100, "stuck"), (11, 100, "")]
    labels = ProcessLabels(proc.root)
    try:
        began = time.monotonic()
        labels.of(wanted, 0.0)
        assert time.monotonic() - began < 5
        assert settled(labels, wanted, 1.0, lambda: 11 in labels.of(wanted, 1.0)) == {11: {"launcher": "torchrun"}}
        assert labels.of(wanted, 1000.0).keys() == {11}
        stuck: list[Process] = [(pid, 100, "stuck") for pid in pids]
        settled(labels, stuck, 2000.0, lambda: (labels.of(stuck, 2000.0), labels._rounds.hangs > MAX_HANGS)[1])
        for _ in range(5):
            labels.of(stuck, 9000.0)
    finally:
        release.set()

    told = [record.getMessage() for record in caplog.records]
    assert len(told) == MAX_HANGS + 1
    assert "restart the agent" in told[-1]
    labels.close()


def test_many_labels_are_cut_with_the_identity_first(proc: Proc) -> None:
    """A frame has to stay small."""
    proc.process(10, cmdline="torchrun train.py", namespace_pid=3)
    proc.words(10, "environ", *(f"NCCL_A{i}=1" for i in range(200)), "SLURM_JOB_ID=5")
    found, _ = read(str(proc.root), 10, "")

    assert len(found) == MAX_LABELS
    assert found.keys() >= {"slurm_job", "launcher", "pid_in_namespace"}


def test_an_empty_proc_is_no_label_and_no_error(proc: Proc, caplog: pytest.LogCaptureFixture) -> None:
    """A race with the process's end."""
    assert read(str(proc.root), 10, "") == ({}, set())
    assert read("/proc", os.getpid(), "")[1] == set()
    assert caplog.records == []


def test_what_a_program_says_of_itself_takes_the_place_of_what_comes_last() -> None:
    """A server refuses more labels than it knows of."""
    read = {"container": "c"} | {f"flag.f{number}": "1" for number in range(MAX_LABELS - 1)}
    found = with_described(read, {"told.layers": "32", "told.seq": "4096"})

    assert len(found) == MAX_LABELS
    assert found["container"] == "c"
    assert found["told.seq"] == "4096"
    assert with_described({}, {"told.seq": "1"}) == {"told.seq": "1"}
