"""Where a process runs and where its GPU is, from a /sys made of files."""

from pathlib import Path

import pytest

from agents.collectors.numa import Numa
from agents.collectors.processes import PROCESS_METRICS, ProcessCollector
from tests.agents.proc import Proc

LOCAL = next(position for position, metric in enumerate(PROCESS_METRICS) if metric.name == "numa_local")


def nodes(sys: Path, *cpus: str) -> Path:
    """Nodes with these CPUs."""
    for number, listed in enumerate(cpus):
        folder = sys / "devices/system/node" / f"node{number}"
        folder.mkdir(parents=True)
        (folder / "cpulist").write_text(listed + "\n")
    return sys


@pytest.mark.parametrize(
    ("processor", "home", "expected"),
    [
        (3, {0}, 1),
        (35, {0}, 1),
        (16, {0}, 0),
        (16, {0, 1}, 1),
        (16, (), "not_found"),
        (99, {0}, "not_found"),
        (None, {0}, "not_found"),
    ],
)
def test_a_process_is_local_on_the_node_of_a_gpu_that_it_holds(
    tmp_path: Path, processor: int | None, home: set[int], expected: object
) -> None:
    """Two sockets with hyper-threads; what is not known is neither local nor remote."""
    numa = Numa(nodes(tmp_path, "0-15,32-47", "16-31,48-63"))

    assert numa.is_local(processor, home) == expected


def test_on_a_machine_of_one_node_nobody_is_remote(tmp_path: Path) -> None:
    """A node of memory alone, as Grace has for its GPU, is none where anybody could run; a machine without NUMA has none at all."""
    assert Numa(nodes(tmp_path, "0-71", "")).is_local(3, {0}) == "unsupported"
    assert Numa(tmp_path / "none").is_local(3, {0}) == "unsupported"


def test_the_main_threads_cpu_is_what_the_kernel_says(tmp_path: Path) -> None:
    """From the line of the process itself; what its GPUs' nodes are comes with the question."""
    sys = nodes(tmp_path / "sys", "0-3", "4-7")
    (tmp_path / "proc").mkdir()
    proc = Proc(tmp_path / "proc")
    collector = ProcessCollector(proc.root, sys=sys)
    found = []
    for processor in (2, 5):
        proc.process(10, processor=processor)
        (reading,) = collector.collect([10], float(processor), homes={10: {1}})
        found.append(reading.values[LOCAL])
    (alone,) = collector.collect([10], 9.0)

    assert found == [0, 1]
    assert alone.reasons[LOCAL] == "not_found"
    collector.close()
