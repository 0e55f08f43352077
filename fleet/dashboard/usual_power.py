"""What GPUs of a model draw at this site, idle and busy, and on how much that rests."""

from datetime import datetime
from typing import Any

from django.utils.translation import gettext

from fleet.slow.power import Usual, floors


def usual_power(model: str, at: datetime) -> list[dict[str, Any]]:
    """Rows with `label`, `watts` and `basis`; none of what too few GPUs or days tell."""
    known = floors(at).get(model)
    if known is None:
        return []
    rows = ((gettext("Idle power here"), known.idle), (gettext("Busy power here"), known.busy))
    return [{"label": label, "watts": usual.watts, "basis": _basis(usual)} for label, usual in rows if usual.watts is not None]


def _basis(usual: Usual) -> str:
    says = gettext("median of this model; GPUs: {gpus}, days: {days}")
    return says.format(gpus=usual.gpus, days=usual.days)
