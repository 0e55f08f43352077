"""Devices and nodes as schedulers name them, read into single names; `Cards` finds the GPUs that are meant.

A device is told as an index (NVML's on that node: a minor number and CUDA's order may differ from it), a GPU's UUID or its beginning,
a MIG instance's UUID of either form, or a PCI bus id. A scheduler that tells only how many it gave is taken at its word: `gpu:h100:2`
stays one name that stands for two devices.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from django.utils.translation import gettext

from fleet.inventory.models import Gpu, Node

MOST_DEVICES: Final = 1024
"""In one list, and the highest index but one."""
_MOST_WORDS: Final = 4 * MOST_DEVICES
"""Devices that a list spells, those that it names again too."""
_NOTHING: Final = frozenset({"", "(null)", "n/a", "none", "void", "nodevfiles"})
"""How Slurm and NVIDIA's tools say that there is none."""
_INDEX: Final = re.compile(r"(\d{1,4})(?:-(\d{1,4}))?")
_HEX: Final = r"[0-9a-f]"
_WORD: Final = r"[0-9A-Za-z][0-9A-Za-z-]"
"""What a UUID has behind its kind: of drivers hexadecimal digits, of the GPUs of a recording that is played other letters too."""
_UUID: Final = re.compile(rf"(GPU|MIG)-({_WORD}{{0,75}})", re.I | re.A)
_DIGITS: Final = re.compile(rf"({_HEX}|-)+", re.I)
_OLD_MIG: Final = re.compile(rf"MIG-(GPU-{_WORD}{{0,75}})/(\d{{1,3}})/(\d{{1,3}})", re.I | re.A)
_PCI: Final = re.compile(rf"(?:({_HEX}{{4,8}}):)?({_HEX}{{2}}):({_HEX}{{2}})\.([0-7])", re.I)
_GRES: Final = re.compile(
    r"(?P<kind>gpu|mps|shard)(?P<type>:[A-Za-z_][A-Za-z0-9_.-]{0,60})?(?::(?P<total>\d{1,6}))?"
    r"(?:\((?:IDX:(?P<index>N/A|[0-9,-]*)|S:[0-9,-]+)\))?"
)
_COMMA: Final = re.compile(r",(?![^\[(]*[\])])")
"""One that stands in no brackets."""


class DeviceError(Exception):
    """No device, or no node, is called so; the message says what there is."""


@dataclass(frozen=True, slots=True)
class Devices:
    """What a list names: `names` each once, in its order. `shared`: others may hold the same devices (Slurm's `mps` and `shard`)."""

    names: tuple[str, ...] = ()
    shared: bool = False

    @property
    def total(self) -> int:
        """How many devices the names stand for."""
        return sum(map(stands_for, self.names))


def devices(told: str | Sequence[str | int]) -> Devices:
    """The devices that `told` names: a text with commas, or a list of such texts and of indexes. DeviceError for what is no device.

    A list ends at -1, as CUDA reads its own. What is named twice counts once.
    """
    words = [told] if isinstance(told, str) else [str(one) for one in told]
    names: dict[str, None] = {}
    shared = False
    spelled = 0
    for word in (part for text in words for part in _COMMA.split(text.strip().removeprefix("[").removesuffix("]"))):
        one = word.strip()
        if one == "-1":
            break
        found, is_shared = _read(one)
        read = tuple(found)
        spelled += max(len(read), 1)
        names |= dict.fromkeys(read)
        shared |= is_shared
        if len(names) > MOST_DEVICES or spelled > _MOST_WORDS:
            raise DeviceError(gettext("A list names at most {most} devices.").format(most=MOST_DEVICES))
    return Devices(tuple(names), shared)


def _read(one: str) -> tuple[Iterable[str], bool]:
    """The names that a word stands for, and whether others may hold them too."""
    if one.lower() in _NOTHING:
        return (), False
    if found := _INDEX.fullmatch(one):
        return _indexes(found), False
    if found := _OLD_MIG.fullmatch(one):
        return (f"MIG-{_uuid(found[1])}/{found[2]}/{found[3]}",), False
    if _UUID.fullmatch(one):
        return (_uuid(one),), False
    if found := _PCI.fullmatch(one):
        return (_bus_id(found),), False
    if found := _GRES.fullmatch(one):
        return _of_gres(found), found["kind"] != "gpu"
    says = gettext(
        "{device} is no device: name them by index (0-3,5), by UUID (GPU-… or MIG-…), by PCI bus id (0000:17:00.0),"
        " or as Slurm does (gpu:h100:2(IDX:0-1))."
    )
    raise DeviceError(says.format(device=one[:60]))


def _uuid(told: str) -> str:
    """As drivers write it, in small digits; one with other letters as it was told."""
    kind, _, rest = told.partition("-")
    return f"{kind.upper()}-{rest.lower() if _DIGITS.fullmatch(rest) else rest}"


def _indexes(found: re.Match[str]) -> Iterable[str]:
    first, last = int(found[1]), int(found[2] or found[1])
    if first > last or last >= MOST_DEVICES:
        says = gettext("{device} is no range of devices: the lower index comes first, and none is over {most}.")
        raise DeviceError(says.format(device=found[0], most=MOST_DEVICES - 1))
    return map(str, range(first, last + 1))


def _of_gres(found: re.Match[str]) -> Iterable[str]:
    """Of Slurm's `gpu:h100:2(IDX:0-1)` the indexes; without any, how many."""
    index = found["index"]
    if index and index != "N/A":
        return devices(index).names
    if found["kind"] != "gpu":
        return ()  # a share of devices that nobody names
    total = int(found["total"] or 1)
    return (f"gpu{found['type'] or ''}:{total}",) if 0 < total <= MOST_DEVICES else ()


def _bus_id(found: re.Match[str]) -> str:
    """As NVML writes it: eight digits of the domain, and capitals."""
    return f"{int(found[1] or '0', 16):08X}:{found[2]}:{found[3]}.{found[4]}".upper()


def stands_for(name: str) -> int:
    """How many devices a name stands for: one, but for `gpu:2` and `gpu:h100:2`."""
    return int(name.rpartition(":")[2]) if name.startswith("gpu:") else 1


class Cards:
    """The GPUs of one node, found by what schedulers call them; none where no agent told of the node."""

    def __init__(self, gpus: Iterable[Gpu] = (), node: Node | None = None) -> None:
        self.node = node
        self._gpus = sorted(gpus, key=lambda gpu: (not gpu.present, gpu.pk))  # of two with one index, the one that is there

    def find(self, name: str) -> Gpu | None:
        """The GPU or MIG instance that `name`, read by `devices`, means; None where there is none, or no single one."""
        if name.isdigit():
            return self._first(lambda gpu: gpu.index == int(name) and not gpu.parent_uuid and gpu.present)
        if found := _OLD_MIG.fullmatch(name):
            parent, instance = found[1].lower(), (int(found[2]), int(found[3]))
            return self._first(
                lambda gpu: (
                    gpu.parent_uuid.lower() == parent and (gpu.mig_gpu_instance, gpu.mig_compute_instance or 0) == instance
                )
            )
        if found := _PCI.fullmatch(name):
            return self._first(lambda gpu: _same_place(gpu, name) and not gpu.parent_uuid)
        if name.startswith("gpu:"):
            return None
        exact = self._first(lambda gpu: gpu.uuid.lower() == name.lower())
        if exact is not None:
            return exact
        begun = [gpu for gpu in self._gpus if gpu.uuid.lower().startswith(name.lower()) and not gpu.parent_uuid]
        return begun[0] if len(begun) == 1 else None

    def _first(self, fits: Callable[[Gpu], bool]) -> Gpu | None:
        return next(filter(fits, self._gpus), None)


def _same_place(gpu: Gpu, name: str) -> bool:
    found = _PCI.fullmatch(gpu.pci_bus_id)
    return found is not None and _bus_id(found) == name
