"""A stub of the kubelet: gRPC's own server at a UNIX socket, with messages that protobuf's own classes write.

The messages are those of kubelet/pkg/apis/podresources/v1/api.proto (Kubernetes, Apache-2.0), as far as they are read here.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

Devices = Mapping[str, Sequence[str]]
"""Device ids by resource."""
_TEXT, _NUMBER, _MESSAGE = 9, 3, 11
# message: (field, number, type or message, repeated)
_PROTO: Final[dict[str, list[tuple[str, int, int | str, bool]]]] = {
    "ContainerDevices": [("resource_name", 1, _TEXT, False), ("device_ids", 2, _TEXT, True)],
    "ContainerResources": [("name", 1, _TEXT, False), ("devices", 2, "ContainerDevices", True), ("cpu_ids", 3, _NUMBER, True)],
    "PodResources": [("name", 1, _TEXT, False), ("namespace", 2, _TEXT, False), ("containers", 3, "ContainerResources", True)],
    "ListPodResourcesResponse": [("pod_resources", 1, "PodResources", True)],
    "AllocatableResourcesResponse": [("devices", 1, "ContainerDevices", True), ("cpu_ids", 2, _NUMBER, True)],
}


def _classes() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="fettle_test_podresources.proto", package="v1", syntax="proto3")
    for name, columns in _PROTO.items():
        message = file.message_type.add(name=name)
        for field, number, kind, repeated in columns:
            added = message.field.add(name=field, number=number, label=3 if repeated else 1)
            added.type = kind if isinstance(kind, int) else _MESSAGE
            if isinstance(kind, str):
                added.type_name = f".v1.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"v1.{name}")) for name in _PROTO}


CLASSES: Final = _classes()


class Kubelet:
    """What the socket answers: change it at any time. `refuses`: a gRPC status in place of every answer; `hangs`: no answer at all."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.pods: dict[tuple[str, str], dict[str, Devices]] = {}
        """(namespace, pod): devices by container."""
        self.allocatable: Devices = {}
        self.raw: bytes | None = None
        self.refuses: grpc.StatusCode | None = None
        self.hangs = False
        self.asked = 0
        self._end = threading.Event()

    def answer(self) -> bytes:
        """A ListPodResourcesResponse of `pods`."""
        message = CLASSES["ListPodResourcesResponse"]()
        for (namespace, name), containers in self.pods.items():
            pod = message.pod_resources.add(name=name, namespace=namespace)
            for container, devices in containers.items():
                told = pod.containers.add(name=container, cpu_ids=[0, 1, 200])
                for resource, ids in devices.items():
                    told.devices.add(resource_name=resource, device_ids=ids)
        return bytes(message.SerializeToString())

    def end(self) -> None:
        """Let go who waits."""
        self._end.set()

    def list(self, _request: bytes, context: Any) -> bytes:
        self._stand(context)
        return self.answer() if self.raw is None else self.raw

    def all(self, _request: bytes, context: Any) -> bytes:
        self._stand(context)
        message = CLASSES["AllocatableResourcesResponse"](cpu_ids=[0, 1])
        for resource, ids in self.allocatable.items():
            message.devices.add(resource_name=resource, device_ids=ids)
        return bytes(message.SerializeToString())

    def _stand(self, context: Any) -> None:
        self.asked += 1
        if self.hangs:
            self._end.wait(30)
        if self.refuses is not None:
            context.abort(self.refuses, "not today: 100%")


@contextmanager
def serving(path: Path) -> Iterator[Kubelet]:
    """A kubelet at this socket until the block ends."""
    kubelet = Kubelet(path)
    server = grpc.server(
        ThreadPoolExecutor(2), options=[("grpc.max_send_message_length", 64 << 20), ("grpc.max_receive_message_length", 64 << 20)]
    )
    methods = {
        "List": grpc.unary_unary_rpc_method_handler(kubelet.list),
        "GetAllocatableResources": grpc.unary_unary_rpc_method_handler(kubelet.all),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("v1.PodResourcesLister", methods),))
    server.add_insecure_port(f"unix:{path}")
    server.start()
    try:
        yield kubelet
    finally:
        kubelet.end()
        server.stop(None).wait()
