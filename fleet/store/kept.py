"""For how long the store keeps what is written into it, by the settings or as its server says."""

from dataclasses import dataclass

from django.conf import settings

from fleet.store.series import Series

DAY_S = 86_400


@dataclass(frozen=True, slots=True)
class Kept:
    """Seconds, before now, of the oldest rows that stay: `raw_s` as they were written, `any_s` in any form."""

    raw_s: float
    any_s: float


def by_settings() -> dict[int, int]:
    """For how many seconds rows of each level (a key of series.LEVELS) stay where the server keeps no retention of its own."""
    return {
        1: settings.FETTLE_RETAIN_RAW_H * 3600,
        10: settings.FETTLE_RETAIN_10S_D * DAY_S,
        60: settings.FETTLE_RETAIN_1M_D * DAY_S,
        3600: settings.FETTLE_RETAIN_1H_D * DAY_S,
    }


def kept(series: Series) -> Kept | None:
    """What an engine keeps; None where its server has not told yet."""
    if hasattr(series, "keeps_s"):  # its server drops rows by itself
        told: float | None = series.keeps_s
        return None if told is None else Kept(told, told)
    levels = by_settings()
    return Kept(levels[1], max(levels.values()))  # a level outlives those that are made into it
