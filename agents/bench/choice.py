"""Which GPUs a run measures."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from agents.collectors.visible_gpus import visible
from agents.nvml_device import NvmlDevice
from wire.sentence import Sentence, _

_NAMED: Final = re.compile(r"[0-9]{1,4}|(?:GPU|MIG)-[0-9A-Za-z/-]{1,60}")


class BenchRefusedError(Exception):
    """Nothing is measured; the message is a sentence without its first word's capital."""


def check(asked: str) -> None:
    """BenchRefusedError unless it is a list of indices or of UUIDs. CUDA would read `1e30` as 1; whoever typed it meant something else."""
    words = [word.strip() for word in asked.split(",")]
    for word in words:
        if not _NAMED.fullmatch(word):
            raise BenchRefusedError(
                Sentence(
                    _("--gpus names GPUs by index or UUID, as 0,1 or GPU-01234567; {word} is neither."), word=repr(word[:60])
                )
            )
    if len({word[:3] == "GPU" or word[:3] == "MIG" for word in words}) > 1:
        raise BenchRefusedError(Sentence(_("--gpus takes indices or UUIDs, not both.")))
    if twice := next((word for word in words if words.count(word) > 1), None):
        raise BenchRefusedError(Sentence(_("--gpus names {twice} twice."), twice=twice))


def chosen(devices: Sequence[NvmlDevice], asked: str | None, environment: Mapping[str, str]) -> list[NvmlDevice]:
    """The GPUs to measure, in the order of their PCI addresses; BenchRefusedError for those that are none or are split."""
    facts = [device.facts for device in devices]
    order_known = (
        asked is not None or environment.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID" or len({one.name for one in facts}) == 1
    )
    text = environment.get("CUDA_VISIBLE_DEVICES") if asked is None else asked
    found = visible(text, facts, order_known)
    if found is not None and any(one not in {fact.uuid for fact in facts} for one in found):
        raise BenchRefusedError(
            Sentence(
                _("CUDA_VISIBLE_DEVICES={text} does not say which GPUs those are: name them with --gpus, as 0,1 or by UUID."),
                text=text,
            )
        )
    if found is not None and (not found or len(found) < len((text or "").split(","))):
        where = "--gpus" if asked is not None else "CUDA_VISIBLE_DEVICES"
        raise BenchRefusedError(
            Sentence(
                _("{where}={text} names GPUs that are not here; there are {known}."),
                where=where,
                text=text,
                known=_listed(devices),
            )
        )
    picked = [device for device in devices if found is None or device.facts.uuid in found]
    whole = [device for device in picked if not device.facts.mig_mode]
    if not whole:
        raise BenchRefusedError(
            Sentence(
                _("every GPU is split by MIG, and a slice's score compares with nothing: switch MIG off, or name another GPU.")
            )
        )
    return whole


def _listed(devices: Collection[NvmlDevice]) -> str:
    return ", ".join(f"{device.facts.index} ({device.facts.uuid})" for device in devices)
