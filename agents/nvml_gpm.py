"""GPM, NVML's profiling metrics: two samples of a GPU or of a MIG instance, and what lies between them.

`nvml` is the pynvml module, handed in by agents/nvml_device.py.
"""

import ctypes
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import ModuleType
from typing import Any, Final

from agents.device import Answer, DeviceError

_TURN: Final = threading.Lock()
"""One GPM call at a time in this process: two threads in nvmlGpmMetricsGet, each with a GPU of its own, end it with a
segmentation fault (driver 580.159, within 30 s at 40 calls a second; with turns, none in 2,300 calls). Its other calls may overlap."""
WAIT_S: Final = 0.15
"""How long a GPU waits for its turn; shorter than the shortest deadline of a tick, so that it loses its GPM metrics alone."""


class GpmSamples:
    """Two sample buffers that take turns, and one request whose structs are made once."""

    def __init__(
        self,
        nvml: ModuleType | Any,
        handle: object,
        reason: Callable[[Exception | int], DeviceError],
        gpu_instance: int | None = None,
    ) -> None:
        self._nvml = nvml
        self._handle = handle
        self._reason = reason
        self._gpu_instance = gpu_instance
        self._buffers: tuple[Any, Any] | None = None
        self._request: _Request | None = None
        self._has_sample = False

    def read(self, ids: Sequence[int]) -> list[Answer]:
        """Means since the call before, `no_previous` where there is none; DeviceError `timeout` when the turn does not come."""
        if not _TURN.acquire(timeout=WAIT_S):
            self._has_sample = False
            raise DeviceError("timeout", "another GPU's profiling call does not come back")
        try:
            return self._read(ids)
        except self._nvml.NVMLError as error:
            self._has_sample = False
            raise self._reason(error) from error
        finally:
            _TURN.release()

    def free(self) -> None:
        """Give the samples back; where another GPU's call does not come back they wait for the next time."""
        if self._buffers is None or not _TURN.acquire(timeout=WAIT_S):
            return
        try:
            buffers, self._buffers = self._buffers, None
            self._has_sample = False
            for buffer in buffers:
                with suppress(self._nvml.NVMLError):
                    self._nvml.nvmlGpmSampleFree(buffer)
        finally:
            _TURN.release()

    def _read(self, ids: Sequence[int]) -> list[Answer]:
        nvml = self._nvml
        if self._request is None and not nvml.nvmlGpmQueryDeviceSupport(self._handle).isSupportedDevice:
            raise DeviceError("unsupported", "GPM needs Hopper or newer")
        if self._request is None or self._request.ids is not ids:
            self._request = _Request(nvml, ids)
        if self._buffers is None:
            self._buffers = nvml.nvmlGpmSampleAlloc(), nvml.nvmlGpmSampleAlloc()
        last, spare = self._buffers
        if self._gpu_instance is None:
            nvml.nvmlGpmSampleGet(self._handle, spare)
        else:
            nvml.nvmlGpmMigSampleGet(self._handle, self._gpu_instance, spare)
        self._buffers = spare, last
        if not self._has_sample:
            self._has_sample = True
            return [DeviceError("no_previous") for _ in ids]
        nvml.nvmlGpmMetricsGet(self._request.between(last, spare))  # the sample of the call before, and now's
        values, statuses = self._request.answers()
        if any(statuses):
            return [self._reason(status) if status else value for value, status in zip(values, statuses, strict=True)]
        return values


class _Request:
    """What is asked of two samples, made once; and what the driver wrote into it.

    Its memory is looked at as plain numbers: from sixteen structs each member would be fetched by itself.
    """

    def __init__(self, nvml: ModuleType | Any, ids: Sequence[int]) -> None:
        kind, metric = nvml.c_nvmlGpmMetricsGet_t, nvml.c_nvmlGpmMetric_t
        memory = memoryview(bytearray(ctypes.sizeof(kind)))
        self.ids = ids
        self._asked = kind.from_buffer(memory)
        self._asked.version, self._asked.numMetrics = nvml.NVML_GPM_METRICS_GET_VERSION, len(ids)
        for place, metric_id in enumerate(ids):
            self._asked.metrics[place].metricId = metric_id

        def column(member: Any, numbers: Any) -> Any:
            """The member of each metric that is asked for."""
            first, step = (kind.metrics.offset + member.offset) // numbers.itemsize, ctypes.sizeof(metric) // numbers.itemsize
            return numbers[first : first + step * len(ids) : step]

        self._values, self._statuses = column(metric.value, memory.cast("d")), column(metric.nvmlReturn, memory.cast("I"))

    def between(self, first: Any, second: Any) -> Any:
        """The struct that asks for the means between two samples."""
        self._asked.sample1, self._asked.sample2 = first, second
        return self._asked

    def answers(self) -> tuple[list[Answer], list[int]]:
        """Value and status of each metric."""
        return self._values.tolist(), self._statuses.tolist()
