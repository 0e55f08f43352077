"""The words of the rules' pages: states, groups, what overrides hold for, lines of the audit trail, conditions."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from django.utils.translation import gettext, pgettext_lazy
from django.utils.translation import gettext_lazy as _

from fleet.dashboard import words
from fleet.dashboard.templatetags.units import reading
from fleet.dashboard.threshold_words import threshold_label

STATE: Final = {
    "on": pgettext_lazy("rule state", "on"),
    "shadow": pgettext_lazy("rule state", "shadow"),
    "off": pgettext_lazy("rule state", "off"),
}
STATE_MEANS: Final = {
    "on": _("Judged; its findings are told."),
    "shadow": _("Judged; its findings are kept on this page, counted nowhere and told to nobody."),
    "off": _("Not judged."),
}
GROUP: Final = {
    "health": pgettext_lazy("rule group", "health"),
    "clocks": pgettext_lazy("rule group", "clock speeds"),
    "performance": pgettext_lazy("rule group", "performance"),
    "capacity": pgettext_lazy("rule group", "capacity"),
}
KIND: Final = {
    "shipped": pgettext_lazy("rule kind", "shipped"),
    "event": pgettext_lazy("rule kind", "of events"),
    "own": pgettext_lazy("rule kind", "own"),
}
MATCHER: Final = {
    "site": _("the whole site"),
    "gpu_model": _("GPU model"),
    "partition": _("partition"),
    "node": _("nodes"),
    "job_family": _("job family"),
    "job": _("jobs"),
}
FIELD: Final = {
    "scope": _("Scope"),
    "severity": _("Severity"),
    "group": _("Group"),
    "opens": _("Opens when"),
    "clears": _("Clears when"),
    "title": _("Title"),
    "summary": _("Summary"),
    "change": _("What to do"),
}
"""The fields of a rule of the site's own, as its form has them."""
CONDITION: Final = {"opens": _("Opens when"), "clears": _("Clears when"), "unless": _("Never while")}
UNIT: Final = {
    "banks": pgettext_lazy("unit", "banks"),
    "bytes": pgettext_lazy("unit", "bytes"),
    "bytes_per_second": pgettext_lazy("unit", "bytes a second"),
    "celsius": "°C",
    "checkpoints": pgettext_lazy("unit", "checkpoints"),
    "code": pgettext_lazy("unit", "code"),
    "cores": _("cores"),
    "days": pgettext_lazy("unit", "days"),
    "deviations": pgettext_lazy("unit", "deviations"),
    "errors": pgettext_lazy("unit", "errors"),
    "events": pgettext_lazy("unit", "events"),
    "flag": pgettext_lazy("unit", "0 or 1"),
    "gibibytes": "GiB",
    "gpu_hours": pgettext_lazy("unit", "GPU-hours"),
    "gpus": _("GPUs"),
    "hours": pgettext_lazy("unit", "hours"),
    "index": pgettext_lazy("unit", "index"),
    "jobs": pgettext_lazy("unit", "jobs"),
    "joules": "J",
    "lanes": pgettext_lazy("unit", "lanes"),
    "links": pgettext_lazy("unit", "links"),
    "mebibytes": "MiB",
    "megahertz": "MHz",
    "micro_batches": pgettext_lazy("unit", "micro-batches"),
    "nodes": pgettext_lazy("unit", "nodes"),
    "numa_nodes": pgettext_lazy("unit", "NUMA nodes"),
    "number": pgettext_lazy("unit", "number"),
    "per_hour": pgettext_lazy("unit", "an hour"),
    "per_minute": pgettext_lazy("unit", "a minute"),
    "per_second": pgettext_lazy("unit", "a second"),
    "percent": pgettext_lazy("unit", "per cent, 0 to 100"),
    "ports": pgettext_lazy("unit", "ports"),
    "processes": _("processes"),
    "ratio": pgettext_lazy("unit", "share, 0 to 1"),
    "requests": pgettext_lazy("unit", "requests"),
    "runs": pgettext_lazy("unit", "runs"),
    "samples": pgettext_lazy("unit", "samples"),
    "seconds": pgettext_lazy("unit", "seconds"),
    "sequences": pgettext_lazy("unit", "sequences"),
    "stages": pgettext_lazy("unit", "stages"),
    "steps": pgettext_lazy("unit", "steps"),
    "threads": pgettext_lazy("unit", "threads"),
    "times": _("times"),
    "tokens": pgettext_lazy("unit", "tokens"),
    "version": pgettext_lazy("unit", "version"),
    "versions": pgettext_lazy("unit", "versions"),
    "watts": "W",
}


def outline(text: str, values: Mapping[str, float] = MappingProxyType({})) -> str:
    """A text of a rule with its thresholds' `values`, and an ellipsis for each value that a finding fills in."""

    def filled(field: re.Match[str]) -> str:
        return format(values[field[1]], field[2] or "") if field[1] in values else "…"

    without = re.sub(r"(?<!\{)\{(\w*)(?::([^{}]*))?\}", filled, text.replace("{{", "\0").replace("}}", "\1"))
    return without.replace("\0", "{").replace("\1", "}").replace("….", "…")


def change_said(what: str, before: dict[str, Any] | None, after: dict[str, Any] | None) -> str:
    """One line of the audit trail in words: what was, and what is."""
    if what == "state":
        return f"{words.word(STATE, (before or {}).get('state', ''))} → {words.word(STATE, (after or {}).get('state', ''))}"
    if what == "override":
        one = after or before or {}
        values = [f"{part['value']:,.6g}" if part else gettext("default") for part in (before, after)]
        where = one.get("pattern") or str(MATCHER["site"])
        return gettext("{what} ({where}): {before} → {after}").format(
            what=threshold_label(one.get("threshold", "")), where=where, before=values[0], after=values[1]
        )
    if before is None:
        return gettext("written")
    if after is None:
        return gettext("removed")
    changed = [name for name in after if before.get(name) != after[name]]
    return gettext("changed: {names}").format(names=", ".join(words.word(FIELD, name) for name in changed))


def written(value: float, unit: str) -> str:
    """A threshold's value as it is read and as it is typed: `35 % (0.35)`, `2 cores`."""
    shown, typed = reading(value, unit), f"{value:.12g}"
    plain = unit not in (
        "ratio",
        "bytes",
        "bytes_per_second",
        "watts",
        "megahertz",
        "celsius",
        "seconds",
        "percent",
        "number",
        "",
    )
    return f"{typed} {words.word(UNIT, unit)}" if plain else shown if shown == typed else f"{shown} ({typed})"
