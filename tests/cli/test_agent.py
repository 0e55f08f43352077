"""`fettle agent --once`: one tick, with or without a GPU."""

import asyncio
import json
import logging
from pathlib import Path

import pytest

from agents import drivers, once
from agents.config import AgentConfig
from agents.nvml_device import NvmlDriver
from cli.__main__ import main
from tests.agents.exporter import exporter
from tests.agents.fake_nvml import FakeNvml
from wire.metrics import REASONS, sent


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A short interval between the two samples."""
    monkeypatch.setattr(once, "INTERVAL_S", 0.05)


def test_a_machine_without_gpus_prints_its_host_and_says_why(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 0: no GPU is a fact, not a failure."""
    nvml = FakeNvml()
    nvml.init_error = 12
    monkeypatch.setattr(drivers, "of_this_machine", lambda: NvmlDriver(nvml))
    code = main(["agent", "--once", "--json", "--node", "n"])
    found = json.loads(capsys.readouterr().out)

    assert code == 0
    assert (found["node"], found["gpus"]) == ("n", [])
    assert found["gpus_state"].startswith("no_library: ")
    assert "container" in found["gpus_state"]
    assert found["host"]["mem_used_bytes"] > 0


def test_every_metric_is_a_value_or_has_a_reason(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """On an H200: all of the registry, nothing made up."""
    nvml = FakeNvml()
    nvml.gpus[0]["fields"]["82"] = {"error": 3}
    monkeypatch.setattr(drivers, "of_this_machine", lambda: NvmlDriver(nvml))
    assert main(["agent", "--once", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    names = {metric.name for metric in sent("gpu")}
    first, second = found["gpus"]

    assert found["gpus_state"] == "ok"
    assert first["uuid"] == nvml.gpus[0]["uuid"]
    before_ampere = {"retired_pages_pending": "unsupported"}
    assert first["absent"] == {"memory_temperature_c": "unsupported"} | before_ampere
    assert {name for name in first if name in names} | set(first["absent"]) == names
    assert second["absent"] == before_ampere
    assert set(found["host"]["absent"].values()) <= set(REASONS)
    (process,) = found["processes"]
    assert process["gpus"] == {first["uuid"]: 1858076672}
    assert set(process["absent"].values()) <= set(REASONS)


def test_the_plain_form_is_for_people(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A line a reading."""
    monkeypatch.setattr(drivers, "of_this_machine", lambda: NvmlDriver(FakeNvml()))
    assert main(["agent", "--once"]) == 0
    said = capsys.readouterr().out

    assert "GPU 1 NVIDIA H200" in said
    assert "  power_w 142.7" in said


def test_names_of_strangers_move_no_cursor() -> None:
    """A process may call itself anything; its name stays in its line."""
    entry = {"pid": 7, "name": "\x1b[2J\nGPU 0 is fine", "absent": {}}
    said = once._lines({"node": "n", "gpus_state": "ok", "host": {"absent": {}}, "gpus": [], "processes": [entry], "engines": []})

    assert "process 7 \\u001b[2J\\nGPU 0 is fine" in said
    assert "\x1b" not in said


def test_it_reads_the_proc_that_it_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The root is a setting: a container may mount the host's elsewhere."""
    monkeypatch.setattr(drivers, "of_this_machine", lambda: NvmlDriver(FakeNvml()))
    found = asyncio.run(once._read(AgentConfig(node="n", proc=tmp_path)))

    assert found["host"]["absent"]["mem_used_bytes"] == "unsupported"
    logging.getLogger("agents").handlers.clear()


def test_the_gpus_may_be_read_from_an_exporter(capsys: pytest.CaptureFixture[str]) -> None:
    """The settings choose the source; everything else of a tick is as ever."""
    with exporter() as stub:
        stub.serve("dcgm-exporter-4.5.prom")
        code = main(["agent", "--once", "--json", "--source", "dcgm", "--dcgm", stub.url])
    found = json.loads(capsys.readouterr().out)

    assert code == 0
    assert found["gpus_state"] == "ok"
    assert [gpu["mem_used_bytes"] for gpu in found["gpus"]] == [68124 << 20, 0]
    assert found["gpus"][0]["absent"]["processes"] == "unsupported"
    assert found["host"]["mem_used_bytes"] > 0


def test_serving_engines_are_shown_with_the_rest(capsys: pytest.CaptureFixture[str]) -> None:
    """Their answers are waited for; in lines for a person an engine without a pid is named by its address."""
    with exporter() as stub:
        stub.serve("vllm-v1.prom")
        words = ["agent", "--once", "--source", "dcgm", "--dcgm", stub.url, "--engines", f"vllm={stub.url}", "--no-find-engines"]
        assert main([*words, "--json"]) == 0
        (engine,) = json.loads(capsys.readouterr().out)["engines"]
        assert main(words) == 0
        lines = capsys.readouterr().out.splitlines()

    assert (engine["kind"], engine["model"], engine["requests_running"]) == ("vllm", "GLM-4.5", 8)
    assert engine["absent"]["ttft_mean_s"] == "no_previous"
    assert f"engine http://127.0.0.1:{stub.port}" in lines
