"""The Chinese of the interface and of the advisor is complete, current and compiled."""

import ast
import gettext
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from string import Formatter

import pytest
from django.conf import settings
from django.utils import translation

from advisor.rules.fp32_without_tensor_cores import RULE
from fleet.dashboard import words
from fleet.findings.content import sentence

ROOT = Path(settings.BASE_DIR)
PO = ROOT / "locale" / "zh_Hans" / "LC_MESSAGES" / "django.po"


@dataclass
class Entry:
    """One message of a .po file."""

    flags: str = ""
    parts: dict[str, str] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, str]:
        """What names it: context and English text."""
        return self.parts.get("msgctxt", ""), self.parts["msgid"]

    @property
    def translations(self) -> list[str]:
        """Its Chinese, one for each plural form."""
        return [text for name, text in self.parts.items() if name.startswith("msgstr")]


def read(path: Path) -> list[Entry]:
    """The messages of a .po file, its header left out."""
    entries = []
    for block in path.read_text(encoding="utf-8").strip().split("\n\n"):
        entry, name = Entry(), ""
        for row in block.split("\n"):
            if row.startswith("#"):
                entry.flags += row if row.startswith("#,") else "obsolete" if row.startswith("#~") else ""
                continue
            if match := re.match(r'(msg\S+) (".*")$', row):
                name, row = match[1], match[2]
                entry.parts[name] = ""
            entry.parts[name] += ast.literal_eval(row)
        entries.append(entry)
    return [entry for entry in entries if entry.parts.get("msgid")]


ENTRIES = read(PO)


def fields(text: str) -> Counter[tuple[str, str]]:
    """The places that a program fills, with their formats."""
    found = Counter((name, "%") for name in re.findall(r"%\((\w+)\)s", text))
    found.update((name, spec or "") for _, name, spec, _ in Formatter().parse(text) if name is not None)
    return found


def test_every_message_is_translated_and_none_is_a_guess() -> None:
    """No empty, fuzzy or obsolete entry."""
    assert len(ENTRIES) > 400
    assert [entry.key for entry in ENTRIES if not all(entry.translations) or not entry.translations] == []
    assert [entry.key for entry in ENTRIES if "fuzzy" in entry.flags or "obsolete" in entry.flags] == []


def test_translations_are_chinese() -> None:
    """A message copied over in English is no translation; names and short terms of the trade may stay."""
    english = [text for entry in ENTRIES for text in entry.translations if not re.search(r"[\u4e00-\u9fff]", text)]
    words = {word for text in english for word in re.findall(r"\w+", re.sub(r"%\(\w+\)s|\{[^}]*\}", "", text))}

    assert words == {"GPU", "SM", "NVML", "Alertmanager"}


def test_every_field_stands_in_both_languages_with_its_format() -> None:
    """A lost `{share:.0%}` would lose the number."""
    for entry in ENTRIES:
        plural = entry.parts.get("msgid_plural", entry.parts["msgid"])
        for text in entry.translations:
            assert fields(text) == fields(plural), entry.key


def test_the_compiled_file_is_that_of_the_source() -> None:
    """Django reads the .mo; whoever edits the .po must compile it."""
    with PO.with_suffix(".mo").open("rb") as file:
        compiled = gettext.GNUTranslations(file)

    for entry in ENTRIES:
        context, english = entry.key
        if "msgid_plural" in entry.parts:
            told = compiled.ngettext(english, entry.parts["msgid_plural"], 2)
        else:
            told = compiled.pgettext(context, english) if context else compiled.gettext(english)
        assert told == entry.translations[0], entry.key
    catalogue = compiled._catalog  # type: ignore[attr-defined]
    assert len([key for key in catalogue if key]) == len(ENTRIES)


@pytest.mark.skipif(shutil.which("xgettext") is None, reason="needs GNU gettext (apt-get install gettext)")
def test_collecting_the_messages_again_adds_none(tmp_path: Path) -> None:
    """Every text of templates, pages and rules is in the .po, and nothing else is."""
    skip = shutil.ignore_patterns("__pycache__", "*.pyc")
    for name in ("wire", "agents", "advisor", "fleet", "config", "cli", "templates", "locale"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=skip)
    shutil.copy(ROOT / "manage.py", tmp_path)
    environment = {**os.environ, "FETTLE_DEBUG": "1", "PYTHONWARNINGS": "ignore", "FETTLE_DATA": str(tmp_path / "data")}
    environment["DJANGO_SETTINGS_MODULE"] = "config.settings"
    subprocess.run([sys.executable, "manage.py", "makemessages"], cwd=tmp_path, env=environment, check=True, capture_output=True)

    again = read(tmp_path / PO.relative_to(ROOT))

    assert {entry.key for entry in again} == {entry.key for entry in ENTRIES}
    assert [entry.key for entry in again if "fuzzy" in entry.flags] == []


def test_the_pages_words_and_the_advisors_sentences_come_in_chinese() -> None:
    """From the slug and from the stored message id, with its numbers."""
    with translation.override("zh-hans"):
        assert words.word(words.BOTTLENECK, "memory_bandwidth") == "显存带宽"
        assert words.metric("tensor_active") == "张量核心活跃度"
        told = sentence({"id": RULE.summary, "params": {"fp32_active_when_busy": 0.66, "tensor_active_when_busy": 0.033}})
    assert "FP32 流水线活跃 66%" in told
    assert "3.3%" in told
