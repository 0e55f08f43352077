"""The first requests after a start are slow: what is compiled, captured and cached with them should have been before."""

import polars as pl

from advisor.rule import Need, Rule, Show, Step, Threshold, param
from advisor.text import _

c = pl.col

RULE = Rule(
    id="serving-cold-start",
    scope="service",
    severity="advice",
    bottleneck=None,
    group="capacity",
    needs=(Need(("first_requests_ratio",)),),
    thresholds=(
        Threshold("first_requests_ratio_opens", 3.0, "ratio", 1.1, 100.0),
        Threshold("first_requests_ratio_clears", 1.5, "ratio", 1.0, 100.0),
    ),
    opens=c.first_requests_ratio >= param("first_requests_ratio_opens"),
    clears=c.first_requests_ratio < param("first_requests_ratio_clears"),
    title=_("The first requests after a start are slow"),
    summary=_(
        "The first twenty requests after the last start waited up to {first_requests_ratio:.1f} times as long for their first token as those of the ten minutes after."
    ),
    evidence=(
        Show("first_requests_ratio", "ratio", ">=", "first_requests_ratio_opens"),
        Show("age_s", "seconds"),
        Show("ttft_s", "seconds"),
        Show("restarts_7d", "events"),
    ),
    change=(
        Step(
            "config",
            'readinessProbe: {{exec: {{command: [curl, -sf, http://127.0.0.1:8000/v1/completions, -d, \'{{"model": "M", "prompt": "a", "max_tokens": 1}}\', -H, \'Content-Type: application/json\']}}}}',
            when=c.kind.ne_missing("triton"),
        ),
        Step("config", 'model_warmup [{{ name: "shapes", batch_size: 8, inputs {{ ... }} }}]', when=c.kind == "triton"),
        Step(
            "env",
            "VLLM_CACHE_ROOT=/cache/vllm TORCHINDUCTOR_CACHE_DIR=/cache/inductor  # on a volume that outlives the pod",
            when=c.kind == "vllm",
        ),
    ),
    recovers=0.0,
    risk=_("It takes longer until a replica counts as ready."),
    rollback=_("Take the probe back."),
    verify=_(
        "The first requests of the next five starts take at most {first_requests_ratio_clears:.1f} times as long as the others."
    ),
    sources=(
        _("docs.vllm.ai: torch.compile integration (cache)"),
        "docs.nvidia.com/deeplearning/triton-inference-server/user-guide: model warmup",
    ),
)
