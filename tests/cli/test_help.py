"""The help of every verb in Chinese: complete, with argparse's own words, and no line wider than the terminal."""

import argparse
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from advisor.planners.planner import load
from cli import language
from cli.__main__ import VERBS, main
from cli.bench import lines
from cli.parser import WORDS, parser, wrapped
from cli.plan import flags
from tests.cli.test_language import speak
from wire.bench import BenchGpu, BenchReport, Missing, Score

CHINESE = re.compile(r"[\u4e00-\u9fff]")


@pytest.fixture(autouse=True)
def _chinese(monkeypatch: pytest.MonkeyPatch) -> None:
    speak(monkeypatch, LANG="zh_CN.UTF-8")
    monkeypatch.setenv("COLUMNS", "80")


def said(one: argparse.ArgumentParser) -> Iterator[tuple[str, str]]:
    """Each text that the help shows, by what it is of."""
    yield from ((name, text) for name, text in (("description", one.description), ("epilog", one.epilog)) if text)
    yield from (("/".join(action.option_strings) or action.dest, action.help or "") for action in one._actions)


@pytest.mark.parametrize("name", VERBS)
def test_every_text_of_a_verbs_help_is_chinese(name: str) -> None:
    """Description, epilog and each flag; a flag without a word of help would show here too."""
    verb = import_module(f"cli.{name}")
    one = parser(f"fettle {name}", language._(verb.HELP))
    verb.arguments(one)

    assert {what for what, text in said(one) if not CHINESE.search(text)} == set()


def test_every_text_of_a_planners_help_is_chinese() -> None:
    """Their flags are declared when they are named."""
    for planner in load():
        assert {what for what, text in said(flags(planner)) if not CHINESE.search(text)} == set(), planner.name


@pytest.mark.parametrize("words", [[], *([verb] for verb in VERBS), ["plan", "batch"]])
def test_help_has_no_english_words_of_argparse(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """From the command itself, as it is printed; what is measured in columns keeps within the terminal."""
    with pytest.raises(SystemExit) as ended:
        main([*words, "--help"])
    text = capsys.readouterr().out

    assert ended.value.code == 0
    assert text.startswith("用法：")
    assert not re.search(r"usage|options:|positional|show this help|exit codes", text, re.I)
    if words != ["plan", "batch"]:  # whose formulas stand as they are written
        assert [line for line in text.splitlines() if line.startswith(" " * 15) and language.width(line) > 80] == []


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["advise"], "缺少必需的参数：FILE"),
        (["record", "-o", "x", "--hz", "much"], "参数 --hz：无效的 float 值：'much'"),
        (["bench", "--only", "tea"], "无效的选择：'tea'"),
        (["slurm", "--every"], "需要一个值"),
        (["slurm", "--onse"], "没有 --onse；是否想写 --once？"),
        (["advise", "x", "--price", "-4"], "'-4' 不是有效价格"),
    ],
)
def test_what_is_wrong_with_a_command_is_said_in_chinese(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With argparse's own exit code."""
    with pytest.raises(SystemExit) as ended:
        main(words)
    text = capsys.readouterr().err

    assert ended.value.code == 2
    assert says in text
    assert "错误：" in text


def test_argparses_own_words_are_in_the_catalogue() -> None:
    """Each that this Python's argparse says to who types; what is listed for others is translated too."""
    assert {text for text in WORDS if language._(text) == text} == set()


def test_english_is_as_argparse_wraps_it(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Another language leaves no trace."""
    with pytest.raises(SystemExit):
        main(["record", "--help"])
    capsys.readouterr()
    speak(monkeypatch, LANG="C.UTF-8")
    with pytest.raises(SystemExit):
        main(["record", "--help"])
    text = capsys.readouterr().out

    assert text.startswith("usage: fettle record [-h] -o FILE")
    assert "\noptions:\n  -h, --help            show this help message and exit\n" in text


def test_lines_break_between_chinese_characters_and_never_before_a_mark() -> None:
    """A word of Latin letters stays whole."""
    assert list(wrapped("把本机的 GPU、主机和进程录制成文件。", 12)) == ["把本机的", "GPU、主机和", "进程录制成文", "件。"]
    assert list(wrapped("甲乙丙丁，戊", 8)) == ["甲乙丙", "丁，戊"]
    assert list(wrapped("", 8)) == []


def test_what_the_agent_refuses_is_said_in_chinese(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Sentences of the agent's own modules, with their values and the sentences within them."""
    file = tmp_path / "agent.toml"
    file.write_text('spol = "/x"\n')
    told = []
    for words in (
        ["agent", "--config", str(file), "--once"],
        ["agent", "statsu"],
        ["agent", "status", "--run-dir", str(tmp_path)],
        ["bench", "--gpus", "1e30"],
        ["bench", "--from-json", "/nowhere.json"],
        ["record", "-o", "x", "--hz", "99"],
        ["slurm", "--server", "ws://127.0.0.1:9/ws/agent/", "--token-file", "/nowhere"],
        ["kubernetes", "hints", "--server", "x", "--token-file", "/nowhere"],
    ):
        assert main(words) in (1, 2)
        told.append(capsys.readouterr().err.partition(": ")[2].strip())

    assert told[0] == f"{file}：没有设置项 'spol'；是否想写 spool？"
    assert told[3] == "--gpus 以序号或 UUID 指定 GPU，如 0,1 或 GPU-01234567；'1e30' 两者都不是。"
    assert told[4].startswith("无法读取 /nowhere.json：")
    assert told[5] == "--hz 99.0 不在 0.1 到 20 之间。"
    assert [text for text in told if not CHINESE.search(text)] == []


def test_the_doctor_speaks_chinese_and_its_json_english(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """What each line says is translated, names of readings and paths stay."""
    words = ["agent", "doctor", "--node", "n", "--no-find-engines", "--run-dir", str(tmp_path)]
    main(words)
    text = capsys.readouterr().out
    main([*words, "--json"])
    report = capsys.readouterr().out

    assert text.startswith("n 上的 Fettle 采集代理\n")
    assert [line for line in text.splitlines() if "->" in line and not CHINESE.search(line)] == []
    assert not CHINESE.search(report)
    assert '"none is set"' in report


def test_a_bench_report_is_told_in_chinese() -> None:
    """Heads, states and reasons; columns stand though characters are two columns wide."""
    gpu = BenchGpu(uuid="GPU-1", index=0, model="H200", power_limit_w=700.0, settled=False, temperature_slope_c_per_min=1.25)
    score = Score(name="matmul_bf16_8192", gpu="GPU-1", value=7e14, p5=6e14, p95=7.1e14, unit="flop_per_second", iterations=5)
    missing = Missing(name="all_reduce", gpu="GPU-1", reason="this torch was built without NCCL")
    report = BenchReport(
        node="n", at=0.0, seconds=12.0, protocol="quick", shared=True, interrupted=True, versions={}, environment={},
        gpus=(gpu,), scores=(score,), missing=(missing,),
    )  # fmt: skip
    told = lines(report)

    assert told[0] == "n：快速测试，用时 12 秒"
    assert "GPU 0 H200, 功耗上限 700 W, 温度尚未稳定（每分钟 +1.2 °C）" in told
    assert told[-1] == "  GPU 0, all_reduce: 此 torch 构建时未包含 NCCL"
    head, row = (next(line for line in told if line.startswith(start)) for start in ("  测试项", "  matmul"))
    assert language.width(head[: head.index("中位数") + 3]) == language.width(row[: row.index("TFLOP/s") + 7])
