"""Writes down what this machine's driver answers, call by call: `python tests/device_answers/capture.py FILE`.

It asks what the registry and the existing files name; UUIDs, serials and bus addresses are not kept.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import pynvml  # noqa: TID251 - the real driver is what is captured

HERE = Path(__file__).parent
KNOWN = json.loads((HERE / "h200-driver-580.json").read_text())["gpus"][0]
VALUE = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")


def plain(answer: Any) -> Any:
    """A ctypes struct as a dict, anything else as it is."""
    if hasattr(answer, "_fields_"):
        return {name: plain(getattr(answer, name)) for name, *_ in answer._fields_}
    if isinstance(answer, bytes):
        return answer.decode(errors="replace")
    return answer


def call(handle: Any, key: str) -> Any:
    """The answer to `nvmlName(arguments)`, or the error it came to."""
    if key.startswith("nvmlDeviceGetPciInfo"):
        return {"busId": "00000000:19:00.0"}
    name, _, arguments = key.removesuffix(")").partition("(")
    try:
        return plain(getattr(pynvml, name)(handle, *(int(word) for word in arguments.split(",") if word)))
    except pynvml.NVMLError as error:
        return {"error": error.value}


def field(handle: Any, number: str) -> dict[str, Any]:
    """One field value with its type, or its status."""
    try:
        value = pynvml.nvmlDeviceGetFieldValues(handle, [int(number)])[0]
    except pynvml.NVMLError as error:
        return {"error": error.value}
    if value.nvmlReturn:
        return {"error": value.nvmlReturn, "type": 1, "value": 0}
    return {"type": value.valueType, "value": getattr(value.value, VALUE[value.valueType])}


def gpm(handle: Any) -> dict[str, Any]:
    """One second of every GPM metric that the registry asks for, in NVML's own units."""
    before, after = pynvml.nvmlGpmSampleAlloc(), pynvml.nvmlGpmSampleAlloc()
    pynvml.nvmlGpmSampleGet(handle, before)
    time.sleep(1)
    pynvml.nvmlGpmSampleGet(handle, after)
    request = pynvml.c_nvmlGpmMetricsGet_t()
    request.version = pynvml.NVML_GPM_METRICS_GET_VERSION
    request.sample1, request.sample2 = before, after
    request.numMetrics = len(KNOWN["gpm"])
    for place, number in enumerate(KNOWN["gpm"]):
        request.metrics[place].metricId = int(number)
    pynvml.nvmlGpmMetricsGet(request)
    metrics = request.metrics[: request.numMetrics]
    return {str(one.metricId): {"error": one.nvmlReturn} if one.nvmlReturn else one.value for one in metrics}


def main() -> None:
    """Capture every GPU of this machine."""
    pynvml.nvmlInit()
    gpus = []
    for index in range(pynvml.nvmlDeviceGetCount()):
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        gpus.append(
            {
                "index": index,
                "uuid": f"GPU-00000000-0000-4000-8000-{index:012d}",
                "name": pynvml.nvmlDeviceGetName(handle),
                "calls": {key: call(handle, key) for key in KNOWN["calls"]},
                "fields": {number: field(handle, number) for number in KNOWN["fields"]},
                "gpm": gpm(handle),
                "processes": [
                    {"pid": one.pid, "usedGpuMemory": one.usedGpuMemory}
                    for one in pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
                ],
            }
        )
    answers = {
        "reconstructed": False,
        "board": gpus[0]["name"],
        "source": "Captured by tests/device_answers/capture.py.",
        "driver_version": pynvml.nvmlSystemGetDriverVersion(),
        "cuda_driver_version": pynvml.nvmlSystemGetCudaDriverVersion(),
        "gpus": gpus,
    }
    Path(sys.argv[1]).write_text(json.dumps(answers, indent=1) + "\n")


if __name__ == "__main__":
    main()
