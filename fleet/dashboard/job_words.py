"""Words for jobs: states, sources, and the parts of a report."""

from typing import Final

from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

OPEN: Final = pgettext_lazy("job", "not ended")
STATE: Final = {
    "pending": pgettext_lazy("job", "pending"),
    "running": pgettext_lazy("job", "running"),
    "suspended": pgettext_lazy("job", "suspended"),
    "completed": pgettext_lazy("job", "completed"),
    "failed": pgettext_lazy("job", "failed"),
    "cancelled": pgettext_lazy("job", "cancelled"),
    "timeout": pgettext_lazy("job", "timed out"),
    "out_of_memory": pgettext_lazy("job", "out of memory"),
    "node_fail": pgettext_lazy("job", "failed with its node"),
    "preempted": pgettext_lazy("job", "preempted"),
    "requeued": pgettext_lazy("job", "put back into the queue"),
    "ended": pgettext_lazy("job", "ended, nobody told how"),
    "lost": pgettext_lazy("job", "lost"),
}
SOURCE: Final = {
    "slurm": "Slurm",
    "kubernetes": "Kubernetes",
    "api": _("told over the API"),
    "processes": _("seen by its processes alone; no scheduler told of it"),
}
QUANTILE: Final = {
    "busy": _("Compute engine active"),
    "sm_active": _("SM active"),
    "tensor_active": _("Tensor cores active"),
    "dram_active": _("DRAM active"),
    "step_time_s": _("Time of a step"),
}
PART: Final = {
    "bottleneck": _("Bottleneck"),
    "idle_gpu_hours": _("Idle GPU-hours"),
    "unheld_gpu_hours": _("Held, and used by nobody"),
    "energy_j": _("Energy"),
    "idle_power_w": _("Power while idle"),
    "idle_energy_low_j": _("Energy spent idle"),
    "cost": _("Cost"),
    "mfu": _("Model FLOPs utilisation"),
    "ranks": _("Spread of the ranks"),
}
