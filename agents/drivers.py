"""Which driver speaks for this machine's GPUs."""

import ctypes
from importlib.util import find_spec

from agents.config import AgentConfig
from agents.device import Driver
from agents.nvml_device import NvmlDriver


def of_this_machine() -> Driver:
    """The driver to ask: NVIDIA's, AMD's or Ascend's, the first whose library or tool is here; one alone speaks for a node."""
    if not has_nvml():
        from agents import amd_device, npu_smi

        if find_spec("amdsmi") is not None or (amd_device.ROCM_PYTHON / "amdsmi").is_dir():
            return amd_device.AmdDriver()
        if tool := npu_smi.found():
            from agents.ascend_device import AscendDriver

            return AscendDriver(tool)
    return NvmlDriver()  # which says what is missing


def has_nvml() -> bool:
    """True where NVIDIA's library can be loaded; whether its driver runs is another question."""
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return False
    return True


def chosen(config: AgentConfig) -> Driver:
    """The driver that the settings name: this machine's own, or dcgm-exporter's word for it."""
    if config.source == "dcgm":
        from agents.dcgm import DcgmDriver
        from agents.scrape import target

        return DcgmDriver([target(url) for url in config.dcgm])
    return of_this_machine()
