"""A driver that is older than the CUDA that a job carries needs.

Any newer driver runs older CUDA; an older one runs CUDA of its own major version from a minimum on (PL-9). Judged by job, as the CUDA is the
job's; what is to be changed is the node's driver, or the job's wheel.
"""

import polars as pl

from advisor.rule import Need, Rule, Says, Show, Step
from advisor.text import _

c = pl.col

_MINIMUM = c.torch_cuda_major.replace_strict({11: 450, 12: 525, 13: 580}, default=None, return_dtype=pl.Int64)

RULE = Rule(
    id="driver-below-minimum",
    scope="job",
    severity="critical",
    bottleneck=None,
    group="capacity",
    needs=(
        Need(("driver_major", "torch_cuda_major")),
        Need(
            ("note_log_error",), opens=c.note_log_error == "driver_insufficient", clears=c.note_log_error != "driver_insufficient"
        ),
    ),
    opens=(c.driver_major < _MINIMUM) | (c.note_log_error == "driver_insufficient").fill_null(False),
    clears=(c.driver_major >= _MINIMUM) & (c.note_log_error != "driver_insufficient").fill_null(True),
    stops_work=True,
    title=_("The driver is too old for the job's CUDA"),
    summary=_(
        "The job carries CUDA {torch_cuda_major} (torch {torch}); the node's driver is {driver_version}, which does not run it."
    ),
    cases=(
        Says(
            c.torch_cuda_major.is_null(),
            _("The job's log says that the driver is too old for its CUDA; the driver is {driver_version}."),
        ),
    ),
    evidence=(Show("driver_major", "version"), Show("torch_cuda_major", "version"), Show("cuda_driver_major", "version")),
    change=(
        Step(
            "command",
            "pip install torch --index-url https://download.pytorch.org/whl/cu126  # runs with a driver from 525 on",
            when=c.driver_major >= 525,
        ),
        Step(
            "command",
            "pip install torch==2.7.* --index-url https://download.pytorch.org/whl/cu118  # runs with a driver from 450 on",
            when=c.driver_major < 525,
        ),
        Step("command", "apt-get install cuda-drivers-580  # with the node drained; the fabric manager's version follows"),
    ),
    recovers=1.0,
    risk=_("A new driver needs the node drained, and a fabric manager and DCGM that match."),
    rollback=_("Pin the package of the driver before, or install the wheel before."),
    verify=_("torch.cuda.is_available() is true on every node of the job, and no such error for seven days."),
    sources=("https://docs.nvidia.com/deploy/cuda-compatibility/", "planner compatibility"),
)
