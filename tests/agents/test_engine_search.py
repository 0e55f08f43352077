"""Serving engines found by their command lines, in a /proc of our own."""

import os
from pathlib import Path

import pytest

from agents import engine_search
from agents.engine_search import Found, Search, engine, is_of_this_machine


@pytest.mark.parametrize(
    ("line", "kind", "url"),
    [
        ("/usr/bin/python3 /usr/local/bin/vllm serve meta-llama/Llama-3.1-8B", "vllm", "http://127.0.0.1:8000/metrics"),
        ("vllm serve m --host 0.0.0.0 --port 9001 --api-key secret", "vllm", "http://127.0.0.1:9001/metrics"),
        ("vllm serve m --port=9002 --ssl-certfile=c.pem", "vllm", "https://127.0.0.1:9002/metrics"),
        ("python -m vllm.entrypoints.openai.api_server --model m --host ::1", "vllm", "http://[::1]:8000/metrics"),
        ("python -u -m sglang.launch_server --model-path m", "sglang", "http://127.0.0.1:30000/metrics"),
        ("sglang serve --model-path m --port 31000 --host localhost", "sglang", "http://127.0.0.1:31000/metrics"),
        ("/opt/tritonserver/bin/tritonserver --model-repository=/m", "triton", "http://127.0.0.1:8002/metrics"),
        ("tritonserver --metrics-port 9005 --http-port 9000", "triton", "http://127.0.0.1:9005/metrics"),
        ("tritonserver --http-address=10.0.0.5", "triton", "http://10.0.0.5:8002/metrics"),
        ("python3 /usr/local/bin/trtllm-serve m --host 0.0.0.0", "trtllm", "http://127.0.0.1:8000/prometheus/metrics"),
        ("trtllm-serve serve m --port 8100", "trtllm", "http://127.0.0.1:8100/prometheus/metrics"),
    ],
)
def test_a_command_line_tells_where_its_engine_serves(line: str, kind: str, url: str) -> None:
    """The port of its flags, or the engine's default; what listens everywhere is asked on loopback."""
    found = engine(line.split())

    assert found is not None
    assert (found[0], found[1].url) == (kind, url)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "vllm bench serve --port 8000",
        "vllm serve m --headless",
        "vllm serve m --uds /run/vllm.sock",
        "vllm serve m --port nonsense",
        "vllm serve m --port 99999",
        "tritonserver --allow-metrics=false",
        "python train.py --engine vllm serve",
        "vim vllm.py",
        "python -m vllm.something",
        "VLLM::EngineCore",
        "grep tritonserver.log",
    ],
)
def test_other_command_lines_are_no_engine(line: str) -> None:
    """Neither a client, nor a part of an engine that serves nothing, nor one that cannot be asked."""
    assert engine(line.split()) is None


def process(proc: Path, pid: int, line: str, network: str | None = None) -> None:
    """A process with a command line, in a network namespace where one is named."""
    (proc / str(pid)).mkdir()
    (proc / str(pid) / "cmdline").write_bytes(line.replace(" ", "\0").encode() + b"\0")
    if network is not None:
        (proc / str(pid) / "ns").mkdir()
        os.symlink(network, proc / str(pid) / "ns" / "net")


def found(proc: Path) -> list[tuple[str, str, int | None]]:
    """What a search finds: kind, where it is asked, pid."""
    search = Search(proc, is_ours=lambda host: host == "127.0.0.1")
    search.run()
    return [(one.kind, one.targets[0].origin, one.pid) for one in search.found]


def test_a_search_finds_each_engine_once(tmp_path: Path) -> None:
    """Children of an engine bear its command line; the oldest process of an address stands for it."""
    process(tmp_path, 30, "python -m sglang.launch_server --port 31000")
    process(tmp_path, 21, "python -m sglang.launch_server --port 31000")
    process(tmp_path, 40, "python train.py")
    process(tmp_path, 50, "vllm serve m")
    (tmp_path / "60").mkdir()  # it ends while it is looked at
    (tmp_path / "uptime").write_text("1")

    assert found(tmp_path) == [("sglang", "http://127.0.0.1:31000", 21), ("vllm", "http://127.0.0.1:8000", 50)]


def test_an_engine_in_another_network_or_at_another_machines_address_is_not_asked(tmp_path: Path) -> None:
    """A container's port is not ours, and nobody's command line sends the agent to ask elsewhere."""
    (tmp_path / "self" / "ns").mkdir(parents=True)
    os.symlink("net:[1]", tmp_path / "self" / "ns" / "net")
    process(tmp_path, 1, "vllm serve m --port 9001", "net:[1]")
    process(tmp_path, 2, "vllm serve m --port 9002", "net:[2]")
    process(tmp_path, 3, "vllm serve m --port 80 --host 169.254.169.254", "net:[1]")

    assert found(tmp_path) == [("vllm", "http://127.0.0.1:9001", 1)]


def test_only_addresses_of_this_machine_are_its_own() -> None:
    """Names are not looked up: a look-up may hang, and may lead anywhere."""
    assert is_of_this_machine("127.0.0.1")
    assert not is_of_this_machine("192.0.2.1")
    assert not is_of_this_machine("example.org")
    assert not is_of_this_machine("localhost")


def test_a_search_that_fails_is_tried_again_and_a_missing_proc_finds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It runs in a thread that nobody watches."""
    search = Search(tmp_path / "nowhere")
    search.run()
    assert search.found == []

    def broken(proc: str, is_ours: object) -> list[Found]:
        raise RuntimeError("boom")

    monkeypatch.setattr(engine_search, "search", broken)
    search.run()
    assert "tried again" in caplog.text
