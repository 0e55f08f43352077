"""GPUs behind the fake NVML, for tests: split into MIG instances, read tick by tick."""

from typing import Any

import pynvml  # noqa: TID251 - constants of the real module

from agents.collectors.nvml_plan import GPU_METRICS
from agents.gpu_slot import Rows
from agents.gpus import Gpus
from tests.agents.fake_nvml import FakeNvml
from wire.messages import Cell

DEADLINE_S = 10.0
"""Where nothing hangs a busy machine must not look like a hanging driver."""


def split(nvml: FakeNvml, index: int, *profiles: str | None) -> None:
    """Switch MIG on and split a GPU; None leaves a hole in the numbers."""
    nvml.gpus[index]["calls"]["nvmlDeviceGetMigMode()"] = [1, 1]
    for name in ("nvmlDeviceGetUtilizationRates()", "nvmlDeviceGetDecoderUtilization()", "nvmlDeviceGetEncoderUtilization()"):
        nvml.gpus[index]["calls"][name] = {"error": pynvml.NVML_ERROR_NOT_SUPPORTED}
    nvml.gpus[index]["instances"] = [
        None if profile is None else instance(f"MIG-{index}-{number}-{profile}", profile, number + 3)
        for number, profile in enumerate(profiles)
    ]


def instance(uuid: str, profile: str, gpu_instance: int) -> dict[str, Any]:
    """What NVML answers for one instance."""
    slices, size = int(profile[0]), int(profile.split(".")[1][:-2])
    return {
        "uuid": uuid,
        "name": f"NVIDIA H200 MIG {profile}",
        "calls": {
            "nvmlDeviceGetName()": f"NVIDIA H200 MIG {profile}",
            "nvmlDeviceGetGpuInstanceId()": gpu_instance,
            "nvmlDeviceGetComputeInstanceId()": 0,
            "nvmlDeviceGetAttributes_v2()": {
                "gpuInstanceSliceCount": slices,
                "computeInstanceSliceCount": slices,
                "memorySizeMB": size * 1024,
            },
            f"nvmlDeviceGetMemoryInfo({pynvml.nvmlMemory_v2})": {"total": size << 30, "used": 1 << 30, "reserved": 1 << 20},
        },
        "gpm": {"2": 50.0 * slices / 7, "10": 20.0},
        "processes": [{"pid": 100 + gpu_instance, "usedGpuMemory": 1 << 29}],
    }


async def tick(one: Gpus) -> Rows:
    """One tick's readings."""
    reading = await one.begin()
    if reading is not None:
        await reading
    return one.rows()


def cell(rows: Rows, gpu: int, name: str) -> tuple[Cell, str | None]:
    """Value and reason of one metric of one GPU."""
    position = next(number for number, metric in enumerate(GPU_METRICS) if metric.name == name)
    return rows.values[gpu][position], rows.reasons[gpu][position]


def texts(one: Gpus) -> list[str]:
    """What was told since the call before."""
    return [event.text for event in one.events()]
