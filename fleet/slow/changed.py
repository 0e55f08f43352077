"""What changed between two runs: versions, image, variables, flags, and where they ran."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from fleet.inventory.models import Gpu

MOST_CHANGES: Final = 6
_LONGEST: Final = 60
"""Characters of one changed value."""
_IN_ONE_QUERY: Final = 500
_FIRST: Final = ("driver", "cuda", "torch", "image")
_LAST: Final = ("nodes", "gpus")
"""A scheduler places most runs anew: what else differs is suspected first."""
_WORK: Final = (
    "batch-size",
    "seq-len",
    "seq-length",
    "context-length",
    "max-model-len",
    "num-layers",
    "hidden-size",
    "accumulation-steps",
)
"""Endings of flags that make the work of a step another one."""

Places: TypeAlias = Mapping[int, tuple[str, int]]
"""Node's name and index by GPU."""


def places(gpus: Iterable[int]) -> dict[int, tuple[str, int]]:
    """Where these GPUs are; one that nobody knows any more is left out."""
    listed = sorted(set(gpus))
    found: dict[int, tuple[str, int]] = {}
    for first in range(0, len(listed), _IN_ONE_QUERY):
        rows = Gpu.objects.filter(pk__in=listed[first : first + _IN_ONE_QUERY]).order_by()
        found |= {pk: (node, index) for pk, node, index in rows.values_list("pk", "node__name", "index")}
    return found


def placed(gpus: Sequence[int], where: Places) -> dict[str, str]:
    """`nodes` and `gpus` of a run in words, as `changes` compares them; nothing where one of its GPUs is not known."""
    on: dict[str, list[int]] = defaultdict(list)
    for gpu in gpus:
        if gpu not in where:
            return {}
        on[where[gpu][0]].append(where[gpu][1])
    if not on:
        return {}
    cards = " ".join(f"{node}:{','.join(map(str, sorted(indices)))}" for node, indices in sorted(on.items()))
    return {"nodes": " ".join(sorted(on)), "gpus": cards}


def changes(before: Mapping[str, str], now: Mapping[str, str]) -> str | None:
    """What differs, such as `driver 570 -> 580; torch 2.8 -> 2.9`; None where nothing does, or one of both told nothing."""
    parts = [f"{shown(name)} {old[:_LONGEST]} -> {new[:_LONGEST]}" for name, old, new in different(before, now)]
    if len(parts) > MOST_CHANGES:
        parts[MOST_CHANGES:] = ["..."]
    return "; ".join(parts) or None


def different(before: Mapping[str, str], now: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """Name, value before and value now of what differs, the first suspects first; `(none)` where one of both lacks it.

    Where one told nothing at all, nothing is known; where runs are on other nodes, that their GPUs are others goes without saying.
    """
    if not before or not now:
        return []
    found = []
    for name in sorted({*before, *now}, key=_order):
        if name in _LAST and (name not in before or name not in now):
            continue  # not known of one of them
        if name == "gpus" and before.get("nodes") != now.get("nodes"):
            continue
        if before.get(name) != now.get(name):
            found.append((name, before.get(name, "(none)"), now.get(name, "(none)")))
    return found


def is_other_work(before: Mapping[str, str], now: Mapping[str, str]) -> bool:
    """True where a flag differs that makes the work of a step another: a slower step is then none of the same."""
    return any(name.startswith("flag.") and name.endswith(_WORK) for name, _, _ in different(before, now))


def _order(name: str) -> tuple[int, str]:
    if name in _FIRST:
        return 0, f"{_FIRST.index(name)}"
    return (2, f"{_LAST.index(name)}") if name in _LAST else (1, name)


def shown(name: str) -> str:
    """What was told under `name`, as people write it: `--batch-size` for `flag.batch-size`."""
    kind, _, rest = name.partition(".")
    return f"--{rest}" if kind == "flag" else rest if kind == "env" else "GPUs" if name == "gpus" else name
