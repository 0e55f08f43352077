"""`read(path)`: what a profile of a GPU program tells, whichever tool wrote it."""

from pathlib import Path
from typing import Final

import numpy as np

from advisor.profiles import device, kineto, nsight
from advisor.profiles.activity import Collected
from advisor.profiles.evidence import evidence
from advisor.profiles.stream import ProfileError
from advisor.profiles.summary import Profile, Source, Steps
from advisor.text import Text, _

_SQLITE: Final = b"SQLite format 3\0"


def read(path: Path) -> Profile:
    """The profile's summary; ProfileError, a sentence, where the file is none that can be read."""
    try:
        with path.open("rb") as file:
            begins = file.read(len(_SQLITE))
    except OSError as error:
        raise ProfileError(f"{path} cannot be read: {error.strerror or error}.") from None
    if path.suffix in (".nsys-rep", ".qdrep"):
        raise ProfileError(
            f"{path} is a report of Nsight Systems in its own format. Export it first: nsys export --type sqlite {path.name}"
        )
    return summary(*(nsight.read(path) if begins == _SQLITE else kineto.read(path)))


def summary(source: Source, found: Collected) -> Profile:
    """What was collected as a result."""
    made = device.calls(found)
    devices = tuple(
        device.device(found, made, process, number, gpu, source.gpu_names)
        for (process, number), gpu in sorted(found.gpus.items(), key=lambda item: (str(item[0][0]), item[0][1]))
        if gpu.starts
    )
    absent: dict[str, Text] = {}
    if not devices:
        absent["devices"] = Text(
            _(
                "The profile holds no activity of a GPU: none was used, or the profiler was not asked to record it (ProfilerActivity.CUDA)."
            )
        )
    steps = None
    if found.steps:
        p50, p95 = np.percentile(np.fromiter(found.steps.values(), np.float64), (50, 95))
        steps = Steps(len(found.steps), float(p50) * 1e-9, float(p95) * 1e-9)
    else:
        absent["steps"] = Text(_("No steps are marked in the profile: give torch.profiler a schedule and call its step()."))
    if source.rank is None:
        absent["source.rank"] = Text(_("The profile does not tell its rank."))
    return Profile(source, devices, steps, evidence(devices, absent.get("devices"), source.complete), absent)
