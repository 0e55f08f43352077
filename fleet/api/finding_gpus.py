"""The GPUs that findings are about, in lists: the first ones by name, and how many more there are. A finding of a job may be about thousands."""

from collections.abc import Collection
from typing import Any, Final, cast

from django.db.models import Count, F, Window
from django.db.models.functions import RowNumber

from fleet.api.target_names import TargetList
from fleet.findings.models import Finding

FIRST: Final = 64
_IN_ONE_QUERY: Final = 500


def first_gpus(findings: Collection[int]) -> dict[int, tuple[list[int], int]]:
    """By finding the ids of the FIRST of its GPUs by node and index, and how many more there are; one about none is left out."""
    found: dict[int, tuple[list[int], int]] = {}
    listed = sorted(findings)
    for first in range(0, len(listed), _IN_ONE_QUERY):
        rows: Any = Finding.gpus.through.objects.filter(finding__in=listed[first : first + _IN_ONE_QUERY]).annotate(
            place=Window(RowNumber(), partition_by=F("finding"), order_by=("gpu__node__name", "gpu__index", "gpu")),
            total=Window(Count("pk"), partition_by=F("finding")),
        )
        part = rows.filter(place__lte=FIRST).order_by("finding_id", "place")
        for finding, gpu, total in part.values_list("finding_id", "gpu_id", "total"):
            found.setdefault(finding, ([], max(0, total - FIRST)))[0].append(gpu)
    return found


class FindingList(TargetList):
    """Reads once for a whole page which GPUs its findings are about, and what their targets are called."""

    def to_representation(self, data: Any) -> list[Any]:
        """The page's findings, each with the first of its GPUs."""
        findings = list(data)
        cast(dict[str, Any], self.context)["first_gpus"] = first_gpus([finding.pk for finding in findings])
        return super().to_representation(findings)
