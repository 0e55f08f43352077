"""What a node and a GPU are: facts for their pages, each with its reason where it is not told."""

from dataclasses import dataclass
from typing import Final

from fleet.dashboard import fact_words, words
from fleet.dashboard.fact_words import FACT, GPU_LABEL
from fleet.dashboard.templatetags.units import count, memory
from fleet.inventory.models import PROMETHEUS, Gpu, Node

_NODE: Final = (
    "cores",
    "mem_total_bytes",
    "cpu_governor",
    "kernel",
    "driver_version",
    "cuda_driver_version",
    "nvidia_module_version",
)


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact: `text` is empty where it is not told, for `reason`; `more` is what goes below it, a line each."""

    label: str
    text: str
    reason: str = ""
    more: tuple[str, ...] = ()


def of_node(node: Node) -> list[Fact]:
    """The node's, the parameters of its NVIDIA module last."""
    return [*(_plain(node, name) for name in _NODE), _rdma(node), _distances(node), _parameters(node)]


def of_gpu(gpu: Gpu, node: Node) -> Fact:
    """Where the GPU is among the NUMA nodes, and how far the others are."""
    label = str(FACT["numa_node"])
    if gpu.numa_node is None and node.source == PROMETHEUS:
        return Fact(label, "", str(fact_words.NOT_EXPORTED))
    if gpu.numa_node is None:
        told = "not_recorded" if node.recording else _why(node, "gpu_numa_nodes")
        named = told or node.numa_distances or node.facts_absent  # whoever tells of NUMA would have named it
        return Fact(label, "", str(fact_words.NO_NUMA_NODE) if named and not told else fact_words.reason(told))
    return Fact(label, str(gpu.numa_node), "", _lines(node, str(gpu.numa_node)))


def labels(gpu: Gpu) -> list[Fact]:
    """Whom the kubelet or dcgm-exporter gives the GPU to; empty where none tells."""
    told = gpu.labels if isinstance(gpu.labels, dict) else {}
    return [Fact(str(label), str(told[name])) for name, label in GPU_LABEL.items() if told.get(name)]


def _plain(node: Node, name: str) -> Fact:
    value = getattr(node, name)
    text = count(value) if name == "cores" else memory(value) if name == "mem_total_bytes" else value
    return _fact(node, name, str(text) if value else "")


def _rdma(node: Node) -> Fact:
    ready = node.rdma_ready
    return _fact(node, "rdma_ready", "" if ready is None else str(words.YES if ready else words.NO))


def _distances(node: Node) -> Fact:
    told = node.numa_distances if isinstance(node.numa_distances, dict) else {}
    lines = tuple(line for key in told for line in _lines(node, key))
    return Fact(
        str(fact_words.NUMA_NODES), str(len(told)) if told else "", "" if told else _reason(node, "numa_distances"), lines
    )


def _parameters(node: Node) -> Fact:
    told = node.nvidia_parameters if isinstance(node.nvidia_parameters, dict) else {}
    why = _why(node, "nvidia_parameters")
    if why or not told:
        return Fact(str(fact_words.PARAMETERS), "", _reason(node, "nvidia_parameters"))
    return Fact(
        str(fact_words.PARAMETERS), count(len(told)), "", tuple(f"{name}={value}" for name, value in sorted(told.items()))
    )


def _lines(node: Node, key: str) -> tuple[str, ...]:
    row = node.numa_distances.get(key) if isinstance(node.numa_distances, dict) else None
    if not row:
        return ()
    return (str(fact_words.DISTANCES).replace("{node}", key).replace("{distances}", " ".join(map(str, row))),)


def _fact(node: Node, name: str, text: str) -> Fact:
    return Fact(str(FACT[name]), text, "" if text else _reason(node, name))


def _reason(node: Node, name: str) -> str:
    return fact_words.reason("not_recorded" if node.recording else _why(node, name))


def _why(node: Node, name: str) -> str:
    why = node.facts_absent.get(name, "") if isinstance(node.facts_absent, dict) else ""
    return str(why)
