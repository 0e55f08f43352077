"""A rule's reasons and its changes' comments on the pages, in the reader's language; what is the reader's to fill in."""

import re

import pytest
from django.test import Client
from django.utils import translation

from advisor import prose
from advisor.rule import load
from fleet.findings.content import step, to_fill
from tests.fleet.dashboard.test_translation import ENTRIES

pytestmark = pytest.mark.django_db
CHINESE = {entry.parts["msgid"]: entry.parts["msgstr"] for entry in ENTRIES if "msgstr" in entry.parts}


def test_every_reason_and_comment_is_translated() -> None:
    """What makemessages collects of the rules is in the catalogue of texts, in Chinese."""
    assert [text for text in prose.texts() if not re.search("[\u4e00-\u9fff]", CHINESE.get(text, ""))] == []


def test_the_catalogues_page_of_a_rule_is_chinese_throughout(viewer: Client) -> None:
    """Why it stands where it does, the comments of its change, the verification with its threshold, and what to fill in."""
    page = viewer.get("/rules/memory-nearly-full/", headers={"accept-language": "zh-hans"}).content.decode()

    assert '<p lang="en">' not in page
    assert "空闲显存太少，批再大一点就会失败。" in page
    assert "batch_size=B // 2)  # 同时将累积步数加倍" in page
    assert "显存峰值低于该卡显存的 88%" in page
    assert "以下为占位符，请替换为你自己的值：B。" in page


def test_a_comment_keeps_the_values_of_a_finding() -> None:
    """A finding's step has them filled in; in Chinese they stand where Chinese has them."""
    stored = "- opt = torch.optim.AdamW(params)\n+ opt = bitsandbytes.optim.AdamW8bit(params)  # 31 GiB a GPU, which fits"

    with translation.override("zh-hans"):
        told = step("diff", stored)

    assert told.text.endswith("AdamW8bit(params)  # 每块 GPU 31 GiB，放得下")
    assert step("diff", stored).text == stored


def test_what_is_to_fill_in_is_said_once() -> None:
    """The placeholders of all steps together, and that code is a pattern; nothing where a command can be taken as it is."""
    steps = [step("command", "torchrun train.py"), step("diff", "- B = 1\n+ B = 2"), step("command", "python train.py")]

    assert to_fill(steps)[0] == "Placeholders, put your own in their place: train.py, B."
    assert "pattern" in to_fill(steps)[1]
    assert to_fill([step("command", "nvidia-smi -i 0 -r"), step("step", "Call B.")]) == []


@pytest.mark.parametrize("rule", load(), ids=lambda rule: rule.id)
def test_no_step_names_a_frequency_or_a_script_as_if_it_were_known(rule: object) -> None:
    """`step % 25` is nobody's: what stands for the reader's own is a placeholder that is said to be one."""
    for one in rule.change:  # type: ignore[attr-defined]
        assert not re.search(r"step % \d", one.text), one.text
        if re.search(r"(?<![\w/.-])(train|main|job)\.(py|sh)\b", one.text):
            assert prose.placeholders(one.text), one.text
