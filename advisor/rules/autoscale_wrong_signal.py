"""An autoscaler of a GPU service that follows a signal which cannot work.

Kubernetes' resource metrics know no nvidia.com/gpu; the processor and GPU utilisation are as high with one request as with a hundred. What
the autoscaler follows is told by the site (annotation autoscaler_metric).
"""

import polars as pl

from advisor import autoscaling
from advisor.rule import Need, Rule, Show, Step
from advisor.text import _

c = pl.col

RULE = Rule(
    id="autoscale-wrong-signal",
    scope="service",
    severity="warn",
    bottleneck=None,
    group="capacity",
    needs=(Need(("note_autoscaler_metric",)),),
    opens=c.note_autoscaler_metric.is_in(["cpu", "gpu_util", "nvidia.com/gpu"]),
    clears=~c.note_autoscaler_metric.is_in(["cpu", "gpu_util", "nvidia.com/gpu"]),
    title=_("The autoscaler follows a signal that cannot work"),
    summary=_(
        "The service is scaled on {note_autoscaler_metric}, which says nothing about how many requests wait; {requests_waiting:.0f} wait now, {requests_running:.0f} run."
    ),
    evidence=(
        Show("requests_waiting", "requests"),
        Show("waiting_share", "ratio"),
        Show("requests_running", "requests"),
        Show("kv_cache_used", "ratio"),
    ),
    change=(
        *(Step("config", autoscaling.step(engine), when=c.kind == engine) for engine in autoscaling.QUERIES),
        Step(
            "config",
            'triggers:\n- type: prometheus\n  metadata: {{serverAddress: http://prometheus:9090, query: sum(fettle_engine_requests_waiting), threshold: "2"}}',
            when=~c.kind.is_in(list(autoscaling.QUERIES)).fill_null(value=False),
        ),
    ),
    recovers=0.0,
    risk=_("A signal that flaps scales up and down: keep the stabilisation window and a minimum."),
    rollback=_("Apply the old specification."),
    verify=_("ScalingActive is true, nothing waits at the peaks of seven days, and replicas return to the minimum afterwards."),
    sources=(
        "https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/",
        "https://keda.sh/docs/latest/scalers/prometheus/",
        "https://docs.vllm.ai/en/latest/usage/metrics.html",
        "https://docs.nvidia.com/deeplearning/triton-inference-server/user-guide/docs/user_guide/metrics.html",
    ),
)
