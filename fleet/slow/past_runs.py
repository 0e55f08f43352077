"""Past runs of job families: those that are alike, the newest of each family, and no more than a family may keep."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple, TypeAlias

from django.db.models import F, Window
from django.db.models.functions import RowNumber

from fleet.jobs.models import END_STATES
from fleet.slow.models import JobRun

NEWEST: Final = 60
"""Runs of a family that are looked at; older ones say little of today."""
MOST_OF_FAMILY: Final = 500
"""Runs that are kept of a family on as many GPUs of one model."""
ENOUGH_MINUTES: Final = 5
"""With reported steps, after the warm-up; a run of less is none to compare with."""
BATCH_ALIKE: Final = 0.25
"""How far the samples of a step may differ between runs that are alike; another batch is another job."""
CUT_SHORT: Final = tuple(name for name in END_STATES if name != "completed")
"""How a job ends whose run says nothing of the usual: put back into the queue, killed, run out of its time, crashed. What ailed it may
have made it slow long before."""
_IN_ONE_QUERY: Final = 500

Told: TypeAlias = tuple[Mapping[str, str], Sequence[int]]
"""What the processes of a run told, and the GPUs that it held."""


class Family(NamedTuple):
    """What runs have in common that may be compared: never runs on another number of GPUs, or on another model."""

    program: str
    gpu_model: str
    gpus: int


@dataclass(slots=True)
class Past:
    """One run as it is compared with. `state`: what its scheduler says of the job that it was; None where none did, or nobody asked."""

    pk: int
    job: str
    program: str
    gpu_model: str
    gpus: int
    first_seen: datetime
    last_seen: datetime
    minutes: int
    step_time_s: float | None
    step_time_mad_s: float | None
    samples_per_s: float | None
    energy_j_per_sample: float | None
    state: str | None = None

    @property
    def is_good(self) -> bool:
        """True where others may be compared with it: it goes on, or came to its end."""
        return self.state not in CUT_SHORT

    @property
    def family(self) -> Family:
        """What it may be compared within."""
        return Family(self.program, self.gpu_model, self.gpus)

    @property
    def samples_per_step(self) -> float | None:
        """The batch of all its GPUs; None where it did not report both rates."""
        return self.samples_per_s * self.step_time_s if self.samples_per_s and self.step_time_s else None


_FIELDS: Final = tuple(name for name in Past.__slots__ if name != "state")


def family_of(run: JobRun) -> Family:
    """The family of a run as it is now."""
    return Family(run.program, run.gpu_model, run.gpus)


def program_of(job: str) -> str | None:
    """The family's name of a job as findings call it; None where no run of it is known."""
    return JobRun.objects.filter(job=job).order_by("-last_seen").values_list("program", flat=True).first()


def as_past(run: JobRun) -> Past:
    """The run as others are compared with it."""
    return Past(*(getattr(run, name) for name in _FIELDS))


def past(programs: Iterable[str]) -> dict[str, dict[Family, list[Past]]]:
    """By program and family its newest runs, oldest first."""
    found: dict[str, dict[Family, list[Past]]] = defaultdict(lambda: defaultdict(list))
    listed = sorted(programs)
    place = Window(
        RowNumber(), partition_by=[F("program"), F("gpu_model"), F("gpus")], order_by=[F("first_seen").desc(), F("pk").desc()]
    )
    for first in range(0, len(listed), _IN_ONE_QUERY):
        rows = (
            JobRun.objects.filter(program__in=listed[first : first + _IN_ONE_QUERY])
            .annotate(place=place)
            .filter(place__lte=NEWEST)
        )
        for row in rows.order_by("first_seen", "pk").values_list(*_FIELDS, "job_row__state"):
            one = Past(*row)
            found[one.program][one.family].append(one)
    return found


def alike(run: Past, runs: Sequence[Past]) -> list[Past]:
    """Earlier runs of its family that ran long enough and were not cut short, with a batch like its own where both tell it, oldest first."""
    return [
        one
        for one in runs
        if one.pk != run.pk
        and one.is_good
        and one.first_seen < run.first_seen
        and (one.gpus, one.gpu_model, one.program) == (run.gpus, run.gpu_model, run.program)
        and one.minutes >= ENOUGH_MINUTES
        and one.step_time_s
        and _same_batch(one, run)
    ]


def step_time_s(one: Past, run: Past) -> float | None:
    """The step time of `one` as it would be with the batch of `run`, which is alike."""
    if one.step_time_s is None or not one.samples_per_step or not run.samples_per_step:
        return one.step_time_s
    return one.step_time_s * run.samples_per_step / one.samples_per_step


def told_of(keys: Iterable[int]) -> dict[int, Told]:
    """What these runs told."""
    listed = sorted(set(keys))
    found: dict[int, Told] = {}
    for first in range(0, len(listed), _IN_ONE_QUERY):
        rows = JobRun.objects.filter(pk__in=listed[first : first + _IN_ONE_QUERY]).values_list("pk", "told", "gpu_ids")
        found |= {pk: (told, gpus) for pk, told, gpus in rows}
    return found


def trim(programs: Iterable[str]) -> None:
    """Forget the oldest runs of families that have more than they may keep."""
    for program in programs:
        families: Iterable[Any] = JobRun.objects.filter(program=program).order_by().values_list("gpu_model", "gpus").distinct()
        for model, gpus in list(families):
            rows = JobRun.objects.filter(program=program, gpu_model=model, gpus=gpus).order_by("-last_seen", "-pk")
            old = list(rows.values_list("pk", flat=True)[MOST_OF_FAMILY : MOST_OF_FAMILY + _IN_ONE_QUERY])
            if old:
                JobRun.objects.filter(pk__in=old).delete()


def _same_batch(one: Past, other: Past) -> bool:
    if not one.samples_per_step or not other.samples_per_step:
        return True
    return abs(one.samples_per_step / other.samples_per_step - 1) <= BATCH_ALIKE
