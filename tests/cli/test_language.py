"""The command line in the reader's language: which it takes, that it is complete, and how columns stand."""

import json
import re
from pathlib import Path

import pytest

from cli import language
from cli.__main__ import main
from tests.advisor.profiles.traces import SCENE, SCENE_METADATA, write

ROOT = Path(__file__).resolve().parent.parent.parent
RECORDING = str(ROOT / "recordings" / "launch_bound.jsonl.gz")
NAMES = ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG")


def speak(monkeypatch: pytest.MonkeyPatch, **environment: str) -> None:
    """Ask for a language by these variables and no others."""
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize(
    ("environment", "chinese"),
    [
        ({}, False),
        ({"LANG": "zh_CN.UTF-8"}, True),
        ({"LANG": "zh_SG"}, True),
        ({"LANG": "zh_Hans_CN.UTF-8"}, True),
        ({"LANG": "zh_TW.UTF-8"}, False),
        ({"LANG": "C.UTF-8"}, False),
        ({"LANG": "en_GB.UTF-8", "LC_MESSAGES": "zh_CN.UTF-8"}, True),
        ({"LC_ALL": "en_US.UTF-8", "LC_MESSAGES": "zh_CN.UTF-8", "LANG": "zh_CN.UTF-8"}, False),
        ({"LC_ALL": "C", "LANGUAGE": "zh_CN", "LANG": "zh_CN.UTF-8"}, False),
        ({"LANG": "POSIX", "LANGUAGE": "zh_CN"}, False),
        ({"LANG": "C.UTF-8", "LANGUAGE": "zh_CN"}, True),
        ({"LANG": "en_US.UTF-8", "LANGUAGE": "de:zh_CN:en"}, True),
        ({"LANG": "zh_CN.UTF-8", "LANGUAGE": "en:zh_CN"}, False),
        ({"LANG": "../../etc"}, False),
    ],
)
def test_the_language_is_taken_as_gettext_takes_it(
    environment: dict[str, str], chinese: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LANGUAGE before LC_ALL, LC_MESSAGES and LANG, unless these say C or POSIX; what there are no texts of is passed over."""
    speak(monkeypatch, **environment)

    assert (language.word("bottleneck", "data") != "data") == chinese


def test_without_a_catalogue_all_is_english(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As in the agent's single file."""
    speak(monkeypatch, LANG="zh_CN.UTF-8")
    monkeypatch.setattr(language, "CATALOGUES", tmp_path)
    language._read.cache_clear()

    assert language.word("bottleneck", "data") == "data"
    language._read.cache_clear()


def test_every_text_stands_where_it_is_collected() -> None:
    """The collector reads no text within a format string: it would be missing from the catalogue in silence."""
    found = [
        (file.name, line)
        for file in (ROOT / "cli").glob("*.py")
        for line in file.read_text().splitlines()
        if re.search(r"""\{_\(['"]""", line)
    ]

    assert found == []


def test_advice_is_all_chinese(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """No line outside of code begins with an English word."""
    speak(monkeypatch, LANG="zh_CN.UTF-8")
    assert main(["advise", RECORDING, "--price", "2"]) == 0
    said = [line for line in capsys.readouterr().out.splitlines()[1:] if line.strip()]

    assert [line for line in said if re.match(r"\s*(?!GPU|SM|kernel|loss)[A-Za-z]{2,}", line)] == []
    assert not re.search(r"Measured|Change:|Gain|Risk|Roll back|Verify|confidence|at least|judged|Costs", "\n".join(said))


def test_json_is_english_in_every_language(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Programs read it."""
    told = []
    for locale in ("C", "zh_CN.UTF-8"):
        speak(monkeypatch, LC_ALL=locale)
        assert main(["advise", RECORDING, "--json"]) == 0
        assert main(["plan", "training-memory", "--parameters", "8B", "--card", "L4", "--json"]) == 0
        told.append([json.loads(line) for line in capsys.readouterr().out.splitlines()])

    assert told[0] == told[1]


def test_columns_stand_where_characters_are_two_columns_wide(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every value of a plan begins in the same column of the terminal."""
    speak(monkeypatch, LANG="zh_CN.UTF-8")
    assert main(["plan", "collectives", "--message", "14GB", "--ranks", "8", "--bus", "360GB/s"]) == 0
    said = capsys.readouterr().out.splitlines()
    begins = {language.width(found[0]) for line in said if (found := re.match(r".*?\s{2,}", line))}

    assert len(said) == 3
    assert len(begins) == 1
    assert language.left("数据", 6) == "数据  "
    assert language.right("数据", 6) == "  数据"


def test_plans_refuse_in_chinese_with_the_flags(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The sentence is translated, the flag stays."""
    speak(monkeypatch, LANG="zh_CN.UTF-8")
    assert main(["plan", "batch", "--micro-batch", "3.5"]) == 2

    assert re.search(r"--micro-batch.*[\u4e00-\u9fff]", capsys.readouterr().err)


def test_a_profile_is_told_in_chinese(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Labels, verdicts and heads of tables; names of kernels and rules stay."""
    speak(monkeypatch, LANG="zh_CN.UTF-8")
    file = write(tmp_path / "trace.json", SCENE, **SCENE_METADATA)
    assert main(["profile", str(file)]) == 0
    said = capsys.readouterr().out

    assert not re.search(
        r"Steps|Kernels|idle|supports|cannot tell|What this says|not told|mean  name|unknown|all others|events", said
    )
    assert "对各规则的说明：" in said
