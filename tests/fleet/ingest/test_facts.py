"""What a hello tells of the host: kept within bounds, and an event where it changed since the hello before."""

import time
from typing import Any

import pytest
from django.utils import timezone
from msgspec.structs import replace

from fleet.ingest import facts
from fleet.ingest.roster import enrol
from fleet.inventory.models import Event, Node
from fleet.jobs.holdings import Given
from fleet.jobs.telling import Told, tell
from tests.serving import Server
from tests.speaking import batch, hello, speak
from wire.messages import GpuLabels, Hello, HostFacts

pytestmark = pytest.mark.django_db

UUIDS = tuple(gpu.uuid for gpu in hello("n").gpus)
HOST = HostFacts(
    cores=64,
    mem_total_bytes=1 << 40,
    kernel="6.8.0",
    driver_version="580.159.04",
    cuda_driver_version="13.0",
    cpu_governor="powersave",
    numa_distances={0: (10, 21), 1: (21, 10)},
    gpu_numa_nodes={UUIDS[0]: 0, UUIDS[1]: 1},
    nvidia_module_version="580.159.04",
    rdma_ready=False,
    nvidia_parameters={"EnableMSI": "1", "RegistryDwords": ""},
)


def said(boot: str, *, recording: str | None = None, **changes: Any) -> Hello:
    """A hello of the node with other facts."""
    return replace(hello("n", boot), host=replace(HOST, **changes), recording=recording)


def told() -> list[tuple[int | None, str]]:
    """The events of the server's own: the GPU's index and the text."""
    rows = Event.objects.filter(kind="changed", boot="").order_by("seq")
    return [(None if row.gpu is None else row.gpu.index, row.text) for row in rows]


def test_the_facts_of_a_hello_are_kept() -> None:
    """On the node's row and, for its NUMA node, on each GPU's."""
    enrol(said("b1"), is_current=True, process="p")
    node = Node.objects.get()

    assert (node.cpu_governor, node.nvidia_module_version) == ("powersave", "580.159.04")
    assert node.nvidia_parameters == {"EnableMSI": "1", "RegistryDwords": ""}
    assert node.numa_distances == {"0": [10, 21], "1": [21, 10]}
    assert [gpu.numa_node for gpu in node.gpus.all()] == [0, 1]
    assert told() == []


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"cpu_governor": "performance"}, "CPU governor: powersave → performance"),
        ({"kernel": "6.8.1"}, "Kernel: 6.8.0 → 6.8.1"),
        ({"driver_version": "590.10"}, "Driver: 580.159.04 → 590.10"),
        ({"nvidia_module_version": "590.10"}, "NVIDIA kernel module: 580.159.04 → 590.10"),
        ({"cores": 32}, "CPU cores: 64 → 32"),
        ({"rdma_ready": True}, "GPUDirect RDMA: no → yes"),
        ({"rdma_ready": None}, "GPUDirect RDMA: no → –"),
        ({"numa_distances": {0: (10,)}}, "NUMA distances: 0: 10 21; 1: 21 10 → 0: 10"),
        ({"nvidia_parameters": {"EnableMSI": "0", "RegistryDwords": ""}}, "Module parameter EnableMSI: 1 → 0"),
        ({"cpu_governor": None, "absent": {"cpu_governor": "not_found"}}, "CPU governor: powersave → –"),
    ],
)
def test_a_fact_that_changed_is_an_event(change: dict[str, Any], line: str) -> None:
    """Between two hellos of the node; one event, however often the same is said again."""
    enrol(said("b1"), is_current=True, process="p")
    enrol(said("b2", **change), is_current=True, process="p")
    enrol(said("b3", **change), is_current=True, process="p")

    assert told() == [(None, line)]
    assert Event.objects.get().handled_at is not None


def test_a_gpu_on_another_numa_node_is_an_event_of_that_gpu() -> None:
    """As after a change of the board or of the firmware's settings."""
    enrol(said("b1"), is_current=True, process="p")
    enrol(said("b2", gpu_numa_nodes={UUIDS[0]: 1, UUIDS[1]: 1}), is_current=True, process="p")

    assert told() == [(0, "NUMA node: 0 → 1")]


def test_a_fact_that_comes_back_is_an_event_and_one_that_is_told_first_is_none() -> None:
    """A newer agent tells more than its predecessor; that is no change of the host."""
    enrol(said("b1", cpu_governor=None, nvidia_parameters={}), is_current=True, process="p")
    enrol(said("b2"), is_current=True, process="p")
    assert told() == []
    enrol(said("b3", cpu_governor=None, absent={"cpu_governor": "not_permitted"}), is_current=True, process="p")
    enrol(said("b4"), is_current=True, process="p")

    assert [text for _, text in told()] == ["CPU governor: powersave → –", "CPU governor: – → powersave"]


def test_a_module_that_comes_back_with_other_parameters_is_compared_with_what_it_was() -> None:
    """To change them it has to be unloaded: a hello in between tells none."""
    enrol(said("b1"), is_current=True, process="p")
    enrol(said("b2", nvidia_parameters={}, absent={"nvidia_parameters": "not_found"}), is_current=True, process="p")
    enrol(said("b3", nvidia_parameters={"EnableMSI": "0", "RegistryDwords": ""}), is_current=True, process="p")

    assert [text for _, text in told()] == ["Module parameter EnableMSI: 1 → 0"]


def test_a_backlogs_hello_changes_nothing() -> None:
    """It is of an earlier boot: what it says was so once."""
    enrol(said("b2"), is_current=True, process="p")
    enrol(said("b1", cpu_governor="performance"), is_current=False, process="p")

    assert Node.objects.get().cpu_governor == "powersave"
    assert told() == []


def test_a_recording_that_is_played_tells_no_change() -> None:
    """Another recording under the same name is another machine."""
    enrol(said("b1", recording="one"), is_current=True, process="p")
    enrol(said("b2", recording="two", kernel="5.4"), is_current=True, process="p")

    assert told() == []


def test_what_cannot_be_a_fact_is_not_kept() -> None:
    """An agent's token may be in bad hands: names, sizes and numbers are bounded."""
    enrol(
        said(
            "b1",
            nvidia_parameters={f"P{i}": "x" * 999 for i in range(500)} | {"<b>": "1", "A" * 99: "1"},
            numa_distances={0: (10, -1)},
            gpu_numa_nodes={UUIDS[0]: -5, UUIDS[1]: 1 << 40},
            cpu_governor="power\u202esave" + "x" * 500,
            absent={"cpu_governor": "because", "<i>": "timeout", "numa_distances": "timeout"},
        ),
        is_current=True,
        process="p",
    )
    node = Node.objects.get()

    assert len(node.nvidia_parameters) == facts.MAX_PARAMETERS
    assert {len(value) for value in node.nvidia_parameters.values()} == {200}
    assert (node.numa_distances, node.facts_absent) == ({}, {"numa_distances": "timeout"})
    assert [gpu.numa_node for gpu in node.gpus.all()] == [None, None]
    assert len(node.cpu_governor) == 40
    assert "\u202e" not in node.cpu_governor


def test_many_changes_at_once_are_few_events() -> None:
    """What does not fit is counted."""
    enrol(said("b1", nvidia_parameters={f"P{i}": "1" for i in range(60)}), is_current=True, process="p")
    enrol(said("b2", nvidia_parameters={f"P{i}": "2" for i in range(60)}), is_current=True, process="p")
    lines = [text for _, text in told()]

    assert len(lines) == facts.MAX_TOLD
    assert lines[-1] == "41 more facts changed"


@pytest.mark.django_db(databases=[])
async def test_a_fresh_hello_of_a_running_agent_is_an_event(server: Server, node: str) -> None:
    """As agents do it: they connect anew, say what the host is now, and go on with their batches."""
    token, now = server.token(node), float(int(time.time()))
    for number, governor in enumerate(("powersave", "performance", "performance")):
        said = hello(node, f"boot-{number}", host=HostFacts(cpu_governor=governor))
        async with speak(server.agents, token) as agent:
            await agent.greet(said)
            await agent.say(batch(said, 0, now - 9 + number, gpu_labels=[GpuLabels(0, {"pod": f"pod-{number}"})]))
            assert await agent.acked(0)
    changed = server.rows(
        "SELECT e.* FROM inventory_event e JOIN inventory_node n ON n.id = e.node_id WHERE n.name = ? AND e.kind = 'changed'",
        node,
    )

    assert [row["text"] for row in changed] == ["CPU governor: powersave → performance"]
    assert server.node(node)["cpu_governor"] == "performance"
    assert '"pod-2"' in server.gpus(node)[0]["labels"]


def test_devices_that_a_scheduler_told_of_first_are_found_at_the_hello() -> None:
    """Jobs may start on a node before its agent does; an index is NVML's, and what is no GPU there stays as told."""
    given = [Given(node="n", devices=["1", UUIDS[0], "9"], shared=False)]
    (job,) = tell([Told(cluster="west", job_id="1", started_at=timezone.now(), allocations=given)], timezone.now())
    assert {row.gpu for row in job.allocations.all()} == {None}

    enrol(said("b1"), is_current=True, process="p")

    found = {row.device: None if row.gpu is None else row.gpu.uuid for row in job.allocations.all()}
    assert found == {"1": UUIDS[1], UUIDS[0]: UUIDS[0], "9": None}
