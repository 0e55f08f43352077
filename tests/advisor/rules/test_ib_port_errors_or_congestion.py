"""ib-port-errors-or-congestion: a port that errs, or is slow, or down."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestIbPortErrorsOrCongestion(RuleCases):
    """A port that errs, or is slow, or down."""

    rule = "ib-port-errors-or-congestion"
    fires: ClassVar[dict[str, Any]] = {"ib_link_downed_new": 2.0}
    silent: ClassVar[list[dict[str, Any]]] = [{"ib_ports": 0.0}, {"note_maintenance": True}, {"ib_link_downed_new": 0.0}]
    between: ClassVar[dict[str, Any] | None] = {"ib_symbol_errors_new": 4.0}
    lacks = ("ib_ports",)


def test_each_way_of_failing_is_said_in_its_own_words() -> None:
    """A link that fell, a port that is down, a rate below what it could be, symbols that err."""
    said = {
        name: TestIbPortErrorsOrCongestion.judge(readings).findings[0].summary.english()
        for name, readings in {
            "fell": {"ib_link_downed_new": 2.0},
            "down": {"ib_ports_active": 7.0},
            "slow": {"ib_rate_bytes_per_s": 350e9},
            "errs": {"ib_symbol_errors_new": 20.0},
        }.items()
    }

    assert said["fell"].startswith("A link of the node went down 2 time(s)")
    assert said["down"].startswith("7 of the node's 8")
    assert "350.0 GB/s in all; they could do 400.0" in said["slow"]
    assert said["errs"].startswith("Symbol errors grow: 20")
