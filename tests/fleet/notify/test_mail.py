"""A mail as a real mail server gets it: HTML and the same as text, with the links that can be followed."""

from collections.abc import Iterator

import pytest

from fleet.notify.deliver import send
from fleet.notify.note import Message
from tests.fleet.notify.post import Post, post

LINK = "https://fettle.example.org/findings/1/"
ACK = "https://fettle.example.org/alerts/acknowledge/eyJmIjo1fQ:1tXyZ:a_b-c/"
BODY = "At 95 °C <b>it</b> is *hot*.\n\nThe change to make:\n    nvidia-smi -i 0 -pl 500\n    echo 'a & b'"
HOT = Message(
    "[critical] It is hot (n1 & n2)",
    BODY,
    "failure",
    "k" * 32,
    tail=f"{LINK}\nTo acknowledge it, open:\n{ACK}\nDelivery {'k' * 32}",
)


@pytest.fixture
def office() -> Iterator[Post]:
    """A mail server."""
    with post() as server:
        yield server


def test_a_mail_has_its_subject_its_links_and_its_code(office: Post) -> None:
    """Drawn for those who see HTML, whole for those who see text."""
    assert send(office.url, HOT).sent
    (mail,) = office.mails
    html, text = (mail.get_body((kind,)) for kind in ("html", "plain"))
    assert html is not None
    assert text is not None
    drawn, plain = (str(one.get_content()).replace("\r", "") for one in (html, text))

    assert mail["Subject"] == "[critical] It is hot (n1 & n2)"
    assert mail["To"] == "gpu@example.org"
    assert "border-left:4px solid #c0392b" in drawn
    assert "It is hot (n1 &amp; n2)" in drawn
    assert "<b>it</b>" not in drawn
    assert "&lt;b&gt;it&lt;/b&gt;" in drawn
    assert "<pre><code>nvidia-smi -i 0 -pl 500\necho " in drawn
    for link in (LINK, ACK):
        assert f'<a href="{link}">' in drawn
        assert link in plain
    assert "nvidia-smi -i 0 -pl 500" in plain
    assert "is *hot*." in plain


def test_a_route_may_ask_for_text_alone(office: Post) -> None:
    """For a ticket system that reads mails."""
    assert send(f"{office.url}&format=text", HOT).sent
    (mail,) = office.mails

    assert mail.get_content_type() == "text/plain"
    assert "    nvidia-smi -i 0 -pl 500" in mail.get_content().replace("\r", "").split("\n")


def test_a_mail_that_is_refused_is_tried_again(office: Post) -> None:
    """Its text went out; so the next one says that it may be a repeat."""
    office.refuses = "451 try later"
    outcome = send(office.url, HOT)

    assert (outcome.sent, outcome.failure, outcome.unsure) == (False, "later", True)
    assert "pass" not in outcome.error


def test_a_mail_server_that_is_away_got_nothing() -> None:
    """Surely."""
    outcome = send("mailto://ops:pass@example.org?smtp=127.0.0.1&port=9&mode=insecure", HOT)

    assert (outcome.sent, outcome.failure, outcome.unsure) == (False, "later", False)
