"""The doctor: what is wrong is said with what to do, whatever else works; it takes no lock and sends no data."""

import asyncio
import json
import time
from email.utils import formatdate
from pathlib import Path

import pytest
from msgspec import structs

from agents import doctor, doctor_server, doctor_system, drivers
from agents.config import AgentConfig
from agents.doctor import Check, Report
from agents.nvml_device import NvmlDriver
from agents.spool import Spool
from cli.__main__ import main
from tests.agents.exporter import exporter, free_port
from tests.agents.fake_nvml import FakeNvml
from tests.agents.server import TOKEN, odd_server, running
from wire.metrics import REASONS


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    """Two H200, and a short interval between the two samples."""
    monkeypatch.setattr(doctor, "INTERVAL_S", 0.05)
    fake = FakeNvml()
    monkeypatch.setattr(drivers, "of_this_machine", lambda: NvmlDriver(fake))
    return fake


@pytest.fixture
def config(tmp_path: Path) -> AgentConfig:
    """Settings that touch nothing but `tmp_path`."""
    return AgentConfig(node="n", run_dir=tmp_path / "run", spool=tmp_path / "spool", find_engines=False)


def named(report: Report, name: str) -> Check:
    """The one check of this name."""
    (found,) = [check for check in report.checks if check.name == name]
    return found


def test_every_reason_has_a_remedy() -> None:
    """A reading is never absent without words for it."""
    assert set(doctor.REMEDIES) == set(REASONS)


async def test_it_tells_the_gpus_their_readings_and_what_each_collector_costs(nvml: FakeNvml, config: AgentConfig) -> None:
    """On a node that is well."""
    report = await doctor.examine(config)

    assert named(report, "driver").text == "version 580.159.04, CUDA 13.0, 2 GPUs"
    assert named(report, "GPU 0: readings").level == "ok"
    assert {"first tick", "a tick", "host", "one process"} == set(report.seconds)
    assert all(0 < seconds < 30 for seconds in report.seconds.values())


async def test_means_are_read_without_a_gpu_too(config: AgentConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A quick look at a node without a driver has time for two samples as well."""
    nvml = FakeNvml()
    nvml.init_error = 12
    monkeypatch.setattr(drivers, "of_this_machine", lambda: NvmlDriver(nvml))
    monkeypatch.setattr(doctor, "INTERVAL_S", 0.2)
    report = await doctor.examine(config)

    assert "no_previous" not in report.absent["host"]


async def test_names_of_strangers_move_no_cursor(config: AgentConfig) -> None:
    """A path, a name or an answer with an escape sequence is written out."""
    report = Report("n", False, [Check("engine \x1b[2J", "note", "a\nb", "\x07")], {}, {})
    assert "engine \\u001b[2J: a\\nb" in doctor.text(report)
    assert "\x07" not in doctor.text(report)


async def test_absent_metrics_stand_under_their_reason_with_what_to_do(nvml: FakeNvml, config: AgentConfig) -> None:
    """What the driver refuses is wrong, a field that the card does not have is not."""
    nvml.gpus[0]["fields"]["82"] = {"error": 3}
    nvml.gpus[1]["fields"]["82"] = {"error": 999}
    report = await doctor.examine(config)

    assert "memory_temperature_c" in report.absent["GPU 0"]["unsupported"]
    assert named(report, "GPU 0: absent, unsupported").level == "note"
    assert named(report, "GPU 1: absent, driver_error").level == "wrong"
    assert not report.ok


async def test_a_gpu_that_fell_off_the_bus_is_wrong_though_the_driver_no_longer_lists_it(
    nvml: FakeNvml, config: AgentConfig
) -> None:
    """It has no readings to be absent."""
    nvml.fail(1, 15)
    report = await doctor.examine(config)

    assert named(report, "driver").text.endswith("1 GPU")
    assert named(report, "event").level == "wrong"
    assert not report.ok


async def test_counters_that_are_kept_to_administrators_name_the_drivers_option(nvml: FakeNvml, config: AgentConfig) -> None:
    """That is the remedy that people look for."""
    for gpu in nvml.gpus:
        gpu["gpm_error"] = 4
    report = await doctor.examine(config)
    found = named(report, "GPU 0: absent, not_permitted")

    assert found.level == "wrong"
    assert "NVreg_RestrictProfilingToAdminUsers=0" in found.remedy


def test_without_a_driver_the_exit_code_is_1_and_the_text_says_what_to_install(
    nvml: FakeNvml, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As text and as JSON."""
    nvml.init_error = 12
    words = ["agent", "doctor", "--node", "n", "--no-find-engines", "--run-dir", str(tmp_path)]
    assert main(words) == 1
    told = capsys.readouterr().out
    assert main([*words, "--json"]) == 1
    report = json.loads(capsys.readouterr().out)

    assert "WRONG  driver: no_library" in told
    assert "install the NVIDIA driver" in told
    assert not report["ok"]
    assert next(check for check in report["checks"] if check["name"] == "driver")["level"] == "wrong"


async def test_the_server_is_reached_and_takes_the_token_and_hears_no_data(config: AgentConfig, tmp_path: Path) -> None:
    """A wrong token, a wrong address and a server that is not there are three sentences."""
    token = tmp_path / "token"
    token.write_text(TOKEN)
    token.chmod(0o644)
    async with running() as server:
        wanted = AgentConfig(node="n", server=server.url, token_file=token)
        good = {name: (level, text) for name, level, text, _ in await doctor_server.server(wanted)}
        token.write_text("another")
        token.chmod(0o600)
        bad = {name: (level, remedy) for name, level, _, remedy in await doctor_server.server(wanted)}
        frames = server.frames
    gone = {name: (level, text) for name, level, text, _ in await doctor_server.server(wanted)}

    assert good["server"][0] == "ok"
    assert good["token file"][0] == "wrong"
    assert frames == []
    assert bad["token"] == ("wrong", "On the server: `manage.py agent_token n`, then put the token into the token file.")
    assert bad["token file"][0] == "ok"
    assert gone["server"][0] == "wrong"
    assert "cannot be reached" in gone["server"][1]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (
            b"HTTP/1.1 302 Found\r\nLocation: ws://login.example:99999/?session=1\r\n\r\n",
            "it redirects to login.example, which is not",
        ),
        (b"HTTP/1.1 302 Found\r\nLocation: /a\r\nLocation: /b\r\n\r\n", "several places"),
        (b"HTTP/1.1 500 No\r\nDate: one\r\nDate: two\r\n\r\n", "HTTP status 500"),
        (b"HTTP/1.1 500 No\r\nDate: Mon, 01 Jan 99999 00:00:00 +9999999999\r\n\r\n", "HTTP status 500"),
        (b"\x1b\xff", "cannot be reached"),
    ],
)
async def test_whatever_answers_in_the_servers_place_is_told(tmp_path: Path, answer: bytes, said: str) -> None:
    """A redirect is not followed, and names the other host alone; nothing that is answered is a traceback."""
    token = tmp_path / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    with odd_server(answer) as odd:
        found = await doctor_server.server(AgentConfig(node="n", server=odd.url, token_file=token))
    (of_server,) = [one for one in found if one[0] == "server"]

    assert of_server[1] == "wrong"
    assert said in of_server[2]
    assert "session" not in of_server[2]


@pytest.mark.parametrize(
    ("seconds", "level", "words"),
    [
        (0, "ok", "within 5 s"),
        (-3, "ok", "within"),
        (50, "wrong", "ahead of"),
        (120, "wrong", "ahead of"),
        (-120, "wrong", "behind"),
        (-3 * 86_400, "wrong", "behind"),
    ],
)
async def test_a_clock_that_differs_from_the_servers_is_told(tmp_path: Path, seconds: float, level: str, words: str) -> None:
    """By the Date of the server's answer, which is in whole seconds."""
    token = tmp_path / "token"
    token.write_text(TOKEN)
    async with running() as server:
        wanted = AgentConfig(node="n", server=server.url, token_file=token)
        found = await doctor_server.server(wanted, lambda: time.time() + seconds)
    (clock,) = [one for one in found if one[0] == "clock"]

    assert clock[1] == level
    assert words in clock[2]
    assert ("bad_time" in clock[3]) == (seconds in (120, -3 * 86_400))  # what it costs, where it costs samples
    assert formatdate(usegmt=True)


def test_a_spool_that_cannot_be_used_is_told_and_one_in_use_is_not_disturbed(config: AgentConfig, tmp_path: Path) -> None:
    """The agent that runs holds its lock; the doctor looks without it."""
    assert config.spool is not None
    spool = Spool(config.spool / "n")
    (found,) = doctor_system.spool(config)
    spool.close()
    (tmp_path / "file").touch()
    (wrong,) = doctor_system.spool(AgentConfig(node="n", spool=tmp_path / "file"))

    assert found[1] == "ok"
    assert (wrong[1], wrong[2]) == ("wrong", f"{tmp_path / 'file'} is no folder")


async def test_a_collector_for_otlp_that_does_not_listen_is_told() -> None:
    """And one is not spoken of where none is set."""
    (found,) = await asyncio.to_thread(doctor_server.otlp, AgentConfig(otlp="http://127.0.0.1:9"))

    assert found[1] == "wrong"
    assert doctor_server.otlp(AgentConfig()) == []


async def test_an_exporter_that_does_not_answer_is_no_gpu_that_is_lost(
    config: AgentConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is wrong with an exporter is said in words of exporters: neither a lost GPU nor the driver's log."""
    monkeypatch.setattr(doctor, "INTERVAL_S", 0.7)  # an event is waited for for half a second
    nobody = f"http://127.0.0.1:{free_port()}/metrics"
    with exporter() as stub:
        stub.serve("dcgm-exporter-4.5.prom")
        both = await doctor.examine(structs.replace(config, source="dcgm", dcgm=(stub.url, nobody)))
    none = await doctor.examine(structs.replace(config, source="dcgm", dcgm=(nobody,)))

    assert named(both, "exporter").text == f"A dcgm-exporter is not read: Nobody listens at {nobody}."
    assert "counters file" in named(both, "GPU 0: absent, unsupported").remedy
    assert named(none, "driver").text.startswith("no_exporter: ")
    assert not [check for report in (both, none) for check in report.checks if check.name == "event" or "XID" in check.remedy]


async def test_engines_that_are_left_out_are_told_of(config: AgentConfig, nvml: FakeNvml) -> None:
    """An agent asks 32; which are not asked is said with what to do."""
    report = await doctor.examine(
        structs.replace(config, engines=tuple(f"vllm=http://127.0.0.1:{port}" for port in range(1, 34)))
    )

    assert named(report, "engines").level == "note"
    assert "1 more are left out now (http://127.0.0.1:33)" in named(report, "engines").text
    assert named(report, "engines").remedy
