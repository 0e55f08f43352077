"""Annotations as they are written: all of a request or none."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final, TypedDict

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext

from advisor.annotations import Value
from fleet.accounts.models import User
from fleet.annotations.matching import is_pattern
from fleet.annotations.models import Annotation

MAX_ROWS: Final = 20_000
"""Of the whole site: whoever tells of each run by a target of its own also says until when it counts."""
MAX_PATTERNS: Final = 200
"""Different patterns: each is tried on every target, once a minute."""


class Told(TypedDict):
    """One annotation, checked. No `at`: now."""

    scope: str
    target: str
    key: str
    value: Value
    at: datetime | None
    until: datetime | None


class TellError(Exception):
    """The site holds as many annotations as it may; the message says what to do."""


def tell(told: Sequence[Told], by: User) -> tuple[list[Annotation], int]:
    """The rows, in the order told, and how many of them are new; TellError, and nothing is written, when they would be too many.

    Telling the same again leaves the same rows. Of two values for one key and target the later one counts.
    """
    now = timezone.now()
    rows: dict[tuple[str, str, str], Annotation] = {}
    made = 0
    with transaction.atomic():
        for one in sorted(told, key=_key):  # in one order, so that no two requests lock each other out
            values = {
                "value": one["value"], "at": one["at"] or now, "until": one["until"], "by": by, "by_name": by.get_username()[:150],
            }  # fmt: skip
            key = _key(one)
            rows[key], is_new = Annotation.objects.update_or_create(scope=key[0], target=key[1], key=key[2], defaults=values)
            made += is_new
        if made:
            _check_room()
    return [rows[key] for key in dict.fromkeys(map(_key, told))], made


def _key(one: Told) -> tuple[str, str, str]:
    return one["scope"], one["target"], one["key"]


def _check_room() -> None:
    if Annotation.objects.count() > MAX_ROWS:
        says = gettext("The site holds {most} annotations: delete some, or give `until` with those of single jobs.")
        raise TellError(says.format(most=MAX_ROWS))
    if len(patterns(Annotation.objects.values_list("target", flat=True).distinct())) > MAX_PATTERNS:
        says = gettext("The site holds {most} different patterns: delete some, or name the targets themselves.")
        raise TellError(says.format(most=MAX_PATTERNS))


def patterns(targets: Iterable[str]) -> set[str]:
    """Those of the targets that are patterns."""
    return {target for target in targets if is_pattern(target)}
