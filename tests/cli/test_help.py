"""The help of every verb in Chinese: complete, with argparse's own words, and no line wider than the terminal."""

import argparse
import re
from collections.abc import Iterator
from importlib import import_module

import pytest

from advisor.planners.planner import load
from cli import language
from cli.__main__ import VERBS, main
from cli.parser import WORDS, parser, wrapped
from cli.plan import flags
from tests.cli.test_language import speak

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
        (["slurm", "--evry", "3"], "没有 --evry；是否想写 --every？"),
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
