"""Which GPUs CUDA_VISIBLE_DEVICES lets a process use, read as CUDA reads it.

NVIDIA's guide says: not set, all; empty, none; indices or UUIDs, which may be cut short; what stands behind an invalid one is not
visible (https://docs.nvidia.com/cuda/cuda-programming-guide/05-appendices/environment-variables.html). What it leaves open was
measured on two H200 with driver 580.159.04: the first word says whether the list is one of indices or of UUIDs, a word of
another kind is invalid, and a GPU named twice before the first invalid word makes the whole list void. Of MIG instances a
process gets the first of its list alone (https://docs.nvidia.com/datacenter/tesla/mig-user-guide/).
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from wire.messages import GpuFacts

ALL: Final = "all"
NONE: Final = "none"
UNSURE: Final = "?"
"""Before an index: so CUDA counts, and which GPU that is, nobody but the process knows."""
_SHORTEST: Final = 8
"""Digits that are told of a UUID at least; more where another GPU of the node begins likewise."""
_INDEX: Final = re.compile(r"\s*([-+]?\d{1,9})(?!\d)")
"""As C's strtol reads it: blanks before, anything behind."""
_OLD_MIG: Final = re.compile(r"MIG-(GPU-[0-9a-fA-F-]{1,36})/(\d{1,3})/(\d{1,3})")
_WHOLE: Final = len("GPU-01234567-89ab-cdef-0123-456789abcdef")


def label(environment: Mapping[str, str], gpus: Sequence[GpuFacts], is_shut_in: bool) -> str | None:
    """`all`, `none` or a list with commas: the beginnings of UUIDs, or `?` and an index; None where no GPU is CUDA's.

    `is_shut_in`: the process is in a container or a job, which may see fewer GPUs than the node has; an index then counts those.
    """
    own = [gpu for gpu in gpus if gpu.uuid.startswith(("GPU-", "MIG-"))]
    if not own:
        return None
    is_known = not is_shut_in and _is_order_known(environment.get("CUDA_DEVICE_ORDER", ""), own)
    found = visible(environment.get("CUDA_VISIBLE_DEVICES"), own, is_known)
    if found is None:
        return ALL
    shortened = _shortened([gpu.uuid for gpu in own])
    return ",".join(shortened.get(one, one) for one in found) or NONE


def visible(value: str | None, gpus: Sequence[GpuFacts], is_order_known: bool) -> list[str] | None:
    """UUIDs in CUDA's order, or `?` and the index where `is_order_known` is false; None: all that there are."""
    if value is None:
        return None
    words = value.split(",")
    kind = words[0][:4]
    found: list[str] = []
    for word in words:
        if kind in ("GPU-", "MIG-"):
            one = _by_uuid(word, gpus) if word.startswith(kind) else None
        else:
            one = _by_index(word, gpus, is_order_known)
        if one is None:
            break
        if one in found:
            return []
        found.append(one)
    return found[:1] if kind == "MIG-" else found


def _by_index(word: str, gpus: Sequence[GpuFacts], is_order_known: bool) -> str | None:
    match = _INDEX.match(word)
    number = -1 if match is None else int(match[1])
    if number < 0:
        return None
    if not is_order_known:
        return f"{UNSURE}{number}" if number < len(gpus) else None
    cards = sorted(gpus, key=lambda gpu: gpu.index)
    return cards[number].uuid if number < len(cards) else None


def _by_uuid(word: str, gpus: Sequence[GpuFacts]) -> str | None:
    """The one GPU or instance that is meant; None where none is or several are."""
    if match := _OLD_MIG.match(word):
        card, *place = match[1].lower(), int(match[2]), int(match[3])
        meant = [
            gpu.uuid
            for gpu in gpus
            if (gpu.parent_uuid or "").lower().startswith(card) and [gpu.mig_gpu_instance, gpu.mig_compute_instance] == place
        ]
    else:
        begin = word[:_WHOLE].lower()  # CUDA looks no further
        meant = [gpu.uuid for gpu in gpus if gpu.uuid.lower().startswith(begin)]
    return meant[0] if len(meant) == 1 else None


def _is_order_known(order: str, gpus: Sequence[GpuFacts]) -> bool:
    """CUDA counts by PCI address, as NVML does, when told so; else the fastest come first, which alike ones do not change.

    Where a card is split, CUDA counts instances in an order of its own.
    """
    if any(gpu.parent_uuid is not None or gpu.mig_mode for gpu in gpus):
        return False
    return order == "PCI_BUS_ID" or len({gpu.name for gpu in gpus}) == 1


def _shortened(uuids: Sequence[str]) -> dict[str, str]:
    """The beginning of each UUID that no other one has."""
    longest = max(map(len, uuids))
    for end in range(len("GPU-") + _SHORTEST, longest):
        if len({uuid[:end] for uuid in uuids}) == len(uuids):
            return {uuid: uuid[:end].rstrip("-") for uuid in uuids}
    return {uuid: uuid for uuid in uuids}
