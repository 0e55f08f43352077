"""Which GPUs a run measures."""

from collections.abc import Collection, Mapping, Sequence

from agents.collectors.visible_gpus import visible
from agents.nvml_device import NvmlDevice


class BenchRefusedError(Exception):
    """Nothing is measured; the message is a sentence without its first word's capital."""


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
            f"CUDA_VISIBLE_DEVICES={text} does not say which GPUs those are: name them with --gpus, as 0,1 or by UUID."
        )
    if found is not None and (not found or len(found) < len((text or "").split(","))):
        where = "--gpus" if asked is not None else "CUDA_VISIBLE_DEVICES"
        raise BenchRefusedError(f"{where}={text} names GPUs that are not here; there are {_listed(devices)}.")
    picked = [device for device in devices if found is None or device.facts.uuid in found]
    whole = [device for device in picked if not device.facts.mig_mode]
    if not whole:
        raise BenchRefusedError(
            "every GPU is split by MIG, and a slice's score compares with nothing: switch MIG off, or name another GPU."
        )
    return whole


def _listed(devices: Collection[NvmlDevice]) -> str:
    return ", ".join(f"{device.facts.index} ({device.facts.uuid})" for device in devices)
