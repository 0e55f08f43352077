"""What is read from an engine's answers: names of old and new releases, replicas, means between two scrapes."""

from collections.abc import Mapping

import pytest

from agents.engine_metrics import KINDS
from agents.engine_readings import ENGINE_METRICS, Answer, answer, is_of, model, readings
from agents.samples import Parser
from tests.agents.exporter import answer as file
from wire.labels import ENGINES
from wire.messages import Cell

VLLM = KINDS["vllm"]


def parsed(kind: str, text: str, t: float = 0.0) -> Answer:
    """An answer as the agent takes it."""
    return answer(Parser(KINDS[kind].starts).read(text.encode()).samples, t)


def read(kind: str, now: str, before: str | None = None) -> Mapping[str, Cell | str | None]:
    """Each metric's value, or its reason."""
    earlier = None if before is None else parsed(kind, before)
    values, reasons = readings(KINDS[kind], earlier, parsed(kind, now, 5.0))
    return {
        metric.name: reason if value is None else value
        for metric, value, reason in zip(ENGINE_METRICS, values, reasons, strict=True)
    }


def histogram(name: str, buckets: Mapping[str, int], total: float, labels: str = "") -> str:
    """A histogram's lines."""
    lines = [f'{name}_bucket{{le="{le}"{labels}}} {count}' for le, count in buckets.items()]
    tags = f"{{{labels.removeprefix(',')}}}" if labels else ""
    return "\n".join([*lines, f"{name}_sum{tags} {total}", f"{name}_count{tags} {list(buckets.values())[-1]}"]) + "\n"


def test_every_kind_that_the_wire_knows_is_read() -> None:
    """And reads only metrics that the registry has."""
    names = {metric.name for metric in ENGINE_METRICS}

    assert set(KINDS) == set(ENGINES)
    assert all(set(kind.ways) <= names for kind in KINDS.values())


def test_replicas_of_vllm_add_up_and_their_shares_are_averaged() -> None:
    """Two engines behind one endpoint; requests that were aborted did not end well; names that merely begin alike do not count."""
    told = read("vllm", file("vllm-v1.prom"))

    assert (told["requests_running"], told["requests_waiting"]) == (8, 1)
    assert told["kv_cache_used"] == pytest.approx(0.5)
    assert told["requests_finished_total"] == 2 * (10 + 4)
    assert (told["prompt_tokens_total"], told["generation_tokens_total"], told["preemptions_total"]) == (30000, 10000, 3)
    assert (told["prefix_cache_queries_total"], told["prefix_cache_hits_total"]) == (4000, 1000)
    assert told["ttft_mean_s"] == told["tpot_p95_s"] == "no_previous"
    assert told["batch_size_mean"] == "unsupported"


def test_the_names_of_vllm_before_its_second_engine_are_read_too() -> None:
    """gpu_cache_usage_perc, time_per_output_token; what it does not count is unsupported, not 0."""
    earlier = file("vllm-v0.prom")
    name, labels = "vllm:time_per_output_token_seconds", '{model_name="/models/llama-2-7b"}'
    later = earlier.replace(f"{name}_sum{labels} 12.5", f"{name}_sum{labels} 13.0")
    later = later.replace(f"{name}_count{labels} 10.0", f"{name}_count{labels} 12.0")
    told = read("vllm", later, earlier)

    assert told["kv_cache_used"] == pytest.approx(0.5)
    assert told["requests_finished_total"] == 14
    assert told["prefix_cache_hits_total"] == "unsupported"
    assert told["tpot_mean_s"] == pytest.approx(0.25)
    assert model(VLLM, parsed("vllm", earlier)) == "llama-2-7b"


def test_what_sglang_publishes_is_read_with_colons_and_with_underscores() -> None:
    """The example of its manual, and the same with the prefix of later builds."""
    colons = read("sglang", file("sglang.prom"))
    underscores = read("sglang", file("sglang.prom").replace("sglang:", "sglang_"))

    assert (colons["requests_running"], colons["requests_waiting"]) == (162, 2826)
    assert colons["kv_cache_used"] == pytest.approx(0.28)
    assert colons["prefix_cache_queries_total"] == colons["prompt_tokens_total"] == 8128902
    assert underscores == colons


def test_ranks_and_priorities_of_sglang_are_counted_once() -> None:
    """Ranks of one replica repeat each other, replicas do not; the series without a priority is the whole."""
    told = read(
        "sglang",
        'sglang:num_running_reqs{dp_rank="0",tp_rank="0"} 7\nsglang:num_running_reqs{dp_rank="0",tp_rank="1"} 7\n'
        'sglang:num_running_reqs{dp_rank="1",tp_rank="2"} 5\nsglang:num_running_reqs{dp_rank="1",tp_rank="3"} 5\n'
        'sglang:num_queue_reqs{priority=""} 9\nsglang:num_queue_reqs{priority="-2"} 4\nsglang:num_queue_reqs{priority="0"} 5\n',
    )

    assert told["requests_running"] == 12
    assert told["requests_waiting"] == 9


def test_triton_adds_up_its_models_and_versions() -> None:
    """Means come from counters: microseconds by requests, inferences by executions."""
    line = 'nv_inference_{name}{{model="{model}",version="{version}"}} {value}\n'
    names = ("request_success", "count", "exec_count", "queue_duration_us", "request_duration_us")

    def text(first: tuple[int, ...], second: tuple[int, ...]) -> str:
        return "".join(
            line.format(name=name, model=model, version=version, value=value)
            for model, version, values in (("a", 1, first), ("a", 2, (1, 1, 1, 1, 1)), ("b", 1, second))
            for name, value in zip(names, values, strict=True)
        )

    told = read(
        "triton", text((110, 480, 60, 2_000_000, 9_000_000), (5, 5, 5, 50, 500)), text((10, 80, 10, 0, 0), (5, 5, 5, 50, 500))
    )

    assert told["requests_finished_total"] == 116
    assert told["queue_mean_s"] == pytest.approx(0.02)
    assert told["e2e_mean_s"] == pytest.approx(0.09)
    assert told["batch_size_mean"] == pytest.approx(8)


def test_tensorrt_llm_behind_triton_tells_its_batch_and_its_cache() -> None:
    """The example of the backend's manual; without a waiting count of its own, Triton's pending requests are it."""
    told = read("triton", file("triton-trtllm.prom"), file("triton-trtllm.prom"))

    assert (told["requests_running"], told["requests_waiting"]) == (1, 0)
    assert told["kv_cache_used"] == pytest.approx(1 / 6239)
    assert told["batch_size_mean"] == "not_found"


def test_trtllm_serve_is_read_by_its_own_names() -> None:
    """Requests that were cancelled did not end well."""
    told = read("trtllm", file("trtllm-serve.prom"))

    assert (told["requests_running"], told["requests_waiting"], told["requests_finished_total"]) == (4, 2, 12)
    assert told["kv_cache_used"] == pytest.approx(0.33)
    assert (told["prefix_cache_queries_total"], told["prefix_cache_hits_total"]) == (900, 300)
    assert model(KINDS["trtllm"], parsed("trtllm", file("trtllm-serve.prom"))) == "nemotron-nano-3"


TTFT = "vllm:time_to_first_token_seconds"
BEFORE = {"0.1": 100, "0.5": 200, "1.0": 200, "+Inf": 200}


def test_means_and_quantiles_are_those_of_the_interval() -> None:
    """Twenty new requests: ten within 0.1 s, ten between 0.5 and 1 s. What came before does not count."""
    now = {"0.1": 110, "0.5": 210, "1.0": 220, "+Inf": 220}
    told = read("vllm", histogram(TTFT, now, 50.0), histogram(TTFT, BEFORE, 40.0))

    assert told["ttft_mean_s"] == pytest.approx(0.5)
    assert told["ttft_p95_s"] == pytest.approx(0.5 + 0.5 * 9 / 10)  # the 19th of 20


def test_an_interval_without_a_request_has_no_mean() -> None:
    """Not 0 seconds (V17)."""
    told = read("vllm", histogram(TTFT, BEFORE, 40.0), histogram(TTFT, BEFORE, 40.0))

    assert told["ttft_mean_s"] == told["ttft_p95_s"] == "not_found"


@pytest.mark.parametrize("now", [{"0.1": 3, "0.5": 4, "1.0": 4, "+Inf": 4}, {"0.1": 99, "0.5": 201, "1.0": 210, "+Inf": 210}])
def test_a_counter_that_began_anew_has_no_interval(now: Mapping[str, int]) -> None:
    """The engine was restarted between the scrapes: nothing is known of the time between (V10)."""
    told = read("vllm", histogram(TTFT, now, 41.0), histogram(TTFT, BEFORE, 40.0))

    assert told["ttft_p95_s"] == "no_previous"


def test_a_replica_that_ended_has_no_interval_and_a_new_one_counts_from_nought() -> None:
    """A series that is new was counted since the scrape before; one that is gone took its counts along."""
    one, two = histogram(TTFT, BEFORE, 40.0, ',engine="0"'), histogram(TTFT, {"0.1": 10, "+Inf": 10}, 0.5, ',engine="1"')

    assert read("vllm", one + two, one)["ttft_mean_s"] == pytest.approx(0.05)
    assert read("vllm", one, one + two)["ttft_mean_s"] == "no_previous"


def test_a_quantile_beyond_the_last_bucket_is_not_clipped_to_it() -> None:
    """Most requests of SGLang's published example took longer than its last bound says; how long, nobody knows."""
    told = read("sglang", file("sglang.prom"), "sglang:num_running_reqs 1\n")

    assert told["ttft_p95_s"] == "out_of_range"
    assert told["ttft_mean_s"] == pytest.approx(2.3518979474117756e06 / 11008)
    assert told["tpot_p95_s"] == pytest.approx(0.1 + 0.05 * (0.95 * 7400757 - 4950195) / (7039435 - 4950195))


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("zai-org/GLM-4.5", "GLM-4.5"),
        ("/models/llama-2-7b/", "llama-2-7b"),
        ("s3://bucket/model?X-Amz-Signature=secret", "model"),
        ("hf_secret token", ""),
        ("x" * 97, ""),
    ],
)
def test_a_model_is_named_by_the_last_part_of_its_path(name: str, short: str) -> None:
    """Neither folders nor what may be a secret leave the node."""
    assert model(VLLM, parsed("vllm", f'vllm:num_requests_running{{model_name="{name}"}} 1\n')) == short


def test_several_models_are_named_together() -> None:
    """Three, and how many more."""
    text = "".join(f'nv_inference_count{{model="m{i}",version="1"}} 1\n' for i in range(5))

    assert model(KINDS["triton"], parsed("triton", text)) == "m0, m1, m2 +2"


def test_an_answer_of_something_else_is_known_as_such() -> None:
    """A port may be anybody's."""
    assert not is_of(VLLM, parsed("vllm", "process_cpu_seconds_total 1\nsglang:num_running_reqs 1\n"))
    assert is_of(VLLM, parsed("vllm", histogram(TTFT, BEFORE, 40.0)))


def test_a_number_that_is_none_is_absent() -> None:
    """One replica's NaN does not become a sum."""
    text = 'vllm:num_requests_running{engine="0"} NaN\nvllm:num_requests_running{engine="1"} 1\nvllm:kv_cache_usage_perc 1.7\n'

    assert read("vllm", text)["requests_running"] == "not_a_number"
    assert read("vllm", text)["kv_cache_used"] == "out_of_range"
