"""What NVML's error codes mean: reasons of readings, states of the driver."""

from typing import Final

import pynvml

from agents.device import DeviceError, ResetRequiredError

REASON: Final = {
    pynvml.NVML_ERROR_INVALID_ARGUMENT: "unsupported",
    pynvml.NVML_ERROR_NOT_SUPPORTED: "unsupported",
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND: "unsupported",
    pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH: "unsupported",
    pynvml.NVML_ERROR_DEPRECATED: "unsupported",
    pynvml.NVML_ERROR_VGPU_ECC_NOT_SUPPORTED: "unsupported",
    pynvml.NVML_ERROR_NO_PERMISSION: "not_permitted",
    pynvml.NVML_ERROR_NOT_FOUND: "not_found",
    pynvml.NVML_ERROR_NO_DATA: "not_found",
    pynvml.NVML_ERROR_TIMEOUT: "timeout",
    pynvml.NVML_ERROR_GPU_IS_LOST: "gpu_lost",
    pynvml.NVML_ERROR_GPU_NOT_FOUND: "gpu_lost",
}
"""Why a reading is absent, by what its call answered."""
_GPM_REASON: Final = REASON | {
    pynvml.NVML_ERROR_IN_USE: "profiler_busy",
    pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES: "profiler_busy",
    pynvml.NVML_ERROR_INVALID_STATE: "profiler_busy",
}
STATE: Final = {
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: "no_library",
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND: "no_library",
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: "no_driver",
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: "version_mismatch",
    pynvml.NVML_ERROR_NO_PERMISSION: "not_permitted",
    pynvml.NVML_ERROR_TIMEOUT: "timeout",
}
"""Why the driver cannot be used, by what opening it answered."""


def device_error(error: Exception, reasons: dict[int, str] = REASON) -> DeviceError:
    """What the error that a call raised means."""
    status = getattr(error, "value", -1)
    if status == pynvml.NVML_ERROR_RESET_REQUIRED:
        return ResetRequiredError("driver_error", str(error))
    return DeviceError(reasons.get(status, "driver_error"), str(error))


def gpm_error(error: Exception | int) -> DeviceError:
    """What a status of a GPM call, or the error that it raised, means."""
    if isinstance(error, int):
        return DeviceError(_GPM_REASON.get(error, "driver_error"))
    return device_error(error, _GPM_REASON)
