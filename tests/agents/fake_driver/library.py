"""libnvidia-ml.so.1 as far as the agent asks it, at its C boundary: functions that take ctypes arguments and return a status.

Answers are those of tests/device_answers, by GPU. Beside them a test may write, at the top, `init_error`, `kernel_version` (the
loaded module's, when it is not the library's), `missing` (functions that it does not have), `events` ([[gpu, type, data], ...], each
delivered once); in a GPU `fails` (an error code for everything), `hangs` (true, or the name of one function), `sticks` (a call never comes back from
C, and holds a lock that the library's own end waits for), `takes_s` (each call),
`poison` (a field for which a whole request is refused), `gpm_error`, `instances` (MIG; null leaves a number free).
How often it is open at this moment stands in a file beside the answers, with the suffix .open.
"""

# ruff: noqa: N802 - the names are NVML's
import ctypes
import json
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

OK, UNINITIALIZED, INVALID, UNSUPPORTED, NOT_FOUND, TOO_SMALL, TIMEOUT, MISMATCH = 0, 1, 2, 3, 6, 7, 10, 18
_FIELD_MEMBERS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
_SHARED = ("instances", "fails", "hangs", "gpm_error")
_GPU, _INSTANCE = 0x1000, 0x10
_SAMPLES, _EVENTS = 0x900000, 0x800000


class Library:
    """The loaded library; functions are its attributes, as of a CDLL."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._read_at: tuple[int, int] | None = None
        self._answers: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._opened = 0
        self._samples: dict[int, Any] = {}
        self._told = 0
        self._uuids: list[str] = []  # a handle stays the same card's, wherever NVML lists it later
        self._version = self.answers["driver_version"]  # of the library in memory: an upgrade does not change it

    @property
    def answers(self) -> dict[str, Any]:
        """The file as it is now."""
        with self._lock:
            stat = self._file.stat()
            key = stat.st_mtime_ns, stat.st_ino
            if key != self._read_at:
                self._answers, self._read_at = json.loads(self._file.read_text()), key
            return self._answers

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if not name.startswith("nvml") or name in self.__dict__.get("_answers", {}).get("missing", ()):
            raise AttributeError(name)
        own = getattr(type(self), "_" + re.sub(r"_v\d$", "", name), None)

        def function(*args: Any) -> Any:  # ctypes' users set restype on it, which a bound method forbids
            if own is not None:
                return own(self, *args)
            return self._ask(name, *args)

        return function

    # the library itself
    def _nvmlInit(self) -> int:
        found = self.answers
        if "init_error" in found:
            return int(found["init_error"])
        if found.get("kernel_version", found["driver_version"]) != self._version:
            return MISMATCH
        self._count(1)
        return OK

    def _count(self, more: int) -> None:
        self._opened += more
        self._file.with_suffix(".open").write_text(str(self._opened))

    def _nvmlInitWithFlags(self, flags: Any) -> int:
        return self._nvmlInit()

    def _nvmlShutdown(self) -> int:
        self._count(-1)
        return OK

    def _nvmlErrorString(self, status: int) -> bytes:
        return f"fake status {status}".encode()

    def _nvmlSystemGetDriverVersion(self, text: Any, size: Any) -> int:
        text.value = self._version.encode()
        return OK

    def _nvmlSystemGetCudaDriverVersion(self, number: Any) -> int:
        number._obj.value = self.answers["cuda_driver_version"]
        return OK

    # devices
    def _nvmlDeviceGetCount(self, count: Any) -> int:
        count._obj.value = len(self.answers["gpus"])
        return OK

    def _nvmlDeviceGetHandleByIndex(self, index: Any, handle: Any) -> int:
        number = _plain(index)
        if number >= len(self.answers["gpus"]):
            return INVALID
        card = self._card(number)
        return self._of(card, "nvmlDeviceGetHandleByIndex")[0] or _point(handle, card)

    def _card(self, number: int) -> int:
        """The handle of the GPU that is listed there now."""
        uuid = self.answers["gpus"][number]["uuid"]
        if uuid not in self._uuids:
            self._uuids.append(uuid)
        return _GPU * (self._uuids.index(uuid) + 1)

    def _nvmlDeviceGetUUID(self, handle: Any, text: Any, size: Any) -> int:
        return self._text(handle, "uuid", text)

    def _nvmlDeviceGetName(self, handle: Any, text: Any, size: Any) -> int:
        return self._text(handle, "name", text)

    def _text(self, handle: Any, key: str, text: Any) -> int:
        status, gpu = self._of(handle, f"nvmlDeviceGet{key}")
        if not status:
            text.value = gpu[key].encode()
        return status

    def _nvmlDeviceGetMaxMigDeviceCount(self, handle: Any, count: Any) -> int:
        count._obj.value = 7
        return self._of(handle, "nvmlDeviceGetMaxMigDeviceCount")[0]

    def _nvmlDeviceGetMigDeviceHandleByIndex(self, handle: Any, index: Any, found: Any) -> int:
        status, gpu = self._of(handle, "nvmlDeviceGetMigDeviceHandleByIndex")
        instances, number = gpu.get("instances") or [], _plain(index)
        if status or number >= len(instances) or instances[number] is None:
            return status or NOT_FOUND
        return _point(found, _value(handle) + _INSTANCE * (number + 1))

    def _nvmlDeviceGetFieldValues(self, handle: Any, count: Any, values: Any) -> int:
        status, gpu = self._of(handle, "nvmlDeviceGetFieldValues")
        if status:
            return status
        if "fields" not in gpu:
            return UNSUPPORTED
        if len(values._obj) > 1 and any(value.fieldId == gpu.get("poison") for value in values._obj):
            return INVALID
        for value in values._obj:
            key = f"{value.fieldId}/{value.scopeId}" if value.scopeId else str(value.fieldId)
            answer = gpu["fields"].get(key, {"error": UNSUPPORTED})
            value.nvmlReturn, value.valueType = answer.get("error", OK), answer.get("type", 0)
            if "value" in answer:
                setattr(value.value, _FIELD_MEMBERS[answer["type"]], answer["value"])
        return OK

    def _nvmlDeviceGetComputeRunningProcesses(self, handle: Any, count: Any, found: Any) -> int:
        status, gpu = self._of(handle, "nvmlDeviceGetComputeRunningProcesses")
        if status:
            return status
        processes = gpu.get("processes", {"error": UNSUPPORTED})
        if isinstance(processes, dict):
            return int(processes["error"])
        room, count._obj.value = count._obj.value, len(processes)
        if len(processes) > room:
            return TOO_SMALL
        for place, process in enumerate(processes):
            found[place].pid, found[place].usedGpuMemory = process["pid"], process["usedGpuMemory"]
        return OK

    # profiling
    def _nvmlGpmQueryDeviceSupport(self, handle: Any, support: Any) -> int:
        status, gpu = self._of(handle, "nvmlGpmQueryDeviceSupport")
        support._obj.isSupportedDevice = int("gpm" in gpu)
        return status

    def _nvmlGpmSampleAlloc(self, sample: Any) -> int:
        number = _SAMPLES + len(self._samples) + 1
        self._samples[number] = None
        return _point(sample, number)

    def _nvmlGpmSampleFree(self, sample: Any) -> int:
        return OK

    def _nvmlGpmSampleGet(self, handle: Any, sample: Any) -> int:
        status, gpu = self._of(handle, "nvmlGpmSampleGet")
        self._samples[_value(sample)] = gpu
        return status or int(gpu.get("gpm_error", OK))

    def _nvmlGpmMigSampleGet(self, handle: Any, gpu_instance: Any, sample: Any) -> int:
        status, gpu = self._of(handle, "nvmlGpmMigSampleGet")
        for instance in gpu.get("instances") or []:
            if instance and instance["calls"]["nvmlDeviceGetGpuInstanceId()"] == _plain(gpu_instance):
                self._samples[_value(sample)] = instance
                return status or int(gpu.get("gpm_error", OK))
        return INVALID

    def _nvmlGpmMetricsGet(self, request: Any) -> int:
        wanted = request._obj
        gpm = (self._samples[_value(wanted.sample2)] or {}).get("gpm", {})
        for place in range(wanted.numMetrics):
            metric = wanted.metrics[place]
            answer = gpm.get(str(metric.metricId), {"error": UNSUPPORTED})
            metric.nvmlReturn = answer["error"] if isinstance(answer, dict) else OK
            metric.value = 0.0 if isinstance(answer, dict) else answer
        return OK

    # events
    def _nvmlEventSetCreate(self, events: Any) -> int:
        return _point(events, _EVENTS)

    def _nvmlDeviceRegisterEvents(self, handle: Any, kinds: Any, events: Any) -> int:
        return self._of(handle, "nvmlDeviceRegisterEvents")[0]

    def _nvmlEventSetWait(self, events: Any, data: Any, timeout_ms: Any) -> int:
        until = time.monotonic() + _plain(timeout_ms) / 1000
        while time.monotonic() < until:
            due = self.answers.get("events", [])
            if len(due) > self._told:
                gpu, kind, code = due[self._told]
                self._told += 1
                pointer = ctypes.cast(ctypes.pointer(data._obj), ctypes.POINTER(ctypes.c_void_p))
                pointer[0] = self._card(gpu)
                data._obj.eventType, data._obj.eventData = kind, code
                return OK
            time.sleep(0.02)
        return TIMEOUT

    def _nvmlEventSetFree(self, events: Any) -> int:
        return OK

    # everything else: `name(numbers)` in the GPU's answers, put into whatever was handed over to be filled
    def _ask(self, name: str, handle: Any, *args: Any) -> int:
        status, gpu = self._of(handle, name)
        if status:
            return status
        outs = [arg for arg in args if hasattr(arg, "_obj") or isinstance(arg, ctypes.Array)]
        numbers = [str(_plain(arg)) for arg in args if not (hasattr(arg, "_obj") or isinstance(arg, ctypes.Array))]
        version = getattr(outs[0]._obj, "version", None) if outs and hasattr(outs[0], "_obj") else None
        plain = re.sub(r"_v\d$", "", name)
        keys = [f"{given}({inner})" for given in (name, plain) for inner in (str(version), ",".join(numbers), "")]
        answer = next((gpu["calls"][key] for key in keys if key in gpu.get("calls", {})), {"error": UNSUPPORTED})
        if isinstance(answer, dict) and "error" in answer:
            return int(answer["error"])
        for out, value in zip(outs, answer if isinstance(answer, list) else [answer], strict=False):
            _fill(out._obj if hasattr(out, "_obj") else out, value)
        return OK

    def _of(self, handle: Any, name: str) -> tuple[int, dict[str, Any]]:
        """Status and answers of the GPU or instance behind a handle; a GPU that hangs does not come back until it is let to."""
        value = handle if isinstance(handle, int) else _value(handle)
        number, number_in = value // _GPU - 1, value % _GPU // _INSTANCE
        while True:
            found = self.answers
            if found.get("kernel_version", found["driver_version"]) != self._version:
                return UNINITIALIZED, {}
            gpu = next((one for one in found["gpus"] if one["uuid"] == self._uuids[number]), None)
            if gpu is None:
                return 15, {}
            if gpu.get("hangs") in (True, name):
                time.sleep(0.02)
                continue
            if gpu.get("sticks"):
                from tests.agents.fake_driver.stuck import stick

                stick()
            time.sleep(gpu.get("takes_s", 0))
            if "fails" in gpu:
                return int(gpu["fails"]), gpu
            if number_in == 0:
                return OK, gpu
            instances = gpu.get("instances") or []
            instance = instances[number_in - 1] if number_in <= len(instances) else None
            return (INVALID, {}) if instance is None else (OK, instance)


def _plain(value: Any) -> int:
    return int(getattr(value, "value", value))


def _value(handle: Any) -> int:
    return ctypes.cast(handle, ctypes.c_void_p).value or 0


def _point(place: Any, value: int) -> int:
    """Let the pointer that was handed over by reference point to `value`."""
    ctypes.cast(ctypes.pointer(place._obj), ctypes.POINTER(ctypes.c_void_p))[0] = value
    return OK


def _fill(target: Any, value: Any) -> None:
    if isinstance(value, dict):
        for member, inner in value.items():
            if isinstance(inner, str):
                inner = inner.encode()
            if hasattr(target, member):
                setattr(target, member, inner)
    elif isinstance(value, str):
        target.value = value.encode()
    else:
        target.value = value
