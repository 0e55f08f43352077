"""Which pods the kubelet has given each GPU to, as labels of the GPU.

The kubelet is asked every few seconds, in a thread of its own: a kubelet that hangs, restarts or answers with too much costs these
labels and nothing else. What was known of a GPU stands until the kubelet says otherwise, and `reason` says that it does not answer.
A kubelet that never answered leaves the cgroups of the processes: they name the pods that compute, by UID, and nothing of the others.
"""

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from agents.config import AgentConfig
from agents.told_gpu_labels import fit
from agents.worker import Worker
from wire.labels import MAX_PODS
from wire.messages import GpuFacts

if TYPE_CHECKING:
    from agents.pod_resources import Given

log = logging.getLogger(__name__)

SOCKET: Final = Path("/var/lib/kubelet/pod-resources/kubelet.sock")
"""Where a kubelet puts it."""
PERIOD_S: Final = 10.0
_REPLICA: Final = "::"
"""Between a device and the number of a replica of it, as NVIDIA's device plugin writes them for time-slicing and MPS alike."""
_WHOSE: Final = ("namespace", "pod", "container")
_CUT: Final = "…"
_SHARED: Final = "yes"


class PodCollector:
    """The pods of the node's GPUs. `cluster` is what the labels call the Kubernetes.

    `is_asked_for`: somebody said that there is a kubelet, so one that is not there is told. Otherwise a node without the socket is no
    node of a Kubernetes, of which there is nothing to tell.
    """

    def __init__(self, path: Path, cluster: str, is_asked_for: bool) -> None:
        self.trouble = ""
        """Why the kubelet does not say who has the GPUs; empty while it does, and where there is none."""
        self._path = path
        self._cluster = cluster
        self._is_expected = is_asked_for
        self._reason: str | None = "no_previous"
        self._given: list[Given] | None = None
        self._pods_before: dict[str, frozenset[tuple[str, str]]] = {}
        self._winners: dict[str, frozenset[tuple[str, str]]] = {}
        self._labels: list[dict[str, str]] = []
        self._labelled: tuple[object, object] = (None, None)
        self._due = float("-inf")
        self._worker = Worker("pod-resources")

    @property
    def reason(self) -> str | None:
        """Why nobody knows which pod has which GPU, one of wire.metrics.REASONS; None where it is known or there is no Kubernetes."""
        return self._reason if self._is_expected else None

    @property
    def is_busy(self) -> bool:
        """True while the kubelet is being asked."""
        return self._worker.busy

    def collect(
        self, now: float, gpus: Sequence[GpuFacts], holders: Mapping[int, Iterable[Mapping[str, str]]]
    ) -> list[dict[str, str]]:
        """Labels of each of `gpus`, in keys of wire.labels.GPU_LABELS, by what is known at monotonic second `now`; waits for nothing.

        `holders[g]` are the labels of the processes that hold GPU g, for a kubelet that has never answered.
        """
        if now >= self._due and not self._worker.busy:
            self._due = now + PERIOD_S
            if self._is_expected or self._path.exists():
                self._is_expected = True
                self._worker.start(self._ask, _nothing)
        given = self._given
        if given is None:
            return [by_cgroup(holders.get(number, ())) for number in range(len(gpus))]
        if self._labelled[0] is not given or self._labelled[1] is not gpus:  # both are replaced when they change, never altered
            self._labelled = (given, gpus)
            self._labels = self._of(given, gpus)
        return self._labels

    def close(self) -> None:
        """Let the thread end; does not wait for it."""
        self._worker.close()

    def _ask(self) -> None:
        from agents.pod_resources import given  # HTTP/2 takes 4 MB, on nodes of a Kubernetes alone
        from agents.unary_call import CallError

        try:
            found = given(self._path)
        except CallError as error:
            if not self.trouble:
                log.warning("Which pod has which GPU is not known: %s", error)
            self._reason, self.trouble = error.reason, str(error)
            return
        if self.trouble:
            log.info("%s tells again which pod has which GPU.", self._path)
        self._reason, self.trouble = None, ""
        if found != self._given:
            self._given = found

    def _of(self, given: "Iterable[Given]", gpus: Sequence[GpuFacts]) -> list[dict[str, str]]:
        numbers = {name: number for number, facts in enumerate(gpus) for name in names(facts)}
        taken: dict[int, list[Given]] = defaultdict(list)
        shared: set[int] = set()
        for one in given:
            device, replica, _ = one.device.partition(_REPLICA)
            number = numbers.get(device.lower())
            if number is not None:
                taken[number].append(one)
                if replica:
                    shared.add(number)
        labels = []
        for number, facts in enumerate(gpus):
            holding = taken[number] if number in shared else self._newest(facts.uuid, taken[number])
            told = {"cluster": self._cluster, **pods_label({f"{one.namespace}/{one.pod}" for one in holding})}
            for name in _WHOSE:
                told |= fit(name, {getattr(one, name) for one in holding})
            if number in shared:
                told["shared"] = _SHARED
            labels.append(told)
        return labels

    def _newest(self, uuid: str, taken: "list[Given]") -> "list[Given]":
        """Of several pods that are said to have one whole device, those that were not there before.

        Up to Kubernetes 1.33 the kubelet goes on naming pods that have ended (kubernetes/kubernetes issue 119423), and gives what they
        had to others.
        """
        pods = frozenset((one.namespace, one.pod) for one in taken)
        before, self._pods_before[uuid] = self._pods_before.get(uuid, frozenset()), pods
        if len(pods) < 2:
            self._winners[uuid] = pods
            return taken
        winners = (pods - before if before else pods) or (self._winners.get(uuid, pods) & pods) or pods
        self._winners[uuid] = winners
        return [one for one in taken if (one.namespace, one.pod) in winners]


def of(config: AgentConfig) -> PodCollector:
    """The collector that the settings describe."""
    return PodCollector(config.pod_resources or SOCKET, config.kubernetes_cluster, config.pod_resources is not None)


def names(facts: GpuFacts) -> list[str]:
    """What device plugins may call this device, in lower case: its UUID, or as older drivers wrote a MIG instance's."""
    found = [facts.uuid.lower()]
    if facts.parent_uuid is not None and facts.mig_gpu_instance is not None and facts.mig_compute_instance is not None:
        found.append(f"mig-{facts.parent_uuid.lower()}/{facts.mig_gpu_instance}/{facts.mig_compute_instance}")
    return found


def pods_label(pods: Iterable[str]) -> dict[str, str]:
    """The label `pods` of these `namespace/pod`, whole ones as far as they fit, `…` after them where more do not; {} for none."""
    text = ""
    for pod in sorted(pods):
        longer = f"{text},{pod}" if text else pod
        if len(longer) > MAX_PODS - 2:
            text = f"{text},{_CUT}"
            break
        text = longer
    return {"pods": text} if text else {}


def joined(of_exporter: dict[str, str], of_kubelet: dict[str, str]) -> dict[str, str]:
    """Both labels of a GPU; where the kubelet has spoken, whom an exporter gives the GPU to counts no more."""
    if "cluster" not in of_kubelet:
        return of_exporter | of_kubelet
    return {name: value for name, value in of_exporter.items() if name not in _WHOSE} | of_kubelet


def by_cgroup(holders: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """The label `pod` by what is known of the processes that hold a GPU: the pod's name where the environment has it, else its UID."""
    return fit("pod", {labels.get("pod_name") or labels["pod"] for labels in holders if "pod" in labels or "pod_name" in labels})


def _nothing() -> None:
    pass
