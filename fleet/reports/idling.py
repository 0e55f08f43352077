"""What a job's GPUs drew while they did nothing, beside what idle cards of their models draw at this site."""

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from fleet.reports.spans import Held
from fleet.reports.usage import Usage
from fleet.slow.power import Floor, floors

NAMES: Final = ("idle_power_w", "idle_energy_low_j", "idle_energy_high_j")


def figures(own: Held, usage: Usage, at: datetime) -> tuple[dict[str, Any], dict[str, str]]:
    """`idle_power_w` as it was read, `idle_power_floors` of the models, and `idle_energy_low_j` to `idle_energy_high_j`: the floor of each model
    by its idle hours, and what no card that does nothing saves. And by name why one is absent.
    """
    sums = usage.sums
    found: dict[str, Any] = dict.fromkeys(NAMES)
    found["idle_power_floors"] = []
    if not sums.judged_s:
        return found, {}  # the idle hours say why
    found["idle_power_w"] = sums.idle_j / sums.idle_told_s if sums.idle_told_s else None
    absent = {} if sums.idle_told_s else {"idle_power_w": "not_idle" if not sums.idle_s else "not_measured"}
    known = floors(at)
    seconds = _by_model(own, usage)
    found["idle_power_floors"] = [
        {"model": model, "watts": usual.watts, "low_w": usual.low, "high_w": usual.high, "gpus": usual.gpus, "days": usual.days}
        for model in seconds
        if model in known and (usual := known[model].idle).watts is not None
    ]
    if not seconds:
        found["idle_energy_low_j"] = found["idle_energy_high_j"] = 0.0
    elif all(_bounds(known.get(model)) for model in seconds):
        for place, name in enumerate(NAMES[1:]):
            found[name] = sum((_bounds(known.get(model)) or (0.0, 0.0))[place] * spent for model, spent in seconds.items())
    else:
        absent |= dict.fromkeys(NAMES[1:], "no_floor")
    return found, absent


def _by_model(own: Held, usage: Usage) -> Mapping[str, float]:
    """Idle seconds by model, the most first."""
    found: dict[str, float] = defaultdict(float)
    for gpu, model in own.cards.order_by().values_list("pk", "model") if usage.idle_s else ():
        if gpu in usage.idle_s:
            found[model] += usage.idle_s[gpu]
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def _bounds(floor: Floor | None) -> tuple[float, float] | None:
    """The watts of the middle half of the days; None where the site has not learned them."""
    if floor is None or floor.idle.low is None or floor.idle.high is None:
        return None
    return floor.idle.low, floor.idle.high
