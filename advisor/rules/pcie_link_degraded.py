"""The PCIe link under load is slower than the card can do. Idle links train down by design and are not judged."""

import polars as pl

from advisor.rule import Expect, Need, Rule, Show, Step
from advisor.started import drain
from advisor.text import _

c = pl.col

RULE = Rule(
    id="pcie-link-degraded",
    scope="gpu",
    severity="warn",
    bottleneck="copy",
    needs=(Need(("pcie_gen_ratio", "pcie_width_ratio")),),
    opens=(c.loaded_share >= 0.2) & ((c.pcie_gen_ratio < 1) | (c.pcie_width_ratio < 1)),
    clears=(c.pcie_gen_ratio >= 1) & (c.pcie_width_ratio >= 1),
    title=_("The PCIe link runs below its capability"),
    summary=_(
        "Under load the link ran at generation {pcie_link_gen:.0f} of {pcie_link_gen_max:.0f} with {pcie_link_width:.0f} of"
        " {pcie_link_width_max:.0f} lanes."
    ),
    evidence=(
        Show("pcie_gen_ratio", "ratio", "<", 1.0),
        Show("pcie_width_ratio", "ratio", "<", 1.0),
        Show("pcie_link_gen", "code"),
        Show("pcie_link_width", "lanes"),
    ),
    change=(
        Step("command", "nvidia-smi -i {index} -q | grep -A 12 'GPU Link Info'"),
        Step("command", "nvbandwidth -t host_to_device_memcpy_ce"),
        *drain("pcie", "reseat card and riser, check bifurcation and firmware"),
    ),
    gain=Expect(1.0, 1.4, _("Restores 2 to 4 times the host-device bandwidth; an estimate for jobs that use it.")),
    risk=_("A maintenance window; some slots are wired with fewer lanes by design: compare with peers."),
    rollback=_("None needed."),
    verify=_("Generation and lanes are at their maximum under load for a day."),
    sources=("NVIDIA NVML: nvmlDeviceGetCurrPcieLinkGeneration",),
)
