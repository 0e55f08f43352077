"""Jobs by the id that a person knows: `squeue` shows 4711_3, and Slurm's own number of that task is 4714."""

import re
from typing import Final, Literal

from django.db.models import Q

_PART: Final = re.compile(r"([0-9]+)[_+][0-9]+")
"""A task of an array, or a component of a heterogeneous job."""
SLURM_ID: Final = "slurm_id"
"""The label that has it."""


def called(wanted: str, by: Literal["exact", "icontains"] = "exact") -> Q:
    """The runs whose scheduler or whose user calls them so; `icontains`: or by a name of which this is a part."""
    rows = Q(**{f"job_id__{by}": wanted})
    if (part := _PART.fullmatch(wanted.strip())) is not None:
        rows |= Q(array_job_id=part[1], **{f"labels__{SLURM_ID}": wanted.strip()})
    return rows
