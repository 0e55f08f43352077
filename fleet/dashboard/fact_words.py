"""Words for the facts of a host and a GPU, for what changed of them, and for engines that have no value."""

import re
from typing import Final

from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from fleet.dashboard import words

FACT: Final = {
    "cpu_governor": _("CPU governor"),
    "kernel": _("Kernel"),
    "driver_version": _("Driver"),
    "cuda_driver_version": "CUDA",
    "nvidia_module_version": _("NVIDIA kernel module"),
    "cores": _("CPU cores"),
    "mem_total_bytes": _("Host memory"),
    "rdma_ready": "GPUDirect RDMA",
    "numa_distances": _("NUMA distances"),
    "numa_node": _("NUMA node"),
    "node": _("Node"),
    "nvidia_parameters": _("Module parameter"),
}
NUMA_NODES: Final = _("NUMA nodes")
PARAMETERS: Final = _("Module parameters")
NOT_TOLD: Final = _("its agent does not tell it")
NOT_EXPORTED: Final = _("its exporter does not tell it")
NO_NUMA_NODE: Final = _("the kernel names no NUMA node for it")
DISTANCES: Final = _("from node {node}: {distances}")
"""`distances` are numbers in the order of the nodes."""

GPU_LABEL: Final = {
    "pod": pgettext_lazy("process", "pod"),
    "namespace": _("namespace"),
    "container": pgettext_lazy("process", "container"),
    "hpc_job": _("HPC job"),
    "cluster": _("Kubernetes cluster"),
    "pods": _("pods that have it"),
    "shared": _("given out in replicas"),
    "mig_profile": _("MIG profile"),
    "mig_instance": _("MIG instance number"),
}

ENGINE_SILENT: Final = {
    "timeout": _("the engine did not answer in time"),
    "not_found": _("nobody listens where the engine is asked"),
    "not_permitted": _("the engine refuses the agent"),
    "unsupported": _("what answers there has no metric of this engine"),
    "driver_error": _("the engine's answer could not be read"),
    "not_a_number": _("the engine's answer could not be read"),
    "out_of_range": _("the engine's answer is too large"),
    "no_previous": _("the engine has not been asked yet"),
}
"""Why an engine tells nothing at all."""
ENGINE_ABSENT: Final = {
    "unsupported": _("this engine does not tell it"),
    "not_found": _("no request in the interval"),
    "no_previous": _("needs an earlier sample"),
    "out_of_range": _("beyond what the engine's buckets tell"),
    "not_a_number": _("the answer was not a number"),
}
"""Why an engine that answers has no value of a metric."""

_MORE: Final = re.compile(r"(?P<total>\d+) more facts changed")
_SAID: Final = _("{total} more facts changed")
_BY_ENGLISH: Final = {
    "CPU governor": "cpu_governor",
    "Kernel": "kernel",
    "Driver": "driver_version",
    "CUDA": "cuda_driver_version",
    "NVIDIA kernel module": "nvidia_module_version",
    "CPU cores": "cores",
    "GPUDirect RDMA": "rdma_ready",
    "NUMA distances": "numa_distances",
    "NUMA node": "numa_node",
    "Node": "node",
    "Module parameter": "nvidia_parameters",
}
"""As ingest names them in its events (fleet.ingest.facts.NAMES)."""


def changed(text: str) -> str:
    """The text of an event of the kind `changed` in the reader's language."""
    if found := _MORE.fullmatch(text):
        return str(_SAID).replace("{total}", found["total"])
    name, colon, what = text.partition(": ")
    if colon and name in _BY_ENGLISH:
        if _BY_ENGLISH[name] == "rdma_ready":
            what = " → ".join(str({"yes": words.YES, "no": words.NO}.get(one, one)) for one in what.split(" → "))
        return f"{FACT[_BY_ENGLISH[name]]}: {what}"
    fact, _space, which = name.rpartition(" ")
    return f"{FACT[_BY_ENGLISH[fact]]} {which}: {what}" if colon and fact in _BY_ENGLISH else text


def reason(slug: str) -> str:
    """Why a fact is not told."""
    return words.word(words.REASON, slug) if slug else str(NOT_TOLD)
