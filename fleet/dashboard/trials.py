"""What a trial of an own rule found, for its page: counts, and the targets by their names."""

from dataclasses import dataclass, field
from typing import Final

from django.utils.translation import gettext

from fleet.dashboard import words
from fleet.findings.targets import names
from fleet.tuning.models import Trial

MOST: Final = 30


@dataclass(slots=True)
class Shown:
    """A trial; `targets` are the most frequent, each as its name, its page and in how many windows; `of_now` features by name and in words."""

    trial: Trial
    error: str = ""
    percent: float | None = None
    targets: list[tuple[str, str, int]] = field(default_factory=list)
    targets_total: int = 0
    of_now: list[tuple[str, str]] = field(default_factory=list)


def shown(trial: Trial) -> Shown:
    """The trial with its targets named."""
    often = sorted(trial.targets.items(), key=lambda pair: (-pair[1], pair[0]))
    says, _line, what = trial.error.partition("\n")
    names = _names(trial.rule.scope, [target for target, _times in often[:MOST]])
    return Shown(
        trial,
        f"{gettext(says)} {what}".strip() if says else "",
        100 * trial.fired_total / trial.judged_total if trial.judged_total else None,
        [(*names.get(target, (target, "")), times) for target, times in often[:MOST]],
        len(often),
        [(name, words.evidence(name)) for name in trial.of_now],
    )


def _names(scope: str, targets: list[str]) -> dict[str, tuple[str, str]]:
    """Name and page of each target that is still there."""
    found = {}
    for (_, target), name in names((scope, target) for target in targets).items():
        page = {"gpu": f"/gpus/{target}/", "node": f"/nodes/{name}/"}.get(scope, "")
        found[target] = (name, page if name != target else "")
    return found
