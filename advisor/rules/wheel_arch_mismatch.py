"""A build of PyTorch without code for the job's GPU, or without CUDA at all."""

import polars as pl

from advisor.rule import Need, Rule, Says, Show, Step
from advisor.text import _

c = pl.col

_BROKEN = (c.note_log_error == "no_kernel_image").fill_null(False)
_CPU = c.torch_is_cpu.fill_null(False)

RULE = Rule(
    id="wheel-arch-mismatch",
    scope="job",
    severity="critical",
    bottleneck=None,
    group="capacity",
    needs=(
        Need(("torch", "arch_missing", "compute_capability")),
        Need(("torch_is_cpu",), opens=_CPU, clears=~_CPU),
        Need(("note_log_error",), opens=_BROKEN, clears=~_BROKEN),
    ),
    opens=c.arch_missing.fill_null(False) | _CPU | _BROKEN,
    clears=~c.arch_missing & ~_CPU & ~_BROKEN,
    stops_work=True,
    title=_("The job's PyTorch has no code for its GPU"),
    summary=_(
        "torch {torch} was built without code for compute capability {compute_capability} ({gpu_model}): kernels do not start."
    ),
    cases=(
        Says(_CPU, _("torch {torch} was built for the processor alone: the GPUs that the job holds are not used.")),
        Says(_BROKEN, _("The job's log says that no kernel image is available for its GPU ({gpu_model}).")),
    ),
    evidence=(Show("gpus", "gpus"), Show("busy", "ratio")),
    change=(
        Step(
            "command",
            "pip install torch --index-url https://download.pytorch.org/whl/cu126  # Volta and older: the last build with code for them",
            when=c.sm < 75,
        ),
        Step("command", "pip install torch --index-url https://download.pytorch.org/whl/cu128", when=c.sm >= 100),
        Step("command", "pip install torch  # the default wheel has CUDA", when=c.sm.is_between(75, 99) | c.sm.is_null()),
        Step("env", "TORCH_CUDA_ARCH_LIST=7.0;8.0;9.0;10.0+PTX  # for extensions that are built on the site"),
    ),
    recovers=1.0,
    risk=_("An older build lacks newer features."),
    rollback=_("Pin the release before."),
    verify=_("torch.cuda.get_arch_list() names the GPU's architecture, and a matrix product reaches 60 % of the card's peak."),
    sources=("https://pytorch.org/get-started/locally/", "planner compatibility"),
)
