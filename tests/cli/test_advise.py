"""`fettle advise`: its JSON, its text, and how it refuses what is no recording."""

import gzip
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from advisor.finding import Evidence
from advisor.names import FEATURES
from advisor.rule import load
from cli.__main__ import main
from cli.advise import _evidence
from tests.advisor.profiles.traces import ADD, CPU_ALONE, called, kernel, operator, write

RECORDINGS = Path(__file__).resolve().parent.parent.parent / "recordings"
LINES = gzip.decompress((RECORDINGS / "bf16_train.jsonl.gz").read_bytes()).decode().splitlines()


def advise(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """The exit code, what was printed and what went to standard error."""
    code = main(["advise", *map(str, arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def changed(tmp_path: Path, line: int, change: Callable[[dict[str, Any]], object]) -> Path:
    """A plain recording with one line changed."""
    lines = list(LINES)
    content = json.loads(lines[line - 1])
    change(content)
    lines[line - 1] = json.dumps(content)
    path = tmp_path / "changed.jsonl"
    path.write_text("\n".join(lines))
    return path


def test_it_prints_one_json_object(capsys: pytest.CaptureFixture[str]) -> None:
    """The fixed names are there, and findings come strongest first."""
    code, out, err = advise(capsys, RECORDINGS / "near_oom.jsonl.gz", "--json")
    said = json.loads(out)

    assert (code, err) == (0, "")
    assert said["bottleneck"] == "launch"
    assert sum(said["shares"].values()) == pytest.approx(1, abs=1e-3)
    assert {"confidence", "recording", "window_s", "not_evaluated"} <= set(said)
    assert [finding["rule"] for finding in said["findings"]] == ["launch-bound-small-kernels", "memory-nearly-full"]
    launch = said["findings"][0]
    assert {"rule", "severity", "scope", "evidence", "change", "expected_gain", "risk", "rollback", "verify"} <= set(launch)
    assert all(set(step) == {"kind", "text"} for step in launch["change"])
    assert set(launch["expected_gain"]) == {"low", "high", "basis"}
    assert all({"name", "value", "unit", "threshold", "comparison"} == set(line) for line in launch["evidence"])


def test_it_says_what_findings_cost_at_a_price(capsys: pytest.CaptureFixture[str]) -> None:
    """GPU-hours a day without a price; with one the money too, in the text and in the object."""
    file = RECORDINGS / "near_oom.jsonl.gz"
    plain, priced = advise(capsys, file)[1], advise(capsys, file, "--price", "2.5", "--currency", "EUR")[1]
    said = json.loads(advise(capsys, file, "--json", "--price", "2.5")[1])
    first = said["findings"][0]

    assert re.search(r"   Costs: [\d.]+ GPU-hours a day, while it runs\n", plain)
    assert re.search(r"   Costs: [\d.]+ GPU-hours a day, [\d.]+ EUR at 2\.50 EUR a GPU-hour, while it runs\n", priced)
    assert first["gpu_hours_a_day"] == pytest.approx(first["recoverable"] * 24, abs=0.001)
    assert (first["gpus"], first["cost_a_day"]) == (1, pytest.approx(first["gpu_hours_a_day"] * 2.5))
    assert said["currency"] == "USD"
    assert json.loads(advise(capsys, file, "--json")[1])["findings"][0]["cost_a_day"] is None


def test_it_says_which_part_was_judged(capsys: pytest.CaptureFixture[str]) -> None:
    """Since when what it says holds: seconds of the recording, after start-up and warm-up."""
    said = json.loads(advise(capsys, RECORDINGS / "near_oom.jsonl.gz", "--json")[1])
    text = advise(capsys, RECORDINGS / "near_oom.jsonl.gz")[1]

    assert said["from_s"] > 0
    until = said["from_s"] + said["window_s"]
    assert f"  judged from second {said['from_s']:.0f} to second {until:.0f} of the recording\n" in text


@pytest.mark.parametrize("price", ["-1", "nan", "cheap", "1e-9", "1e7", "inf"])
def test_it_refuses_what_is_no_price(capsys: pytest.CaptureFixture[str], price: str) -> None:
    """With the value in the message."""
    with pytest.raises(SystemExit):
        advise(capsys, RECORDINGS / "near_oom.jsonl.gz", "--price", price)

    assert f"'{price}' is not a price" in capsys.readouterr().err


@pytest.mark.parametrize("currency", ["", "  ", "x" * 13, "x" * 100_000, "a\x1b[2J"])
def test_it_refuses_what_is_no_currency(capsys: pytest.CaptureFixture[str], currency: str) -> None:
    """A sentence, short whatever was typed; exit code 2 of argparse."""
    with pytest.raises(SystemExit):
        advise(capsys, RECORDINGS / "near_oom.jsonl.gz", "--price", "2", "--currency", currency)
    said = capsys.readouterr().err

    assert "is not a currency: write 1 to 12 characters" in said
    assert len(said) < 1500


def test_a_recording_of_a_recorder_that_was_killed_is_judged_up_to_where_it_breaks_off(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """As the whole one is, and one sentence on standard error names the line."""
    whole = gzip.decompress((RECORDINGS / "fp32_train.jsonl.gz").read_bytes())
    cut = tmp_path / "fp32_train.jsonl"
    cut.write_bytes(whole[:-40])
    code, out, err = advise(capsys, cut, "--json")
    known = json.loads(advise(capsys, RECORDINGS / "fp32_train.jsonl.gz", "--json")[1])

    assert code == 0
    assert (
        err == f"fettle advise: {cut} breaks off in line {whole.count(10)}, as of a recorder that was killed: "
        "that line was cut, those before it are judged.\n"
    )
    assert json.loads(out)["bottleneck"] == known["bottleneck"]


def test_it_prints_text_that_a_person_can_follow(capsys: pytest.CaptureFixture[str]) -> None:
    """Bottleneck with bars, each finding with its numbers, change, gain and risk."""
    code, out, _err = advise(capsys, RECORDINGS / "fp32_train.jsonl.gz")

    assert code == 0
    assert out.startswith("fp32_train: bottleneck compute (high confidence")
    assert "#####" in out
    assert "fp32-without-tensor-cores" in out
    assert "   Measured:\n     FP32 pipe active while busy: 66 % (at least 20 %)\n" in out
    assert 'torch.set_float32_matmul_precision("high")' in out
    assert "Gain: 1.5 to 8 times" in out
    assert "Risk: " in out


def test_its_json_keeps_the_names_and_values_that_programs_read(capsys: pytest.CaptureFixture[str]) -> None:
    """Words and units are for people; the object has features, ratios and bytes."""
    said = json.loads(advise(capsys, RECORDINGS / "h2d_pageable.jsonl.gz", "--json")[1])
    (finding,) = [one for one in said["findings"] if one["rule"] == "h2d-unpinned-copy"]
    evidence = {line["name"]: line for line in finding["evidence"]}

    assert evidence["share_copy"]["unit"] == "ratio"
    assert 0.35 < evidence["share_copy"]["value"] < 1
    assert evidence["pcie_rx_bytes_per_s"]["value"] > 1e9


@pytest.mark.parametrize(
    ("evidence", "said"),
    [
        (Evidence("share_launch", 0.6788, "ratio", 0.35, ">="), "Time lost to kernel launches: 68 % (at least 35 %)"),
        (Evidence("busy", 0.00025, "ratio", 0.005, "<"), "Time with work on the compute engine: 0.025 % (below 0.5 %)"),
        (Evidence("held_bytes", 64 * 2**30, "bytes"), "Device memory held: 64 GiB"),
        (Evidence("disk_read_each_bytes", 20480.0, "bytes", 65536.0, "<"), "Mean size of a read: 20 KiB (below 64 KiB)"),
        (Evidence("pcie_rx_bytes_per_s", 18.47e9, "bytes_per_second"), "PCIe from host: 18 GB/s"),
        (Evidence("pcie_rx_bytes_per_s", 6626.0, "bytes_per_second"), "PCIe from host: 6.6 kB/s"),
        (Evidence("pcie_rx_bytes_per_s", 0.0, "bytes_per_second"), "PCIe from host: 0 B/s"),
        (Evidence("seconds_to_full", 42.06, "seconds", 1800.0, "<"), "Time until the memory is full: 42 s (below 30 min)"),
        (Evidence("seconds_to_full", 70_000.0, "seconds"), "Time until the memory is full: 19 h"),
        (Evidence("working_gpus", 0.0, "gpus", 0.0, "="), "GPUs that work: 0 (exactly 0)"),
        (Evidence("sm_clock_p95_mhz", 1395.0, "megahertz"), "SM clock reached: 1,395 MHz"),
        (Evidence("remap_failed", 1.0, "flag", 1.0, ">="), "Row remap failed: yes"),
        (Evidence("a_new_feature", None, "ratio"), "a new feature: unknown"),
    ],
)
def test_it_writes_readings_as_people_do(evidence: Evidence, said: str) -> None:
    """Plain names, percent, units that suit the size, and the threshold in words."""
    assert _evidence(evidence) == said


def test_every_feature_that_a_rule_shows_has_a_plain_name() -> None:
    """No slug reaches a reader."""
    assert {show.feature for rule in load() for show in rule.evidence} <= set(FEATURES)


def test_it_names_bottlenecks_in_plain_words(capsys: pytest.CaptureFixture[str]) -> None:
    """In text; the JSON has the slug."""
    assert advise(capsys, RECORDINGS / "decode_b1.jsonl.gz")[1].startswith("decode_b1: bottleneck memory bandwidth (")
    assert json.loads(advise(capsys, RECORDINGS / "decode_b1.jsonl.gz", "--json")[1])["bottleneck"] == "memory_bandwidth"


def test_a_reader_that_has_seen_enough_is_no_failure() -> None:
    """As of `fettle advise FILE | head -1`: no traceback."""
    program = [sys.executable, "-m", "cli", "advise", str(RECORDINGS / "leak.jsonl.gz")]
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run(program, stdout=write_end, stderr=subprocess.PIPE, text=True, check=False, cwd=RECORDINGS.parent)
    os.close(write_end)

    assert (done.returncode, done.stderr) == (0, "")


def test_it_says_so_when_there_is_nothing_to_change(capsys: pytest.CaptureFixture[str]) -> None:
    """A healthy job gets a plain word, not silence."""
    code, out, _err = advise(capsys, RECORDINGS / "bf16_train.jsonl.gz")

    assert code == 0
    assert "Nothing to change" in out


@pytest.mark.parametrize("patience", ["14", "15", "16.5", "20", "86400"])
def test_it_judges_no_end_of_a_program(capsys: pytest.CaptureFixture[str], patience: str) -> None:
    """Where patience leaves less than three seconds there is no bottleneck and nothing to do, least of all cancelling the job."""
    path = RECORDINGS / "fp32_train.jsonl.gz"
    said = json.loads(advise(capsys, path, "--json", "--patience", patience)[1])
    code, out, _err = advise(capsys, path, "--patience", patience)

    assert (said["bottleneck"], said["findings"], said["shares"]) == (None, [], {})
    assert said["note"].startswith("Too little is left to judge after start-up")
    assert (code, out) == (0, f"fp32_train: not judged\n\n{said['note']}\n")


@pytest.mark.parametrize("patience", ["abc", "-1", "nan", "inf", "1e9", ""])
def test_it_says_in_words_what_is_no_patience(capsys: pytest.CaptureFixture[str], patience: str) -> None:
    """The value and what belongs there."""
    with pytest.raises(SystemExit) as caught:
        main(["advise", "x", f"--patience={patience}"])

    assert caught.value.code == 2
    assert f"argument --patience: {patience!r} is not a number of seconds from 0 to 86400\n" in capsys.readouterr().err


def test_it_explains_a_gpu_that_was_never_used(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Nobody held the GPU: idle, with an explanation and no finding."""
    path = tmp_path / "unused.jsonl"
    quiet = json.loads(LINES[1])
    rows = [LINES[0], *(json.dumps({**quiet, "t": k / 4, "processes": []}) for k in range(100))]
    path.write_text("\n".join(rows))

    code, out, _err = advise(capsys, path, "--json")
    said = json.loads(out)

    assert code == 0
    assert said["bottleneck"] == "idle"
    assert "nothing to tune" in said["note"]
    assert said["findings"] == []


@pytest.mark.parametrize("beside", [{}, {"pids": {"7": 10**9}}, {"mem_used_bytes": 6 * 10**8}])
def test_utilisation_alone_is_trusted_little(capsys: pytest.CaptureFixture[str], tmp_path: Path, beside: dict[str, Any]) -> None:
    """Something ran at 100 %, nobody knows what: low confidence, and no word that nothing ran."""
    path = tmp_path / "util.jsonl"
    gpu = {"index": 0, "gpu_util_pct": 100, **beside}
    process = {"pid": 7, "cpu_pct": 100, "children": 0, "children_cpu_pct": 0}
    samples = [{"t": k, "gpus": [gpu], "processes": [process] if "pids" in beside else None} for k in range(60)]
    path.write_text("\n".join(map(json.dumps, [{"recording": 1}, *samples])))

    said = json.loads(advise(capsys, path, "--json")[1])

    assert (said["bottleneck"], said["confidence"]) == ("compute", "low")
    assert said["note"] == "Of the GPU's units nothing was recorded: utilisation says that something ran, not what limited it."
    assert not said["findings"]


def test_no_utilisation_is_trusted_little_where_memory_is_unknown(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Nothing ran; whether anybody held the GPU nobody knows."""
    path = tmp_path / "zero.jsonl"
    samples = [{"t": k, "gpus": [{"index": 0, "gpu_util_pct": 0}]} for k in range(60)]
    path.write_text("\n".join(map(json.dumps, [{"recording": 1}, *samples])))

    said = json.loads(advise(capsys, path, "--json")[1])

    assert (said["bottleneck"], said["confidence"], said["findings"]) == ("idle", "low", [])
    assert "nothing to tune" in said["note"]


def test_it_explains_a_recording_without_any_gpu(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """No reading of a GPU is said in words."""
    path = tmp_path / "none.jsonl"
    path.write_text("\n".join([LINES[0], *(json.dumps({**json.loads(line), "gpus": []}) for line in LINES[1:])]))

    code, out, _err = advise(capsys, path, "--json")

    assert code == 0
    assert json.loads(out)["bottleneck"] is None
    assert "no reading of any GPU" in json.loads(out)["note"]


BAD: dict[str, tuple[bytes, str]] = {
    "an empty file": (b"", "line 1"),
    "binary junk": (bytes(range(128, 256)) * 20, "line 1"),
    "junk that claims to be gzip": (b"\x1f\x8b" + bytes(range(200)), "line 1"),
    "a recording cut short in its first sample": (
        (RECORDINGS / "bf16_train.jsonl.gz").read_bytes()[:400],
        "cut short before its first sample",
    ),
    "a header alone": (LINES[0].encode(), "line 2"),
    "another format": (b'{"recording": 9}\n{"t": 0}', "version 9"),
    "text": (b"hello\nworld\n", "line 1"),
    "a thousand brackets": (LINES[0].encode() + b"\n" + b"[" * 100_000, "line 2"),
}


@pytest.mark.parametrize("kind", BAD)
def test_it_refuses_a_bad_file_in_one_sentence(kind: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Exit code 2, the line named, no traceback, nothing on standard output."""
    content, named = BAD[kind]
    path = tmp_path / "bad.jsonl"
    path.write_bytes(content)

    code, out, err = advise(capsys, path)

    assert (code, out) == (2, "")
    assert named in err
    assert err.count("\n") == 1


def test_it_refuses_a_directory_and_a_missing_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Neither is a recording, and both are said plainly."""
    assert advise(capsys, tmp_path)[0] == 2
    assert advise(capsys, tmp_path / "missing")[0] == 2


SAMPLES: dict[str, Callable[[dict[str, Any]], object]] = {
    "without its index": lambda sample: sample["gpus"][0].pop("index"),
    "with text as its index": lambda sample: sample["gpus"][0].update(index="0"),
    "with an index beyond any machine": lambda sample: sample["gpus"][0].update(index=10**30),
    "twice": lambda sample: sample["gpus"].append(dict(sample["gpus"][0])),
    "with pids that are no map": lambda sample: sample["gpus"][0].update(pids=[1, 2]),
    "with a pid that is no number": lambda sample: sample["gpus"][0].update(pids={"x": 1}),
    "with a pid beyond any kernel": lambda sample: sample["gpus"][0].update(pids={str(10**25): 1}),
    "beside a process without pid": lambda sample: sample["processes"][0].pop("pid"),
}


@pytest.mark.parametrize("kind", SAMPLES)
def test_it_names_the_line_of_a_gpu(kind: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A sample that cannot be understood is refused by line."""
    code, out, err = advise(capsys, changed(tmp_path, 61, SAMPLES[kind]))

    assert (code, out) == (2, "")
    assert f"{tmp_path / 'changed.jsonl'}: line 61: " in err


READINGS: dict[str, Callable[[dict[str, Any]], object]] = {
    "text, lists and booleans": lambda s: s["gpus"][0].update(sm_active="x", power_w=None, mem_used_bytes=[1], gpu_util_pct=True),
    "huge numbers": lambda s: s["gpus"][0].update(power_w=1e308, mem_used_bytes=10**40, pcie_tx_bytes_per_s=1e300),
    "whole numbers that no float holds": lambda s: (
        s["gpus"][0].update(dict.fromkeys(s["gpus"][0].keys() - {"index", "pids"}, 10**400), pids={"751": 10**400}),
        s["processes"][0].update(cpu_pct=10**400),
        s["host"].update(cpu_pct_per_core=[10**400], mem_used_bytes=-(10**400)),
    ),
    "nothing at all": lambda s: s.update(gpus=None, processes=None, host=None),
    "huge process counters": lambda s: s["processes"][0].update(cpu_pct=1e300, write_chars_total=10**30),
    "odd cores": lambda s: s["host"].update(cpu_pct_per_core=["a", None, 1e9]),
    "odd memory of a process": lambda s: s["gpus"][0].update(pids={"751": "much"}),
}


@pytest.mark.parametrize("kind", READINGS)
def test_it_takes_impossible_readings_as_absent(kind: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """One reading that cannot be leaves the rest of the recording standing."""
    code, out, _err = advise(capsys, changed(tmp_path, 61, READINGS[kind]), "--json")

    assert code == 0
    assert json.loads(out)["bottleneck"] == "compute"


def test_it_runs_as_a_program() -> None:
    """The command works from a shell, and its help costs no heavy import."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", "import argparse, cli.advise as a; a.arguments(argparse.ArgumentParser())"],
        capture_output=True,
        text=True,
        check=True,
        cwd=RECORDINGS.parent,
    )

    assert "polars" not in done.stderr


def test_a_profile_of_the_same_program_makes_its_finding_certain(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Without the launch gaps of the profile the confidence is that of the telemetry; with them it is high, and they are shown."""
    events = []
    for index in range(50):
        at = index * 20
        events += [operator("aten::add", at, at + 16), called("cudaLaunchKernel", at + 1, at + 16, index + 1)]
        events.append(kernel(ADD, at + 16, at + 20, index + 1))
    trace = write(tmp_path / "trace.json", events)
    lines = [json.loads(line) for line in gzip.decompress((RECORDINGS / "launch_bound.jsonl.gz").read_bytes()).splitlines()]
    for line in lines[1:]:  # as where the driver's counters are closed
        for gpu in line.get("gpus", ()):
            for name in [name for name in gpu if name.endswith("_active") and name != "gr_engine_active"]:
                del gpu[name]
    path = tmp_path / "blind.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))

    def launches(*words: object) -> dict[str, Any]:
        found = json.loads(advise(capsys, path, "--json", *words)[1])["findings"]
        return next(one for one in found if one["rule"] == "launch-bound-small-kernels")

    before, after = launches(), launches("--profile", trace)
    shown = {line["name"]: line["value"] for line in after["evidence"]}

    assert (before["confidence"], after["confidence"]) == ("medium", "high")
    assert not any(line["name"].startswith("profile_") for line in before["evidence"])
    assert shown["profile_launch_gap_share"] == pytest.approx(0.797, abs=0.001)
    assert shown["profile_kernel_p50_s"] == pytest.approx(4e-6)
    text = advise(capsys, path, "--profile", trace)[1]
    assert "In the profile:\n  GPU idle: 80 %\n" in text
    assert "In a profile: median kernel: 4 µs (below 100 µs)" in text


def test_what_is_no_profile_is_refused_before_anything_is_said(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Exit code 2: no trace, or one that has no GPU in it."""
    recording = RECORDINGS / "bf16_train.jsonl.gz"
    for trace, says in ((tmp_path / "none.json", "No such file"), (write(tmp_path / "cpu.json", CPU_ALONE), "no time on a GPU")):
        code, out, err = advise(capsys, recording, "--profile", trace)
        assert (code, out) == (2, "")
        assert says in err


def test_the_readmes_sample_is_true(capsys: pytest.CaptureFixture[str]) -> None:
    """What README shows is what the command prints, in that order; `…` stands for what is left out."""
    readme = (RECORDINGS.parent / "README.md").read_text()
    block = next(part for part in re.findall(r"```console\n(.*?)```", readme, re.DOTALL) if "fettle advise" in part)
    typed, *shown = block.splitlines()
    program, verb, file = typed.removeprefix("$ ").split()

    assert (program, verb, main([verb, str(RECORDINGS.parent / file)])) == (".venv/bin/fettle", "advise", 0)
    printed = iter(capsys.readouterr().out.splitlines())
    for line in (line for line in shown if line != "…"):
        begins, *_rest = line.split("…")
        assert any(said == line or ("…" in line and said.startswith(begins)) for said in printed), line
    assert any(line.startswith("   Gain: ") for line in shown)
    assert any(line.startswith("     diff: ") for line in shown)
