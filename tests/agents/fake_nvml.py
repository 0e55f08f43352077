"""NVML's functions answering from a file of tests/device_answers; constants and structs are nvidia-ml-py's own.

It stands where the native library stands: everything of ours above it is real.
"""

# ruff: noqa: N802 - the names are NVML's
import json
import queue
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pynvml  # noqa: TID251 - the fake needs the real constants and structs

ANSWERS = Path(__file__).parent.parent / "device_answers"


class FakeNvml:
    """Use it as the module `pynvml`. `gpus[i]` may be changed at any time; `hang` makes a GPU's calls block.

    GPM calls take `gpm_takes_s`, and `gpm_overlaps` counts those that began while another one was under way.
    """

    NVMLError = pynvml.NVMLError

    def __init__(self, name: str = "h200-driver-580.json") -> None:
        self.recorded = json.loads((ANSWERS / name).read_text())
        self.gpus: list[dict[str, Any]] = self.recorded["gpus"]
        self.asked: Counter[str] = Counter()
        self.init_error: int | None = None
        self.events: queue.Queue[tuple[int, int, int]] = queue.Queue()  # (GPU, event type, data)
        self.gpm_takes_s = 0.0
        self.gpm_overlaps = 0
        self._gpm_calls = 0
        self._sampled: dict[str, Any] = {}
        self._hanging: dict[tuple[int, str | None], threading.Event] = {}

    def hang(self, index: int, call: str | None = None) -> threading.Event:
        """Block every call of one GPU, or those of one name, until the event that comes back is set."""
        self._hanging[index, call] = threading.Event()
        return self._hanging[index, call]

    def fail(self, index: int, code: int) -> None:
        """Let everything of one GPU fail with an NVML error code."""
        gpu = self.gpus[index]
        gpu["calls"] = {key: {"error": code} for key in gpu["calls"]}
        gpu["fails"] = code

    def __getattr__(self, name: str) -> Any:
        if name.startswith("nvml") and callable(getattr(pynvml, name, None)):
            return lambda handle, *arguments: self._call(name, handle, arguments)
        return getattr(pynvml, name)

    def _call(self, name: str, handle: int, arguments: tuple[Any, ...]) -> Any:
        gpu = self._gpu(name, handle)
        struct = getattr(arguments[0], "_obj", None) if arguments else None  # one that the call fills
        key = f"{name}({','.join(map(str, () if struct is not None else arguments))})"
        if key not in gpu["calls"]:
            raise self._error(3)
        answer = gpu["calls"][key]
        if isinstance(answer, dict):
            if "error" in answer:
                raise self._error(answer["error"])
            if struct is not None:
                for member, value in answer.items():
                    setattr(struct, member, value)
                return 0
            return SimpleNamespace(**answer)
        return answer

    def _gpu(self, name: str, handle: Any) -> dict[str, Any]:
        self.asked[name] += 1
        if isinstance(handle, tuple):  # a MIG instance
            card, uuid = handle
            if "fails" in self.gpus[card]:
                raise self._error(self.gpus[card]["fails"])
            found: dict[str, Any] | None = next((one for one in self._instances(card) if one and one["uuid"] == uuid), None)
            if found is None:
                raise self._error(2)
            return found
        for call in (None, name):
            if (handle, call) in self._hanging:
                self._hanging[handle, call].wait(30)
        gpu: dict[str, Any] = self.gpus[handle]
        if "fails" in gpu:
            raise self._error(gpu["fails"])
        return gpu

    def _instances(self, gpu: int) -> list[Any]:
        """The GPU's MIG instances by number; None where a number is free."""
        return self.gpus[gpu].get("instances") or []

    def nvmlDeviceGetMaxMigDeviceCount(self, handle: Any) -> int:
        self._gpu("nvmlDeviceGetMaxMigDeviceCount", handle)
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: Any, number: int) -> Any:
        self._gpu("nvmlDeviceGetMigDeviceHandleByIndex", handle)
        instances = self._instances(handle)
        if number >= len(instances) or instances[number] is None:
            raise self._error(6)
        return handle, instances[number]["uuid"]

    def nvmlGpmSampleFree(self, sample: Any) -> None:
        with self._gpm_call():
            self.asked["nvmlGpmSampleFree"] += 1

    def nvmlGpmMigSampleGet(self, handle: int, gpu_instance: int, sample: Any) -> Any:
        with self._gpm_call():
            gpu = self._gpu("nvmlGpmMigSampleGet", handle)
            instances = (one for one in self._instances(handle) if one)
            self._sampled = next(one for one in instances if one["calls"]["nvmlDeviceGetGpuInstanceId()"] == gpu_instance)
            if "gpm_error" in gpu:
                raise self._error(gpu["gpm_error"])
            return sample

    @staticmethod
    def _error(code: int) -> Exception:
        error: Exception = pynvml.NVMLError(code)
        return error

    def nvmlInit(self) -> None:
        if self.init_error is not None:
            raise self._error(self.init_error)

    def nvmlShutdown(self) -> None:
        self.asked["nvmlShutdown"] += 1

    def nvmlDeviceGetCount(self) -> int:
        return len(self.gpus)

    def nvmlSystemGetDriverVersion(self) -> str:
        return str(self.recorded["driver_version"])

    def nvmlSystemGetCudaDriverVersion(self) -> int:
        return int(self.recorded["cuda_driver_version"])

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        self._gpu("nvmlDeviceGetHandleByIndex", index)
        return index

    def nvmlDeviceGetUUID(self, handle: int) -> str:
        return str(self._gpu("nvmlDeviceGetUUID", handle)["uuid"])

    def nvmlDeviceGetName(self, handle: int) -> str:
        return str(self._gpu("nvmlDeviceGetName", handle)["name"])

    def nvmlDeviceGetComputeRunningProcesses(self, handle: int) -> list[Any]:
        found = self._gpu("nvmlDeviceGetComputeRunningProcesses", handle)["processes"]
        if isinstance(found, dict):
            raise self._error(found["error"])
        return [SimpleNamespace(**process) for process in found]

    def nvmlDeviceGetFieldValues(self, handle: int, ids: Any) -> Any:
        gpu = self._gpu("nvmlDeviceGetFieldValues", handle)
        if gpu.get("poison") in ids and len(ids) > 1:
            raise self._error(2)
        blanked = gpu.get("blanks") in ids
        values = (pynvml.c_nvmlFieldValue_t * len(ids))()
        for value, field_id in zip(values, ids, strict=True):
            number, scope = field_id if isinstance(field_id, tuple) else (field_id, 0)
            self.asked[f"field {number}"] += 1
            answer = {"error": 3} if blanked else gpu["fields"].get(f"{number}/{scope}" if scope else str(number), {"error": 3})
            value.fieldId = number
            value.nvmlReturn = answer.get("error", 0)
            value.valueType = answer.get("type", 0)
            if "value" in answer:
                setattr(
                    value.value, ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")[answer["type"]], answer["value"]
                )
        return values

    @contextmanager
    def _gpm_call(self) -> Iterator[None]:
        self.gpm_overlaps += self._gpm_calls > 0
        self._gpm_calls += 1
        try:
            time.sleep(self.gpm_takes_s)
            yield
        finally:
            self._gpm_calls -= 1

    def nvmlGpmQueryDeviceSupport(self, handle: int) -> Any:
        with self._gpm_call():
            return SimpleNamespace(isSupportedDevice=int("gpm" in self._gpu("nvmlGpmQueryDeviceSupport", handle)))

    def nvmlGpmSampleAlloc(self) -> Any:
        with self._gpm_call():
            return pynvml.c_nvmlGpmSample_t()

    def nvmlGpmSampleGet(self, handle: int, sample: Any) -> Any:
        with self._gpm_call():
            gpu = self._gpu("nvmlGpmSampleGet", handle)
            self._sampled = gpu
            if "gpm_error" in gpu:
                raise self._error(gpu["gpm_error"])
            return sample

    def nvmlGpmMetricsGet(self, request: Any) -> Any:
        with self._gpm_call():
            self.asked["nvmlGpmMetricsGet"] += 1
            gpm = self._sampled["gpm"]
            for metric in request.metrics[: request.numMetrics]:
                answer = gpm.get(str(metric.metricId), {"error": 3})
                metric.nvmlReturn = answer["error"] if isinstance(answer, dict) else 0
                metric.value = 0.0 if isinstance(answer, dict) else answer
            return request

    def nvmlEventSetCreate(self) -> Any:
        return object()

    def nvmlEventSetFree(self, events: Any) -> None:
        self.asked["nvmlEventSetFree"] += 1

    def nvmlDeviceRegisterEvents(self, handle: int, kinds: int, events: Any) -> None:
        self.asked[f"events {kinds:#x}"] += 1

    def nvmlEventSetWait(self, events: Any, timeout_ms: int) -> Any:
        try:
            gpu, kind, data = self.events.get(timeout=timeout_ms / 1000)
        except queue.Empty:
            raise self._error(10) from None
        return SimpleNamespace(device=gpu, eventType=kind, eventData=data)
