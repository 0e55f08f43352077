"""The autoscaling examples: taken by Kubernetes and KEDA, the rule's own text, and queries that a Prometheus answers rightly."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from advisor import autoscaling
from advisor.rule import load
from agents.engine_metrics import KINDS
from agents.engine_readings import answer, readings
from agents.samples import Parser
from agents.source import ENGINE
from tests.deploy.conftest import ROOT
from tests.deploy.kubernetes_schema import wrong

HERE: Final = ROOT / "deploy" / "kubernetes" / "autoscaling"
ANSWERS: Final = ROOT / "tests" / "device_answers" / "prometheus"
FILES: Final = {"vllm": ["vllm-v0", "vllm-v1"], "sglang": ["sglang"]}


def manifests(name: str) -> list[dict[str, Any]]:
    """Of an example."""
    return list(yaml.safe_load_all((HERE / name).read_text()))


@pytest.mark.parametrize("path", sorted(HERE.glob("*.yaml")), ids=lambda path: path.name)
def test_kubernetes_and_keda_take_each_example(path: Path) -> None:
    """Each field is one of theirs, of its kind."""
    assert [place for one in manifests(path.name) for place in wrong(one)] == []


@pytest.mark.parametrize(
    ("right", "broken"),
    [("scaleTargetRef:", "scaleTarget:"), ("minReplicaCount: 1", "minReplicas: 1"), ('threshold: "2"', "threshold: 2")],
)
def test_what_keda_does_not_take_is_seen(right: str, broken: str) -> None:
    """A field of the HPA's, a misspelt one, a number where KEDA has text."""
    text = (HERE / "keda-vllm.yaml").read_text()

    assert right in text
    assert wrong(yaml.safe_load(text.replace(right, broken))) != []


@pytest.mark.parametrize("kind", sorted(autoscaling.QUERIES))
def test_the_examples_are_what_the_rule_says(kind: str) -> None:
    """One text, for the engine at hand."""
    rule = next(rule for rule in load() if rule.id == "autoscale-wrong-signal")
    said = [step.text.replace("{{", "{").replace("}}", "}") for step in rule.change]
    text = (HERE / f"keda-{kind}.yaml").read_text().partition("\n")[2].rstrip("\n")

    assert text == autoscaling.scaled_object(kind).rstrip("\n")
    assert text in said
    assert set(autoscaling.QUERIES) == set(KINDS)


@pytest.mark.parametrize("kind", sorted(autoscaling.QUERIES))
def test_the_queries_ask_for_what_the_engines_tell(kind: str) -> None:
    """Every name in them is one that is read of this engine."""
    known = KINDS[kind].starts
    for query, _ in autoscaling.QUERIES[kind].values():
        names = set(re.findall(r"\b((?:vllm|sglang|trtllm|nv)[:_]\w+)", query))

        assert names
        assert names - {"nv_inference_request_duration_us"} <= set(known), query


def asked(tmp_path: Path, series: list[dict[str, str]], cases: list[tuple[str, float]]) -> str:
    """What promtool says of the expressions after a minute; empty where each has its value."""
    test = {
        "evaluation_interval": "15s",
        "tests": [
            {
                "interval": "15s",
                "input_series": series,
                "promql_expr_test": [
                    {"expr": query, "eval_time": "2m", "exp_samples": [{"labels": "{}", "value": value}]}
                    for query, value in cases
                ],
            }
        ],
    }
    (tmp_path / "test.yaml").write_text(json.dumps(test))
    ran = subprocess.run(["promtool", "test", "rules", str(tmp_path / "test.yaml")], capture_output=True, text=True, timeout=60)
    return "" if ran.returncode == 0 else ran.stdout + ran.stderr


@pytest.mark.parametrize(("kind", "file"), [(kind, file) for kind, files in FILES.items() for file in files])
def test_a_prometheus_that_scrapes_the_engines_answers_the_queries(kind: str, file: str, tmp_path: Path) -> None:
    """Two replicas that answer as the recorded engine did make twice what the agent reads of one."""
    body = (ANSWERS / f"{file}.prom").read_bytes()
    found = answer(Parser(KINDS[kind].starts).read(body).samples, 0.0)
    read = dict(zip(ENGINE, readings(KINDS[kind], None, found)[0], strict=True))
    series = [
        {"series": f'{name}{{{labels + "," if labels else ""}namespace="serving",pod="{pod}"}}', "values": f"{value}x12"}
        for name, labels, value in re.findall(r"^([A-Za-z_:]\w[\w:]*)(?:\{(.*)\})? ([0-9.e+-]+)$", body.decode(), re.M)
        for pod in ("a", "b")
    ]
    waiting, running, cache = (read[name] for name in ("requests_waiting", "requests_running", "kv_cache_used"))
    values = {
        "waiting": waiting,
        "in-flight": None if waiting is None or running is None else waiting + running,
        "kv-cache": cache,
    }
    cases = [(query, 2 * told) for name, (query, _) in autoscaling.QUERIES[kind].items() if (told := values[name]) is not None]

    assert len(cases) == 3
    assert asked(tmp_path, series, cases) == ""


def test_the_queries_of_triton_and_tensorrt_llm_count_what_waits_and_what_is_in_flight(tmp_path: Path) -> None:
    """Of Triton's counters by Little's law: six requests of 10 s each in a minute are one in flight."""
    here = 'namespace="serving",pod="a"'
    triton = autoscaling.QUERIES["triton"]
    trtllm = autoscaling.QUERIES["trtllm"]
    series = [
        {"series": f'nv_inference_pending_request_count{{model="m",{here}}}', "values": "7x12"},
        {"series": f'nv_inference_request_duration_us{{model="m",{here}}}', "values": "0+15000000x12"},
        {"series": f"trtllm_num_requests_waiting{{{here}}}", "values": "3x12"},
        {"series": f"trtllm_num_active_requests{{{here}}}", "values": "5x12"},
        {"series": f"trtllm_kv_cache_utilization{{{here}}}", "values": "0.5x12"},
    ]
    cases = [
        (triton["waiting"][0], 7.0), (triton["in-flight"][0], 1.0),
        (trtllm["waiting"][0], 3.0), (trtllm["in-flight"][0], 8.0), (trtllm["kv-cache"][0], 0.5),
    ]  # fmt: skip

    assert asked(tmp_path, series, cases) == ""
    assert asked(tmp_path, series, [(triton["waiting"][0], 8.0)]) != ""


def test_a_cache_that_two_names_tell_of_is_counted_once(tmp_path: Path) -> None:
    """vLLM told both names for some releases; replicas of either release count."""
    series = [
        {"series": f'vllm:{name}_usage_perc{{namespace="serving",pod="{pod}"}}', "values": "0.4x12"}
        for name, pod in (("kv_cache", "a"), ("gpu_cache", "a"), ("gpu_cache", "b"))
    ]

    assert asked(tmp_path, series, [(autoscaling.QUERIES["vllm"]["kv-cache"][0], 0.8)]) == ""


def test_the_adapter_gives_the_metrics_that_the_hpa_asks_for(tmp_path: Path) -> None:
    """Each by its name, and its query is answered for a pod."""
    hpa, adapter = manifests("hpa-vllm.yaml")
    rules = {rule["name"]["as"]: rule["metricsQuery"] for rule in yaml.safe_load(adapter["data"]["config.yaml"])["rules"]}
    wanted = {metric["pods"]["metric"]["name"] for metric in hpa["spec"]["metrics"]}
    series = [
        {"series": f'vllm:{name}{{namespace="serving",pod="a"}}', "values": f"{value}x12"}
        for name, value in (("num_requests_waiting", 3), ("num_requests_running", 20), ("kv_cache_usage_perc", 0.25))
    ]
    queries = {
        name: query.replace("<<.LabelMatchers>>", 'namespace="serving",pod="a"').replace(" by (<<.GroupBy>>)", "")
        for name, query in rules.items()
    }

    assert wanted == set(rules)
    expected = [("vllm_num_requests_waiting", 3.0), ("vllm_num_requests_in_flight", 23.0), ("vllm_kv_cache_usage_perc", 0.25)]
    assert asked(tmp_path, series, [(queries[name], value) for name, value in expected]) == ""
