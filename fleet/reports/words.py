"""Why a part of a report is not there, in words."""

from typing import Final

from django.utils.translation import gettext_lazy as _

ABSENT: Final = {
    "no_readings": _("the store has no readings of its GPUs for that time"),
    "not_measured": _("its GPUs did not tell it"),
    "not_idle": _("its GPUs were never idle"),
    "no_floor": _("what idle cards of its models draw here is not learned yet: that takes three of a model, idle on three days"),
    "not_judged": _("too little was measured to say"),
    "shared": _("it shared all its devices with other jobs: what is read of them is nobody's own"),
    "unknown_devices": _("no agent told of the devices that its scheduler gave it"),
    "one_rank": _("it held a single GPU"),
    "no_steps": _("its script does not report steps"),
    "no_rate": _("its script reports neither samples nor tokens a second"),
    "no_model": _("its script does not tell the model's size (params or flops_per_sample)"),
    "no_peak": _("the peak of its cards in its number format is not known, or what was told is more than all of it"),
    "no_price": _("the site told no price of a GPU-hour (FETTLE_GPU_HOUR_PRICE)"),
}


def why(slug: str) -> str:
    """The sentence; the slug itself where there is none."""
    return str(ABSENT.get(slug, slug))
