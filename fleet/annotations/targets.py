"""What a target of an annotation looks like: one that could never be anybody's is refused, instead of kept and never read."""

import re
from typing import Final

from django.core.exceptions import ValidationError
from django.utils.translation import gettext

from fleet.accounts.models import node_name
from fleet.annotations.matching import is_pattern

_NUMBER: Final = re.compile(r"(?=.*[0-9.])[A-Za-z0-9][A-Za-z0-9._+-]{0,199}")
"""A job's id as its scheduler tells it, such as 4711 or namespace.pod."""
_OF_PATTERN: Final = re.compile(r"[A-Za-z0-9._*?-]+")


def wrong_target(scope: str, target: str) -> str | None:
    """A sentence that says what a target of the scope is; None where this may be one, or a pattern for some."""
    if scope == "fleet":
        return None if target == "fleet" else gettext("The only target of the scope fleet is fleet.")
    node, *parts = target.split("/", 2)
    if scope == "node":
        if _OF_PATTERN.fullmatch(target) if is_pattern(target) else _is_node(target):
            return None
        return gettext("This is no node's name: letters, digits, dots, dashes and underscores; * and ? make it a pattern.")
    if (
        scope == "job"
        and not is_pattern(target)
        and not (_is_node(node) and (_is_number(parts) or (len(parts) == 2 and all(parts))))
    ):
        return gettext(
            "A job is named node/user/program, or cluster/number where a scheduler told of it, as its page shows it;"
            " * and ? make it a pattern, such as */alice/*."
        )
    return None


def _is_number(parts: list[str]) -> bool:
    return len(parts) == 1 and _NUMBER.fullmatch(parts[0]) is not None


def _is_node(name: str) -> bool:
    try:
        node_name(name)
    except ValidationError:
        return False
    return True
