"""What a message says, as a real receiver gets it: new, worse, over, ended with its job, in every form."""

from collections.abc import Sequence
from datetime import timedelta

import pytest
from apprise import Apprise, NotifyFormat  # noqa: TID251 - which form a target gets is what this is about
from pytest_django import Settings

from advisor.finding import Change, Evidence
from advisor.finding import Finding as Found
from fleet.findings.lifecycle import Judged, Place, reconcile
from fleet.inventory.models import Gpu
from fleet.notify import deliver, drawing, sending
from fleet.notify.models import Route
from tests.fleet.notify.receiver import Receiver
from tests.fleet.notify.telling import tell
from tests.fleet.rows import NOON, found, gpu, node

pytestmark = pytest.mark.django_db
TEN_S = timedelta(seconds=10)
HOSTILE = "n1/eve/@everyone\n    rm -rf / <!channel> *b* [x](http://evil)<b>"


@pytest.fixture
def card(settings: Settings, chat: Receiver) -> Gpu:
    """A GPU, and a route to the chat that hears everything."""
    settings.FETTLE_BASE_URL = "https://fettle.example.org"
    Route.objects.create(name="chat", url=chat.url(), min_severity="info")
    return gpu(node())


def judge(card: Gpu, step: float, seen: Sequence[Found], about: Found, present: bool = True) -> None:
    """One judgement, ten seconds times `step` after noon; then all deliveries that it made are sent."""
    target = (about.scope, about.target)
    judged = Judged(frozenset([about.rule]), frozenset([target] if present else []), frozenset(), {card.node_id}, {card.pk})
    reconcile(NOON + step * TEN_S, seen, judged, {target: Place(card.node_id, (card.pk,))})
    for pk in tell():
        assert sending.attempt(pk) == "sent"


def test_a_new_finding_says_what_where_how_much_and_what_to_do(card: Gpu, chat: Receiver) -> None:
    """In the words, units and number formats of the finding's page."""
    one = found(target=str(card.pk), severity="critical")
    judge(card, 0, [one], one)
    (got,) = chat.got

    assert got["title"] == "[critical] The power limit takes the speed (n1 GPU 0)"
    assert got["message"].replace("\u00a0", " ").split("\n")[:-4] == [
        "At 500 W the clocks fall for 25% of the time.",
        "",
        "Node: n1",
        "GPU: 0 (NVIDIA H200, GPU-n1-0)",
        "Since: 2026-11-30 12:00:00 UTC",
        "",
        "Measured:",
        "• SM active: 91 % (threshold ≥ 50 %)",
        "• Power: 500 W",
        "",
        "The change to make:",
        "    nvidia-smi -i GPU-1 -pl 700",
        "",
        "Expected gain: 1.05–1.2× the speed",
        "Risk: More heat.",
        "To undo it: Set the limit back.",
        "",
    ]


def test_a_message_says_what_the_finding_costs(card: Gpu, chat: Receiver, settings: Settings) -> None:
    """One line, behind since when: GPU-hours, and money at the site's price."""
    settings.FETTLE_GPU_HOUR_PRICE, settings.FETTLE_CURRENCY = 2.5, "EUR"
    one = found(target=str(card.pk), severity="critical", recoverable=0.5, gpus=8)
    judge(card, 0, [one], one)
    (got,) = chat.got

    said = got["message"].replace("\u00a0", " ")
    assert "Since: 2026-11-30 12:00:00 UTC\nCosts: 96.0 GPU-hours a day, 240 EUR at 2.50 EUR a GPU-hour\n" in said


def test_a_finding_that_grew_worse_says_from_what_to_what(card: Gpu, chat: Receiver) -> None:
    """Both severities by their words."""
    one = found(target=str(card.pk))
    for step in range(2):
        judge(card, step, [one], one)
    judge(card, 2, [found(target=str(card.pk), severity="critical")], one)

    assert [got["title"].partition("]")[0] for got in chat.got] == ["[warning", "[warning → critical"]
    assert "warn ->" not in chat.got[1]["message"]


def test_the_end_says_how_long_it_lasted_and_asks_for_nothing(card: Gpu, chat: Receiver) -> None:
    """No evidence and no change of what is over."""
    one = found(target=str(card.pk), severity="critical")
    judge(card, 0, [one], one)
    judge(card, 60, [], one)
    judge(card, 61, [], one)
    got = chat.got[-1]

    assert (got["title"], got["type"]) == ("[resolved] The power limit takes the speed (n1 GPU 0)", "success")
    assert "Resolved: 2026-11-30 12:10:10 UTC, after 10\u00a0min\u00a010\u00a0s" in got["message"]
    assert "Measured" not in got["message"]
    assert "nvidia-smi" not in got["message"]


def test_what_ended_with_its_job_says_so_in_the_sites_language(card: Gpu, chat: Receiver, settings: Settings) -> None:
    """The reason stands in the message, by the job's name."""
    settings.LANGUAGE_CODE = "zh-hans"
    one = found(target="n1/alice/python", scope="job", severity="critical")
    judge(card, 0, [one], one)
    judge(card, 100, [], one, present=False)
    got = chat.got[-1]

    assert got["title"].startswith("[已解决]")
    assert got["title"].endswith("(n1/alice/python)")
    assert "作业：n1/alice/python" in got["message"]
    assert "备注：作业已结束" in got["message"]


def test_much_evidence_and_a_long_change_are_cut_and_counted(card: Gpu, chat: Receiver) -> None:
    """A message stays one that a phone shows; the page has the rest."""
    one = found(
        target=str(card.pk),
        severity="critical",
        evidence=tuple(Evidence("sm_active", None if number else 0.5, "ratio") for number in range(20)),
        change=(Change("diff", "\n".join(f"+line {number}" for number in range(40))),),
    )
    judge(card, 0, [one], one)
    message = chat.got[0]["message"]

    assert message.count("• SM active") == 8
    assert "• SM active: –\nand 12 more numbers on its page" in message  # absent is not zero
    assert "    +line 15\nand 24 more lines on its page" in message
    assert len(message) < 1900  # the least that a chat takes is 2,000


def test_without_a_base_url_there_is_no_link(card: Gpu, chat: Receiver, settings: Settings) -> None:
    """A path alone would lead nowhere."""
    settings.FETTLE_BASE_URL = ""
    one = found(target=str(card.pk), severity="critical", evidence=(), change=(), expected_gain=None)
    judge(card, 0, [one], one)

    assert "/findings/" not in chat.got[0]["message"]
    assert chat.got[0]["message"].startswith("At 500 W")


@pytest.mark.parametrize("form", ["text", "markdown", "html"])
def test_a_hostile_name_neither_calls_nor_draws_nor_adds_a_line(form: str, card: Gpu, chat: Receiver) -> None:
    """In every form that a target may ask for; the message is there, whole, with its link."""
    Route.objects.update(url=f"{chat.url()}?format={form}")
    one = found(target=HOSTILE, scope="job", severity="critical")
    judge(card, 0, [one], one)
    (got,) = chat.got
    whole = got["title"] + got["message"]

    for token in ("@everyone", "<!channel>", "](http", "\n    rm", "\nrm", "<code>rm"):
        assert token not in whole, token
    assert "nvidia-smi -i GPU-1 -pl 700" in whole
    assert "https://fettle.example.org/findings/" in whole
    assert {"text": "    nvidia-smi", "markdown": "```\nnvidia-smi", "html": "<pre><code>nvidia-smi"}[form] in whole
    shown = (
        {"text": "*b* [x]", "markdown": r"\*b\* \[x\]", "html": "*b* [x]"},
        {"text": "<b>", "markdown": r"\<b\>", "html": "&lt;b&gt;"},
    )
    assert all(by_form[form] in got["message"] for by_form in shown)


@pytest.mark.parametrize(
    ("url", "form"),
    [
        ("json://h/", "text"),
        ("json://h/?format=html", "html"),
        ("mailto://u:p@example.org", "html"),
        ("mailto://u:p@example.org?format=text", "text"),
        ("feishu://abcdefghijklmnop", "text"),
        ("feishu://abcdefghijklmnop?format=markdown", "markdown"),
        ("dingtalk://abcdefghijklmnop", "text"),
        ("wecombot://abcdefghijklmnop", "text"),
        ("slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/#general", "markdown"),
        ("slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/#general?format=text", "text"),
        ("discord://123456789/abcdefghijklmnopqrstuvwxyz", "markdown"),
        ("tgram://123456789:abcdefg_hijklmnop/12315544/", "html"),
        ("mmost://localhost/3ccdd113474722377935511fc85d3dd4", "text"),
    ],
)
def test_each_target_gets_the_form_that_it_shows_best(url: str, form: str) -> None:
    """Text where it stays text, Markdown where it is drawn whatever it is called, HTML where nothing else is taken."""
    assert drawing.form(Apprise.instantiate(url)) == NotifyFormat(form)


def test_what_is_longer_than_a_chat_takes_comes_in_parts(chat: Receiver) -> None:
    """Mattermost refuses more than 4,000 characters; nothing is lost, the end with its link comes too."""
    body = "\n".join(f"line {number} {'x' * 80}" for number in range(80)) + "\nhttps://fettle.example.org/findings/1/"
    url = f"mmost://127.0.0.1:{chat.server_port}/3ccdd113474722377935511fc85d3dd4"

    assert deliver.send(url, deliver.Message("[critical] It is hot", body, "failure", "key")).sent
    texts = [got["text"] for got in chat.got]
    assert len(texts) == 2
    assert max(map(len, texts)) <= 4000
    assert texts[0].startswith("[critical] It is hot")
    assert texts[-1].endswith("https://fettle.example.org/findings/1/")
    assert all(f"line {number} " in texts[0] + texts[1] for number in range(80))
