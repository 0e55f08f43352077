"""Matchers and hours: what fits, and what is refused."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fleet.notify import hours, matchers
from fleet.notify.models import LABELS

LABELLED = {"node": ("n1", "n2"), "severity": ("warn",), "job": ("alpha/4711_[3]",)}


def one(label: str, *values: str, op: str = "in") -> dict[str, Any]:
    """A matcher."""
    return {"label": label, "op": op, "values": list(values)}


@pytest.mark.parametrize(
    ("asked", "holds"),
    [
        ([], True),
        ([one("node", "n2")], True),
        ([one("node", "n3")], False),
        ([one("node", "n3", "n*")], True),
        ([one("node", "n?", op="not_in")], False),
        ([one("node", "m*", op="not_in")], True),
        ([one("team", "*")], False),
        ([one("team", "ml", op="not_in")], True),
        ([one("node", "n1"), one("severity", "critical")], False),
        ([one("job", "alpha/4711_[3]")], True),
        ([one("job", "alpha/4711_3")], False),
        ([one("severity", "WARN")], False),
    ],
)
def test_all_matchers_must_hold(asked: list[dict[str, Any]], holds: bool) -> None:
    """Of several values one must fit; brackets are letters; a label that is absent fits no `in` and every `not_in`."""
    assert matchers.fits(asked, LABELLED) is holds


@pytest.mark.parametrize(
    "wrong",
    [
        "node=n1",
        [{"label": "node", "op": "in"}],
        [one("nodes", "n1")],
        [one("node", "n1", op="~")],
        [one("node")],
        [one("node", "")],
        [one("node", "x" * 301)],
        [one("node", "a\nb")],
        [{"label": "node", "op": "in", "values": [1]}],
        [one("node", "n1")] * 21,
        [{"label": ["node"], "op": "in", "values": ["n1"]}],
        [{"label": "node", "op": {}, "values": ["n1"]}],
    ],
)
def test_what_is_no_list_of_matchers_is_refused_in_a_sentence(wrong: object) -> None:
    """Whatever JSON somebody sends."""
    said = matchers.problem(wrong)

    assert said is not None
    assert said.endswith(".")


def test_a_silence_of_everything_is_refused() -> None:
    """By mistake it would be the most silent mistake of all."""
    assert matchers.problem([], at_least_one=True) is not None
    assert matchers.problem([]) is None
    assert matchers.problem([one(label, "*") for label in LABELS]) is None


NIGHT = {"days": [4], "from": "22:00", "to": "06:00", "timezone": "Europe/Berlin"}
OFFICE = {"days": [0, 1, 2, 3, 4], "from": "09:00", "to": "18:00", "timezone": "Asia/Shanghai"}


@pytest.mark.parametrize(
    ("times", "at", "begins"),
    [
        ([], "2026-11-30T03:00Z", "2026-11-30T03:00Z"),
        ([OFFICE], "2026-11-30T01:00Z", "2026-11-30T01:00Z"),  # Monday, 09:00 in Shanghai
        ([OFFICE], "2026-11-30T10:00Z", "2026-12-01T01:00Z"),  # 18:00 is outside
        ([OFFICE], "2026-12-04T12:00Z", "2026-12-07T01:00Z"),  # Friday evening to Monday
        ([NIGHT], "2026-11-27T21:30Z", "2026-11-27T21:30Z"),  # Friday, 22:30 in Berlin
        ([NIGHT], "2026-11-28T04:59Z", "2026-11-28T04:59Z"),  # Saturday, 05:59: the night of Friday
        ([NIGHT], "2026-11-28T05:00Z", "2026-12-04T21:00Z"),
        ([NIGHT, OFFICE], "2026-11-28T05:00Z", "2026-11-30T01:00Z"),
        ([{**OFFICE, "days": [0], "from": "00:00", "to": "24:00", "timezone": "UTC"}], "2026-11-30T23:59Z", "2026-11-30T23:59Z"),
        ([{**OFFICE, "days": [0], "from": "00:00", "to": "24:00", "timezone": "UTC"}], "2026-12-01T00:00Z", "2026-12-07T00:00Z"),
        # The night of 28 March 2027 has no 02:30 in Berlin, that of 31 October has it twice.
        ([{"days": [6], "from": "02:30", "to": "04:00", "timezone": "Europe/Berlin"}], "2027-03-28T01:45Z", "2027-03-28T01:45Z"),
        ([{"days": [6], "from": "00:00", "to": "24:00", "timezone": "Europe/Berlin"}], "2027-10-31T22:59Z", "2027-10-31T22:59Z"),
    ],
)
def test_hours_hold_by_the_clock_of_their_zone(times: list[dict[str, Any]], at: str, begins: str) -> None:
    """Past midnight, over weekends, and where a day has 23 or 25 hours."""
    asked, expected = (datetime.fromisoformat(one).astimezone(UTC) for one in (at, begins))

    assert hours.begins(times, asked) == expected
    assert hours.is_active(times, asked) is (asked == expected)


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        [{**OFFICE, "days": []}],
        [{**OFFICE, "days": [7]}],
        [{**OFFICE, "days": [True]}],
        [{**OFFICE, "from": "9:00"}],
        [{**OFFICE, "from": "24:00"}],
        [{**OFFICE, "to": "09:00"}],
        [{**OFFICE, "timezone": "Shanghai"}],
        [{**OFFICE, "timezone": "../../etc/passwd"}],
        [{**OFFICE, "timezone": ["UTC"]}],
        [{**OFFICE, "more": 1}],
        [OFFICE] * 21,
    ],
)
def test_what_is_no_list_of_hours_is_refused_in_a_sentence(wrong: object) -> None:
    """Whatever JSON somebody sends."""
    said = hours.problem(wrong)

    assert said is not None
    assert said.endswith(".")


def test_a_route_with_hours_takes_something_within_eight_days() -> None:
    """Whatever the hour that somebody asks at."""
    at = datetime(2026, 11, 30, tzinfo=UTC)
    for step in range(0, 8 * 24, 5):
        asked = at + timedelta(hours=step)
        assert asked <= hours.begins([NIGHT], asked) <= asked + timedelta(days=8)
