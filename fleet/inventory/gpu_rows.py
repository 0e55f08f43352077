"""Writes of GPUs' rows. Each gives the GPUs of their nodes another version, by which those who remember them (cards.py) see that they changed.

Versions are drawn at random: one that was rolled back is never given again, and what was remembered of it is never taken for what is there.
"""

import secrets
from collections.abc import Collection, Iterable
from typing import Any, Final

from django.apps import apps
from django.db import models, transaction

REMEMBERED: Final = frozenset(
    {"node", "node_id", "uuid", "index", "model", "present", "parent_uuid", "mig_mode", "nvlink_links", "power_limit_w", "numa_node"}
)  # fmt: skip
"""Columns that cards.py keeps; a change of others changes no version."""


def changed(nodes: Iterable[int]) -> None:
    """Give the GPUs of these nodes another version, in the same transaction as the change."""
    listing = apps.get_model("inventory", "GpuListing")
    rows = [listing(node_id=node, version=secrets.randbits(63)) for node in sorted(set(nodes))]
    listing._default_manager.bulk_create(
        rows, update_conflicts=True, unique_fields=["node"], update_fields=["version"], batch_size=500
    )


class GpuRows(models.QuerySet[Any]):
    """Rows of GPUs; whoever writes them by it need not think of versions."""

    def update(self, **values: Any) -> int:
        """As Django's."""
        if not REMEMBERED & values.keys():
            return super().update(**values)
        with transaction.atomic(using=self.db):
            home = values.get("node", values.get("node_id"))
            nodes = {*self._nodes(), *(() if home is None else [getattr(home, "pk", home)])}
            total = super().update(**values)
            if total:
                changed(nodes)
        return total

    update.alters_data = True  # type: ignore[attr-defined] # Django asks for it

    def bulk_create(self, objs: Iterable[Any], *args: Any, **kwargs: Any) -> list[Any]:
        """As Django's."""
        with transaction.atomic(using=self.db):
            made = super().bulk_create(objs, *args, **kwargs)
            if made:
                changed({one.node_id for one in made})
        return made

    def delete(self) -> tuple[int, dict[str, int]]:
        """As Django's."""
        with transaction.atomic(using=self.db):
            nodes = self._nodes()
            told = super().delete()
            if nodes:
                changed(nodes)
        return told

    delete.alters_data = True  # type: ignore[attr-defined] # as above
    delete.queryset_only = True  # type: ignore[attr-defined] # as above

    def _nodes(self) -> Collection[int]:
        return set(self.order_by().values_list("node_id", flat=True).distinct())
