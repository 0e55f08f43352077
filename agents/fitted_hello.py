"""A hello that a server takes, whatever a driver, an exporter or the host says of itself: without it no reading is delivered at all."""

import logging
from functools import cache
from typing import Any, Final

import msgspec
from msgspec import structs

from agents.outbox import plain
from wire.codec import MAX_FRAME_BYTES, encode_text
from wire.messages import GpuFacts, Hello, HostFacts

log = logging.getLogger(__name__)

MAX_BYTES: Final = MAX_FRAME_BYTES - 1024
"""Of a hello in JSON; the second at which it is sent is added later."""
MAX_TEXT: Final = 200
"""Characters of one fact."""
_SHORT: Final = 40
"""Characters of a model's name where hellos are too large for longer ones."""
_GPU_TEXTS: Final = tuple(
    field.name for field in structs.fields(GpuFacts) if field.type == str | None and field.name != "parent_uuid"
)


def fitted(hello: Hello) -> Hello:
    """The same with texts of MAX_TEXT printable characters, and without its largest facts where all of it is too large; told once."""
    host, gpus = _printable(hello.host), tuple(_printable(gpu) for gpu in hello.gpus)
    hello = structs.replace(hello, host=host, gpus=gpus)
    left_out = []
    while (size := len(encode_text(hello).encode())) > MAX_BYTES:
        what, hello = _without_largest(hello)
        if len(encode_text(hello).encode()) >= size:
            break  # nothing is left that could go
        left_out.append(what)
    if left_out:
        _tell(tuple(left_out))
    return hello


def _printable(facts: Any) -> Any:
    """Facts with their texts in order; identities stay as they are, for a server refuses what is none."""
    changes = {
        name: plain(value)
        for name in facts.__struct_fields__
        if isinstance(value := getattr(facts, name), str) and name not in ("uuid", "parent_uuid")
    }
    return structs.replace(facts, **changes) if any(getattr(facts, name) != text for name, text in changes.items()) else facts


def _without_largest(hello: Hello) -> tuple[str, Hello]:
    """The name of what takes most of it, and the hello without it."""
    empty = HostFacts()
    sizes: dict[tuple[str, str], int] = {
        ("host", name): _size(getattr(hello.host, name)) for name in HostFacts.__struct_fields__ if name != "absent"
    }
    sizes |= {("gpu", name): sum(_size(getattr(gpu, name)) for gpu in hello.gpus) for name in _GPU_TEXTS}
    sizes["gpu", "name"] = sum(max(0, _size(gpu.name) - _SHORT) for gpu in hello.gpus)
    whose, name = max(sizes, key=lambda one: sizes[one])
    if whose == "host":
        absent = {**hello.host.absent, name: "out_of_range"}
        host = structs.replace(hello.host, absent=absent, **{name: getattr(empty, name)})
        return f"{name} of the host", structs.replace(hello, host=host)
    gpus = tuple(structs.replace(gpu, **({"name": gpu.name[:_SHORT]} if name == "name" else {name: None})) for gpu in hello.gpus)
    return f"{name} of the GPUs", structs.replace(hello, gpus=gpus)


def _size(value: object) -> int:
    return len(msgspec.json.encode(value))


@cache
def _tell(left_out: tuple[str, ...]) -> None:
    """Log it, once for each set of facts."""
    log.warning("This node has more to tell of itself than a server takes; left out or cut: %s.", ", ".join(left_out))
