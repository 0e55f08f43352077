"""How each metric of scope `engine` is read from an engine's Prometheus answer, under the names of its old and new releases.

Names and meanings: vLLM vllm/engine/metrics.py (v0) and vllm/v1/metrics/loggers.py, SGLang python/sglang/srt/metrics/collector.py, Triton
docs/user_guide/metrics.md and its TensorRT-LLM backend, TensorRT-LLM tensorrt_llm/metrics/collector.py. Where an engine has several names for
one thing, the first that it tells counts. An engine with several replicas (data parallel) tells each apart: counts add up, shares are averaged.
"""

from dataclasses import dataclass
from typing import Final, TypeAlias


@dataclass(frozen=True, slots=True)
class Pick:
    """Samples called `name`: all, those whose label `where[0]` is `where[1]`, or those whose label `unless[0]` is none of the rest."""

    name: str
    where: tuple[str, str] | None = None
    unless: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Total:
    """Added up over replicas, models and versions."""

    picks: tuple[Pick, ...]


@dataclass(frozen=True, slots=True)
class Average:
    """The mean over replicas."""

    picks: tuple[Pick, ...]


@dataclass(frozen=True, slots=True)
class Share:
    """Samples called `name` whose `label` is `part`, divided by those whose label is `whole`."""

    name: str
    label: str
    part: str
    whole: str


@dataclass(frozen=True, slots=True)
class HistogramMean:
    """The mean of what a histogram counted since the scrape before."""

    names: tuple[str, ...]
    scale: float = 1


@dataclass(frozen=True, slots=True)
class HistogramQuantile:
    """A quantile of what a histogram counted since the scrape before, interpolated inside its bucket."""

    names: tuple[str, ...]
    quantile: float = 0.95
    scale: float = 1


@dataclass(frozen=True, slots=True)
class Quotient:
    """What one counter grew by since the scrape before, divided by what another did."""

    above: str
    below: str
    scale: float = 1


Way: TypeAlias = Total | Average | Share | HistogramMean | HistogramQuantile | Quotient


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of engine: where it is asked, the label that names its model, and how each metric is read."""

    port: int
    paths: tuple[str, ...]
    model_label: str
    ways: dict[str, Way]

    @property
    def starts(self) -> tuple[str, ...]:
        """Beginnings of the lines that are needed; an engine tells ten times as many."""
        found: list[str] = []
        for way in self.ways.values():
            if isinstance(way, Total | Average):
                found += [pick.name for pick in way.picks]
            elif isinstance(way, Share):
                found.append(way.name)
            elif isinstance(way, Quotient):
                found += [way.above, way.below]
            else:
                found += way.names
        return tuple(sorted(set(found)))


def _total(*names: str) -> Total:
    return Total(tuple(Pick(name) for name in names))


def _average(*names: str) -> Average:
    return Average(tuple(Pick(name) for name in names))


def _sglang(*names: str) -> tuple[str, ...]:
    """Since 0.5.4 some builds write an underscore where the colon was."""
    return tuple(f"{prefix}{name}" for name in names for prefix in ("sglang:", "sglang_"))


_VLLM_TPOT: Final = (
    "vllm:inter_token_latency_seconds",
    "vllm:time_per_output_token_seconds",
    "vllm:request_time_per_output_token_seconds",
)
_SGLANG_TPOT: Final = _sglang("inter_token_latency_seconds", "time_per_output_token_seconds")
_FAILED: Final = ("finished_reason", "abort", "error", "cancelled")

KINDS: Final[dict[str, Kind]] = {
    "vllm": Kind(
        8000,
        ("/metrics",),
        "model_name",
        {
            "requests_running": _total("vllm:num_requests_running"),
            "requests_waiting": _total("vllm:num_requests_waiting"),
            "kv_cache_used": _average("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
            "requests_finished_total": Total((Pick("vllm:request_success_total", unless=_FAILED),)),
            "prompt_tokens_total": _total("vllm:prompt_tokens_total"),
            "generation_tokens_total": _total("vllm:generation_tokens_total"),
            "preemptions_total": _total("vllm:num_preemptions_total"),
            "prefix_cache_queries_total": _total("vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total"),
            "prefix_cache_hits_total": _total("vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total"),
            "ttft_mean_s": HistogramMean(("vllm:time_to_first_token_seconds",)),
            "ttft_p95_s": HistogramQuantile(("vllm:time_to_first_token_seconds",)),
            "tpot_mean_s": HistogramMean(_VLLM_TPOT),
            "tpot_p95_s": HistogramQuantile(_VLLM_TPOT),
            "queue_mean_s": HistogramMean(("vllm:request_queue_time_seconds",)),
            "e2e_mean_s": HistogramMean(("vllm:e2e_request_latency_seconds",)),
        },
    ),
    "sglang": Kind(
        30000,
        ("/metrics",),
        "model_name",
        {
            "requests_running": _total(*_sglang("num_running_reqs")),
            "requests_waiting": _total(*_sglang("num_queue_reqs")),
            "kv_cache_used": _average(*_sglang("token_usage")),
            "requests_finished_total": _total(*_sglang("num_requests_total")),
            "prompt_tokens_total": _total(*_sglang("prompt_tokens_total")),
            "generation_tokens_total": _total(*_sglang("generation_tokens_total")),
            "preemptions_total": _total(*_sglang("num_retracted_requests_total")),
            "prefix_cache_queries_total": _total(*_sglang("prompt_tokens_total")),  # every prompt token is looked up
            "prefix_cache_hits_total": _total(*_sglang("cached_tokens_total")),
            "ttft_mean_s": HistogramMean(_sglang("time_to_first_token_seconds")),
            "ttft_p95_s": HistogramQuantile(_sglang("time_to_first_token_seconds")),
            "tpot_mean_s": HistogramMean(_SGLANG_TPOT),
            "tpot_p95_s": HistogramQuantile(_SGLANG_TPOT),
            "queue_mean_s": HistogramMean(_sglang("queue_time_seconds")),
            "e2e_mean_s": HistogramMean(_sglang("e2e_request_latency_seconds")),
        },
    ),
    "triton": Kind(
        8002,
        ("/metrics",),
        "model",
        {
            "requests_running": Total((Pick("nv_trt_llm_request_metrics", where=("request_type", "scheduled")),)),
            "requests_waiting": Total(
                (
                    Pick("nv_trt_llm_request_metrics", where=("request_type", "waiting")),
                    Pick("nv_inference_pending_request_count"),
                )
            ),
            "kv_cache_used": Share("nv_trt_llm_kv_cache_block_metrics", "kv_cache_block_type", "used", "max"),
            "requests_finished_total": _total("nv_inference_request_success"),
            "ttft_mean_s": HistogramMean(("nv_inference_first_response_histogram_ms",), 1e-3),
            "ttft_p95_s": HistogramQuantile(("nv_inference_first_response_histogram_ms",), scale=1e-3),
            "queue_mean_s": Quotient("nv_inference_queue_duration_us", "nv_inference_request_success", 1e-6),
            "e2e_mean_s": Quotient("nv_inference_request_duration_us", "nv_inference_request_success", 1e-6),
            "batch_size_mean": Quotient("nv_inference_count", "nv_inference_exec_count"),
        },
    ),
    "trtllm": Kind(
        8000,
        ("/prometheus/metrics", "/metrics"),  # its own /metrics is JSON; behind Dynamo it is not
        "model_name",
        {
            "requests_running": _total("trtllm_num_requests_running", "trtllm_num_active_requests"),
            "requests_waiting": _total("trtllm_num_requests_waiting", "trtllm_server_queue_length"),
            "kv_cache_used": _average("trtllm_kv_cache_utilization"),
            "requests_finished_total": Total(
                (
                    Pick("trtllm_request_success_total", unless=_FAILED),
                    Pick("trtllm:request_success_total", unless=_FAILED),
                )
            ),
            "prompt_tokens_total": _total("trtllm_prompt_tokens_total"),
            "generation_tokens_total": _total("trtllm_generation_tokens_total"),
            "prefix_cache_queries_total": _total("trtllm_prompt_tokens_total"),
            "prefix_cache_hits_total": _total("trtllm_prompt_cached_tokens_total"),
            "ttft_mean_s": HistogramMean(("trtllm_time_to_first_token_seconds", "trtllm:time_to_first_token_seconds")),
            "ttft_p95_s": HistogramQuantile(("trtllm_time_to_first_token_seconds", "trtllm:time_to_first_token_seconds")),
            "tpot_mean_s": HistogramMean(("trtllm_time_per_output_token_seconds", "trtllm:time_per_output_token_seconds")),
            "tpot_p95_s": HistogramQuantile(("trtllm_time_per_output_token_seconds", "trtllm:time_per_output_token_seconds")),
            "queue_mean_s": HistogramMean(("trtllm_request_queue_time_seconds", "trtllm:request_queue_time_seconds")),
            "e2e_mean_s": HistogramMean(("trtllm_e2e_request_latency_seconds", "trtllm:e2e_request_latency_seconds")),
        },
    ),
}
