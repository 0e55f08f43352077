"""Kubernetes manifests that scale a serving engine by its queue, for the rule autoscale-wrong-signal and deploy/kubernetes/autoscaling.

An autoscaler of Kubernetes asks for total / threshold replicas, and takes the largest of what its metrics ask for. So each total is a
sum over the replicas: what waits adds replicas, what is in flight and the KV cache keep those that are busy. A pod of several engines
(data parallel) has one cache's mean. The names are those that the engines tell (agents/engine_metrics.py).
"""

from typing import Final

NAMESPACE: Final = "serving"
NAME: Final = "llm"
"""What stands for the site's own namespace and Deployment."""
WAITING: Final = 2
"""Requests that may wait for each replica."""
IN_FLIGHT: Final = 64
"""Requests that one replica carries; a site puts in what its latency objective allows."""
KV_CACHE: Final = 0.8

_HERE: Final = f'{{namespace="{NAMESPACE}"}}'

QUERIES: Final[dict[str, dict[str, tuple[str, float]]]] = {
    "vllm": {
        "waiting": (f"sum(vllm:num_requests_waiting{_HERE})", WAITING),
        "in-flight": (f"sum(vllm:num_requests_running{_HERE}) + sum(vllm:num_requests_waiting{_HERE})", IN_FLIGHT),
        "kv-cache": (f"sum(avg by (pod) (vllm:kv_cache_usage_perc{_HERE} or vllm:gpu_cache_usage_perc{_HERE}))", KV_CACHE),
    },
    "sglang": {
        "waiting": (f"sum(sglang:num_queue_reqs{_HERE} or sglang_num_queue_reqs{_HERE})", WAITING),
        "in-flight": (
            f"sum(sglang:num_running_reqs{_HERE} or sglang_num_running_reqs{_HERE})"
            f" + sum(sglang:num_queue_reqs{_HERE} or sglang_num_queue_reqs{_HERE})",
            IN_FLIGHT,
        ),
        "kv-cache": (f"sum(avg by (pod) (sglang:token_usage{_HERE} or sglang_token_usage{_HERE}))", KV_CACHE),
    },
    "triton": {
        "waiting": (f"sum(nv_inference_pending_request_count{_HERE})", WAITING),
        # seconds that requests spent in the server, each second: as many as were in it (Little's law)
        "in-flight": (f"sum(rate(nv_inference_request_duration_us{_HERE}[2m])) / 1e6", IN_FLIGHT),
    },
    "trtllm": {
        "waiting": (f"sum(trtllm_num_requests_waiting{_HERE} or trtllm_server_queue_length{_HERE})", WAITING),
        "in-flight": (
            f"sum(trtllm_num_requests_running{_HERE} or trtllm_num_active_requests{_HERE})"
            f" + sum(trtllm_num_requests_waiting{_HERE} or trtllm_server_queue_length{_HERE})",
            IN_FLIGHT,
        ),
        "kv-cache": (f"sum(avg by (pod) (trtllm_kv_cache_utilization{_HERE}))", KV_CACHE),
    },
}  # fmt: skip
"""By the kind of engine: what each trigger asks Prometheus, and how much of it one replica carries."""

_TRIGGER: Final = """\
    - type: prometheus
      name: {name}
      metadata:
        serverAddress: http://prometheus.monitoring:9090
        query: '{query}'
        threshold: "{threshold:g}"
        ignoreNullValues: "false"
"""
_SCALED: Final = """\
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {{name: {name}, namespace: {namespace}}}
spec:
  scaleTargetRef: {{name: {name}}}
  minReplicaCount: 1
  maxReplicaCount: 8
  fallback: {{failureThreshold: 3, replicas: 2}}
  advanced:
    horizontalPodAutoscalerConfig:
      behavior:
        scaleUp: {{policies: [{{type: Pods, value: 2, periodSeconds: 60}}]}}
        scaleDown: {{stabilizationWindowSeconds: 600, policies: [{{type: Pods, value: 1, periodSeconds: 300}}]}}
  triggers:
{triggers}"""


def scaled_object(kind: str) -> str:
    """KEDA's ScaledObject for an engine of this kind, in YAML; KeyError for a kind that is not in QUERIES."""
    triggers = "".join(_TRIGGER.format(name=name, query=query, threshold=most) for name, (query, most) in QUERIES[kind].items())
    return _SCALED.format(name=NAME, namespace=NAMESPACE, triggers=triggers)


def step(kind: str) -> str:
    """The same as the text of a rule's step, in which braces are doubled."""
    return scaled_object(kind).rstrip("\n").replace("{", "{{").replace("}", "}}")
