"""What the kubelet's pod-resources socket tells: which pod holds which device of the node.

`PodResourcesLister`, v1: https://github.com/kubernetes/kubelet/blob/master/pkg/apis/podresources/v1/api.proto, whose field
numbers stand below. Stable since Kubernetes 1.28; older ones have `List` and may refuse `GetAllocatableResources`.
"""

from pathlib import Path
from typing import Final, NamedTuple

from agents.protobuf_fields import fields
from agents.unary_call import CallError, call

_SERVICE: Final = "/v1.PodResourcesLister/"
# ListPodResourcesResponse.pod_resources, PodResources.name, namespace, containers, ContainerResources.name, devices
_PODS, _POD, _NAMESPACE, _CONTAINERS, _CONTAINER, _CONTAINER_DEVICES = 1, 1, 2, 3, 1, 2
# ContainerDevices.resource_name, device_ids; AllocatableResourcesResponse.devices
_RESOURCE, _DEVICE, _ALLOCATABLE = 1, 2, 1
_NAME_MAX: Final = 253
"""Characters of a name in Kubernetes."""
MAX_GIVEN: Final = 20_000
"""Devices of one answer that are kept: 64 GPUs in 100 replicas each are 6,400."""


class Given(NamedTuple):
    """One device of one container, as its device plugin names it."""

    namespace: str
    pod: str
    container: str
    resource: str
    device: str


def given(path: Path) -> list[Given]:
    """The devices that pods of the node hold, whatever their kind; CallError where the kubelet does not say."""
    try:
        return listed(call(path, _SERVICE + "List"))
    except ValueError as error:
        raise CallError("driver_error", f"{path} answers List with what is no list of pods: {error}.") from None


def allocatable(path: Path) -> list[tuple[str, str]]:
    """(resource, device) of all devices that the kubelet can give; CallError where it does not say, as before Kubernetes 1.23."""
    try:
        answer = call(path, _SERVICE + "GetAllocatableResources")
        return [pair for number, value in fields(answer) if number == _ALLOCATABLE for pair in _devices(_message(value))]
    except ValueError as error:
        raise CallError("driver_error", f"{path} answers GetAllocatableResources with what has no devices: {error}.") from None


def listed(answer: bytes) -> list[Given]:
    """The devices in a ListPodResourcesResponse; ValueError where it is none."""
    found: list[Given] = []
    for number, pod in fields(answer):
        if number == _PODS:
            found += _of_pod(_message(pod))
            if len(found) > MAX_GIVEN:
                raise ValueError(f"more than {MAX_GIVEN} devices")
    return found


def _of_pod(message: bytes) -> list[Given]:
    name = namespace = ""
    containers: list[bytes] = []
    for number, value in fields(message):
        if number == _POD:
            name = _word(value)
        elif number == _NAMESPACE:
            namespace = _word(value)
        elif number == _CONTAINERS:
            containers.append(_message(value))
    if not (name and namespace):
        return []
    return [Given(namespace, name, *device) for container in containers for device in _of_container(container)]


def _of_container(message: bytes) -> list[tuple[str, str, str]]:
    name = ""
    devices: list[tuple[str, str]] = []
    for number, value in fields(message):
        if number == _CONTAINER:
            name = _word(value)
        elif number == _CONTAINER_DEVICES:
            devices += _devices(_message(value))
    return [(name, *device) for device in devices]


def _devices(message: bytes) -> list[tuple[str, str]]:
    resource, ids = "", []
    for number, value in fields(message):
        if number == _RESOURCE:
            resource = _word(value)
        elif number == _DEVICE:
            ids.append(_word(value))
    return [(resource, one) for one in ids]


def _message(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ValueError("a number stands where a message belongs")
    return value


def _word(value: int | bytes) -> str:
    """A name of Kubernetes, or a device's."""
    text = _message(value).decode(errors="replace")
    if len(text) > _NAME_MAX or not text.isprintable():
        raise ValueError("a name is longer than names are, or is none")
    return text
