"""pcie-link-degraded: a link below its capability under load."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestPcieLinkDegraded(RuleCases):
    """A link below its capability under load."""

    rule = "pcie-link-degraded"
    fires: ClassVar[dict[str, Any]] = {"pcie_width_ratio": 0.5, "pcie_link_width": 8.0}
    silent: ClassVar[list[dict[str, Any]]] = [{"pcie_width_ratio": 1.0}, {"loaded_share": 0.0}]
    lacks = ("pcie_gen_ratio", "pcie_width_ratio")
