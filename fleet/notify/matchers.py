"""What matchers say of an alert: all of them must hold. Pure; the same for routes, silences and inhibitions."""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final, TypeAlias

from django.utils.translation import gettext

from fleet.accounts.plain_text import is_plain
from fleet.notify.models import LABELS, OPERATORS

Labels: TypeAlias = Mapping[str, tuple[str, ...]]
"""An alert's values by label: a job runs on several nodes. A label without a value is not there."""
Matchers: TypeAlias = Sequence[Mapping[str, Any]]
MOST_MATCHERS: Final = 20
MOST_VALUES: Final = 100
LONGEST: Final = 300


def fits(matchers: Matchers, labels: Labels) -> bool:
    """True when every matcher holds: `in` when a value of the label fits a pattern, `not_in` when none does."""
    return all(_holds(one, labels.get(one["label"], ())) for one in matchers)


def _holds(matcher: Mapping[str, Any], values: Sequence[str]) -> bool:
    any_fits = any(fnmatchcase(value, _pattern(each)) for value in values for each in matcher["values"])
    return any_fits if matcher["op"] == "in" else not any_fits


def _pattern(written: str) -> str:
    """For `fnmatch`, which would read brackets as a choice of letters: they stand in names of jobs."""
    return written.replace("[", "[[]")


def problem(matchers: object, *, at_least_one: bool = False) -> str | None:
    """What is wrong with what somebody wrote as matchers, in a sentence; None when it can be used."""
    if not isinstance(matchers, list) or len(matchers) > MOST_MATCHERS:
        return gettext("Matchers are a list of at most {most}.").format(most=MOST_MATCHERS)
    if at_least_one and not matchers:
        return gettext("Give at least one matcher: without one, every alert would fit.")
    return next((said for one in matchers if (said := _problem(one))), None)


def _problem(one: object) -> str | None:
    if not isinstance(one, dict) or set(one) != {"label", "op", "values"}:
        return gettext("A matcher has a label, an op and values, and nothing else.")
    if one["label"] not in LABELS:
        return gettext("A matcher's label is one of: {labels}.").format(labels=", ".join(LABELS))
    if one["op"] not in OPERATORS:
        return gettext("A matcher's op is one of: {operators}.").format(operators=", ".join(OPERATORS))
    values = one["values"]
    if not isinstance(values, list) or not 1 <= len(values) <= MOST_VALUES:
        return gettext("A matcher has 1 to {most} values.").format(most=MOST_VALUES)
    if not all(isinstance(value, str) and 0 < len(value) <= LONGEST and is_plain(value) for value in values):
        return gettext("A matcher's values are texts of 1 to {most} characters on one line.").format(most=LONGEST)
    return None


def shown(matchers: Matchers) -> str:
    """The matchers in one line, as people read them: `node in n1, n2; severity not_in info`."""
    return "; ".join(f"{one['label']} {one['op']} {', '.join(one['values'])}" for one in matchers)
