"""Names that PyTorch, NCCL or an engine has given up: they work today and break with an upgrade."""

import polars as pl

from advisor.rule import Need, Rule, Says, Show, Step
from advisor.text import _

c = pl.col

_AMP = (c.note_log_error == "amp_deprecated").fill_null(False)

RULE = Rule(
    id="deprecated-torch-surface",
    scope="job",
    severity="info",
    bottleneck=None,
    group="capacity",
    needs=(Need(("labels_known", "torch")), Need(("note_log_error",), opens=_AMP, clears=~_AMP)),
    opens=c.env_deprecated.is_not_null() | _AMP,
    clears=c.env_deprecated.is_null() & ~_AMP,
    title=_("Names that are deprecated in this release"),
    summary=_("The job sets {env_deprecated}, which torch {torch} replaces by other names."),
    cases=(Says(c.env_deprecated.is_null(), _("The job's log warns that torch.cuda.amp is deprecated.")),),
    evidence=(Show("gpus", "gpus"),),
    change=(
        Step("env", "PYTORCH_ALLOC_CONF={env_PYTORCH_CUDA_ALLOC_CONF}  # instead of PYTORCH_CUDA_ALLOC_CONF"),
        Step(
            "env",
            "TORCH_FR_BUFFER_SIZE=2000  # instead of TORCH_NCCL_TRACE_BUFFER_SIZE",
            when=c.env_TORCH_NCCL_TRACE_BUFFER_SIZE.is_not_null(),
        ),
        Step(
            "env",
            "TORCH_NCCL_ASYNC_ERROR_HANDLING=1  # instead of NCCL_ASYNC_ERROR_HANDLING",
            when=c.env_NCCL_ASYNC_ERROR_HANDLING.is_not_null(),
        ),
        Step("env", "TORCH_NCCL_BLOCKING_WAIT=1  # instead of NCCL_BLOCKING_WAIT", when=c.env_NCCL_BLOCKING_WAIT.is_not_null()),
        Step("diff", '- scaler = torch.cuda.amp.GradScaler()\n+ scaler = torch.amp.GradScaler("cuda")', when=_AMP),
        Step("diff", '- with torch.cuda.amp.autocast():\n+ with torch.autocast("cuda", dtype=torch.bfloat16):', when=_AMP),
    ),
    recovers=0.0,
    risk=_("None: the new names mean the same."),
    rollback=_("Set the old names again."),
    verify=_("The old names are gone in the next run, and step time is the same within 2 %."),
    sources=(
        "https://docs.pytorch.org/docs/stable/cuda_environment_variables.html",
        "https://docs.pytorch.org/docs/stable/amp.html",
    ),
)
