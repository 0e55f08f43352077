"""What the targets of findings are called: a GPU, a node and a service are kept by their ids, jobs by their names."""

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from fleet.inventory.models import Engine, Gpu, Node

Target: TypeAlias = tuple[str, str]
"""Scope and target."""
_IN_ONE_QUERY = 500


def names(targets: Iterable[Target]) -> dict[Target, str]:
    """By target its name: `n1 GPU 3`, `n1`, `n1 vllm http://127.0.0.1:8000`; jobs, and what is not there any more, by the target itself."""
    wanted = set(targets)
    found: dict[Target, str] = {one: one[1] for one in wanted}
    for scope in ("gpu", "node", "service"):
        keys = sorted(int(target) for of, target in wanted if of == scope and target.isdecimal() and len(target) < 19)
        for first in range(0, len(keys), _IN_ONE_QUERY):
            named = _named(scope, keys[first : first + _IN_ONE_QUERY])
            found |= {(scope, str(pk)): name for pk, name in named.items()}
    return found


def _named(scope: str, keys: list[int]) -> Mapping[int, str]:
    if scope == "node":
        return dict(Node.objects.filter(pk__in=keys).values_list("pk", "name"))
    model = Gpu if scope == "gpu" else Engine
    return {row.pk: str(row) for row in model._default_manager.filter(pk__in=keys).select_related("node")}
