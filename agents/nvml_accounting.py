"""What NVML's accounting keeps of the processes of a GPU, where an administrator switched it on. It is never switched here.

nvml.h: `time` (ms) is 0 until a process ends; until then `startTime` (microseconds since 1970) says how long it has run. Of all
processes that ever were (4,000 on an H200) only those that hold the GPU now are asked for.
"""

import time
from collections.abc import Iterable
from typing import Any, Final

from agents.device import ACCOUNTED, Accounts, DeviceError, NvmlGpu
from wire.messages import Cell
from wire.metrics import Accounted, accept

_TIME: Final = "time"
_PLAUSIBLE_S: Final = 978_307_200
"""2001: a start before it is counted from the machine's boot, and tells nothing without it."""


def accounts(device: NvmlGpu, pids: Iterable[int]) -> Accounts:
    """The account of each of `pids`; empty where the driver keeps none."""
    try:
        mode = bool(device.call("nvmlDeviceGetAccountingMode", ()))
    except DeviceError:
        return Accounts()
    return Accounts(mode, {pid: _account(device, pid) for pid in pids} if mode else {})


def _account(device: NvmlGpu, pid: int) -> dict[str, Cell | str]:
    try:
        told = device.call("nvmlDeviceGetAccountingStats", (pid,))
    except DeviceError as error:
        return {metric.name: error.reason for metric in ACCOUNTED}
    found: dict[str, Cell | str] = {}
    for metric in ACCOUNTED:
        member = metric.source.member if isinstance(metric.source, Accounted) else ""
        value, reason = accept(metric, _seconds(told) if member == _TIME else getattr(told, member, None))
        found[metric.name] = value if reason is None else reason
    return found


def _seconds(told: Any) -> float | None:
    """How long the process has computed; None where that is not told."""
    if told.time:
        return float(told.time) / 1000
    started = float(told.startTime) / 1e6
    return max(0.0, time.time() - started) if told.isRunning and started > _PLAUSIBLE_S else None
