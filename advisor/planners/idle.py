"""Inputs that were given and change nothing: what they wait for was not given, or another input goes before them.

A planner declares `Idle`s; `unused()` names those that hold, so that nothing typed is left out in silence.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from advisor.text import Text, _

if TYPE_CHECKING:
    from advisor.planners.planner import Planner

ALONE: Final = _("{name} changes nothing here: it counts only with {others}.")
BEHIND: Final = _("{name} changes nothing here: {others} goes before it.")


@dataclass(frozen=True, slots=True)
class Idle:
    """`names` change nothing `when` the inputs that are planned with are so; `others` are what they wait for, or what goes before them:
    names with commas between where all are needed, with ` / ` where one of them is."""

    names: tuple[str, ...]
    when: Callable[[Mapping[str, Any]], bool]
    others: str
    says: str = ALONE


def without(names: str, *others: str) -> Idle:
    """That `names` (words with spaces between) need every one of `others`; 0 is not given where no count is."""
    return Idle(tuple(names.split()), lambda taken: not all(taken[one] for one in others), ", ".join(others))


def behind(names: str, other: str) -> Idle:
    """That `names` change nothing where `other` is given."""
    return Idle(tuple(names.split()), lambda taken: taken[other] is not None, other, BEHIND)


def unused(planner: "Planner", given: Mapping[str, Any], taken: Mapping[str, Any]) -> tuple[Text, ...]:
    """A sentence for each input of `given` that changes nothing of what is planned with `taken`; a default that is given says nothing."""
    first: dict[str, Idle] = {}
    for idle in planner.idle:
        if idle.when(taken):
            for name in idle.names:
                first.setdefault(name, idle)
    told = [
        Text(first[one.name].says, {"name": one.name, "others": first[one.name].others})
        for one in planner.parameters
        if one.name in first and given.get(one.name) not in (None, one.default)
    ]
    return (*told, *_of_card(planner, given, taken, first))


def _of_card(planner: "Planner", given: Mapping[str, Any], taken: Mapping[str, Any], idle: Mapping[str, Idle]) -> list[Text]:
    """That a card, or the format of its peak, tells nothing that counts."""
    by_card = [one for one in planner.parameters if one.of_card and given.get(one.name) is None and taken[one.name] is not None]
    counts = [one for one in by_card if one.name not in idle]
    told = []
    if given.get("card") is not None and not counts:
        if by_card:
            first = idle[by_card[0].name]
            told.append(Text(first.says, {"name": "card", "others": first.others}))
        else:
            named = ", ".join(one.name for one in planner.parameters if one.of_card and given.get(one.name) is not None)
            told.append(Text(BEHIND, {"name": "card", "others": named}))
    if given.get("dtype") is not None:
        peaks = [one.name for one in planner.parameters if one.of_card == "peak"]
        if given.get("card") is None:
            told.append(Text(ALONE, {"name": "dtype", "others": "card"}))
        elif before := [name for name in peaks if given.get(name) is not None]:
            told.append(Text(BEHIND, {"name": "dtype", "others": before[0]}))
    return told
