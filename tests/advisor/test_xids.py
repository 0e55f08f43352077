"""The catalogue of XIDs: whole, and with a source for each row."""

import pytest

from advisor import xid_catalog
from advisor.finding import SEVERITIES
from advisor.text import fields
from advisor.xids import SOURCES, XIDS, Xid

ACTIONS = {
    "", "IGNORE", "RESTART_APP", "RESET_GPU", "RESTART_BM", "RESTART_VM", "CHECK_MECHANICALS", "CHECK_UVM", "UPDATE_SWFW", "WORKFLOW_XID_45",
    "WORKFLOW_XID_48", "WORKFLOW_NVLINK_ERR", "WORKFLOW_NVLINK5_ERR", "XID_154",
}  # fmt: skip


@pytest.mark.parametrize("xid", XIDS, ids=lambda xid: str(xid.code))
def test_a_row_has_a_rule_an_action_that_nvidia_names_and_a_source(xid: Xid) -> None:
    """What could not be looked up is not there."""
    assert not xid.rule or xid.rule in xid_catalog.BY_RULE
    assert xid.action in ACTIONS
    assert xid.sources
    assert set(xid.sources) <= set(SOURCES)
    assert xid.severity is None or xid.severity in SEVERITIES
    assert not fields(xid.meaning)


def test_each_code_stands_once_in_order() -> None:
    """A code has one row."""
    codes = [xid.code for xid in XIDS]

    assert codes == sorted(set(codes))


@pytest.mark.parametrize(
    ("rule", "codes"),
    [
        ("xid-fallen-off-bus", {79, 167}),
        ("uncorrectable-ecc", {48, 94, 95, 140, 171, 172}),
        ("row-remap-pending", {63}),
        ("row-remap-failed", {64, 157}),
        ("correctable-ecc-rate", {92}),
        ("nvlink-fault", {74, 136, 137, *range(144, 151), 155}),
        ("gpu-reset-required", {46, 62, 109, 110, 119, 120, 143, 154, 158}),
        ("app-fault-xid", {13, 31, 32, 43, 45, 69, 80}),
    ],
)
def test_the_rules_of_hardware_health_have_their_codes(rule: str, codes: set[int]) -> None:
    """All that the catalogue of rules names."""
    assert codes <= {xid.code for xid in XIDS if xid.rule == rule}


@pytest.mark.parametrize(
    ("code", "branch", "says"),
    [(139, 550, "fast path"), (139, 570, "optical flow"), (139, None, "optical flow"), (31, 470, "page fault")],
)
def test_a_code_means_what_it_meant_for_its_driver(code: int, branch: int | None, says: str) -> None:
    """Where a driver's branch changed the meaning; the newest where it is not known."""
    assert says in xid_catalog.BY_CODE[code].meant(branch)
