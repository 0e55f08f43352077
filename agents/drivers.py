"""Which driver speaks for this machine's GPUs."""

from agents.config import AgentConfig
from agents.device import Driver
from agents.nvml_device import NvmlDriver


def of_this_machine() -> Driver:
    """The driver to ask; another vendor's is chosen here, where its library is present."""
    return NvmlDriver()


def chosen(config: AgentConfig) -> Driver:
    """The driver that the settings name: this machine's own, or dcgm-exporter's word for it."""
    if config.source == "dcgm":
        from agents.dcgm import DcgmDriver
        from agents.scrape import target

        return DcgmDriver([target(url) for url in config.dcgm])
    return of_this_machine()
