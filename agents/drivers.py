"""Which driver speaks for this machine's GPUs."""

from agents.device import Driver
from agents.nvml_device import NvmlDriver


def of_this_machine() -> Driver:
    """The driver to ask; another vendor's is chosen here, where its library is present."""
    return NvmlDriver()
