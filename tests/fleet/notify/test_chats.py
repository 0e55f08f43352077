"""What becomes of messages to real chats, by HTTPS under their own names, when these refuse, limit, hang, break off or lie."""

import sys
import threading
import time
from email.utils import formatdate
from typing import Any

import pytest
import requests
from pytest_django import Settings

from fleet.notify import heard
from fleet.notify.deliver import send
from fleet.notify.note import Message
from fleet.notify.outcome import Outcome
from tests.fleet.notify import chats as real
from tests.fleet.notify.chats import DINGTALK, DISCORD, FEISHU, SLACK, TELEGRAM, WECOM, Chats, answer

HELLO = Message(
    "[critical] It is hot", "GPU 3 of n1 is at 95 °C.", "failure", "k" * 32, tail="https://fettle.example.org/findings/1/"
)
THREE = pytest.mark.parametrize("url", [SLACK, FEISHU, DINGTALK])


@pytest.mark.parametrize("url", [SLACK, FEISHU, DINGTALK, WECOM, DISCORD, TELEGRAM])
def test_a_message_arrives(url: str, chats: Chats) -> None:
    """Whole, in what the service reads, by TLS that its authority vouches for."""
    outcome = send(url, HELLO)

    assert (outcome.sent, outcome.error, outcome.status) == (True, "", 200)
    (got,) = [one for one in chats.got if one.method == "POST"]
    assert "GPU 3 of n1" in str(got.body)
    assert "https://fettle.example.org/findings/1/" in str(got.body)


@THREE
@pytest.mark.parametrize(("asked", "seconds"), [("11", 11.0), ("", None)])
def test_too_many_are_tried_again_when_the_chat_asks_for_it(url: str, asked: str, seconds: float | None, chats: Chats) -> None:
    """429 with and without a time: limited, not sent, and surely not arrived."""
    chats.plays = [answer(429, "", **({"Retry_After": asked} if asked else {}))]
    outcome = send(url, HELLO)

    assert (outcome.sent, outcome.failure, outcome.status, outcome.retry_after_s, outcome.unsure) == (
        False,
        "limited",
        429,
        seconds,
        False,
    )
    assert "429" in outcome.error


@THREE
def test_a_date_to_wait_for_is_understood(url: str, chats: Chats) -> None:
    """HTTP allows both."""
    chats.plays = [answer(503, "", Retry_After=formatdate(time.time() + 100, usegmt=True))]
    outcome = send(url, HELLO)

    assert outcome.failure == "limited"
    assert 90 < (outcome.retry_after_s or 0) <= 100


@pytest.mark.parametrize(
    ("url", "body", "failure", "seconds"),
    [
        (FEISHU, {"code": 11232, "msg": "frequency limited"}, "limited", 5.0),
        (FEISHU, {"code": 9499, "msg": "Bad Request", "data": {}}, "never", None),
        (DINGTALK, {"errcode": 130101, "errmsg": "send too fast, exceed 20 times per minute"}, "limited", 600.0),
        (DINGTALK, {"errcode": 310000, "errmsg": "sign not match"}, "never", None),
        (WECOM, {"errcode": 45009, "errmsg": "api freq out of limit"}, "limited", 60.0),
        (WECOM, {"errcode": 93000, "errmsg": "invalid webhook url"}, "never", None),
        (SLACK, "rate_limited", "limited", 30.0),
        (SLACK, "channel_is_archived", "never", None),
    ],
)
def test_what_a_body_refuses_is_not_sent_though_its_status_is_200(
    url: str, body: object, failure: str, seconds: float | None, chats: Chats
) -> None:
    """DingTalk and WeCom say so to nobody but who reads the body; Apprise does not."""
    chats.plays = [answer(200, body)]
    outcome = send(url, HELLO)

    assert (outcome.sent, outcome.failure, outcome.retry_after_s, outcome.unsure) == (False, failure, seconds, False)
    assert str(body if isinstance(body, str) else next(iter(body.values()))) in outcome.error  # type: ignore[attr-defined]


@THREE
@pytest.mark.parametrize("status", [400, 401, 403, 404, 410])
def test_what_will_not_be_taken_is_not_tried_again(url: str, status: int, chats: Chats) -> None:
    """The reason is kept."""
    chats.plays = [answer(status, "invalid_token")]
    outcome = send(url, HELLO)

    assert (outcome.sent, outcome.failure, outcome.status) == (False, "never", status)
    assert f"answered {status}: invalid_token" in outcome.error


@THREE
def test_trouble_on_their_side_is_tried_again(url: str, chats: Chats) -> None:
    """500: nothing arrived, as far as they say."""
    chats.plays = [answer(500, "oops")]
    outcome = send(url, HELLO)

    assert (outcome.sent, outcome.failure, outcome.status, outcome.unsure) == (False, "later", 500, False)


@THREE
def test_a_gateway_that_gave_up_may_have_passed_it_on(url: str, chats: Chats) -> None:
    """504: the next attempt says that it may be a repeat."""
    chats.plays = [answer(504)]

    assert send(url, HELLO).unsure


@THREE
def test_a_slow_answer_is_one(url: str, chats: Chats) -> None:
    """It is waited for."""
    chats.plays = [real.slow(0.3, answer(200, real.TAKEN[host_of(url)]))]

    assert send(url, HELLO).sent


@THREE
@pytest.mark.parametrize("play", [real.hang, real.drip])
def test_a_chat_that_never_ends_its_answer_is_left_and_may_have_it(
    url: str, play: real.Play, chats: Chats, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it says nothing or a byte now and then: the time is bounded, and the thread ends with it."""
    monkeypatch.setattr(heard, "LIMIT_S", 0.4)
    chats.plays = [play]
    before = threading.active_count()
    began = time.monotonic()
    outcome = send(url, HELLO)

    assert (outcome.sent, outcome.failure, outcome.unsure) == (False, "later", True)
    assert outcome.error.startswith("The target did not answer in time.")
    assert time.monotonic() - began < 3
    chats.let_go.set()
    assert threading.active_count() <= before + 2  # the server's own, and the watchdog


@THREE
def test_a_reset_after_the_request_leaves_it_open(url: str, chats: Chats) -> None:
    """It may have arrived."""
    chats.plays = [real.reset]
    outcome = send(url, HELLO)

    assert (outcome.sent, outcome.failure, outcome.unsure) == (False, "later", True)
    assert "broke the connection off" in outcome.error


@THREE
def test_half_an_answer_leaves_it_open(url: str, chats: Chats) -> None:
    """The status is known, what it refuses is not."""
    chats.plays = [real.half]
    outcome = send(url, HELLO)

    assert (outcome.sent, outcome.failure, outcome.unsure, outcome.status) == (False, "later", True, 200)
    assert "in the middle of its answer" in outcome.error


def test_an_answer_without_end_is_not_read(chats: Chats) -> None:
    """Its status counts; the rest stays where it is."""
    chats.plays = [real.flood]
    began = time.monotonic()

    assert send("jsons://chat.example.org/hook", HELLO).sent
    assert time.monotonic() - began < 5


@THREE
def test_a_server_with_a_wrong_certificate_gets_nothing(url: str, chats: Chats, settings: Settings) -> None:
    """TLS fails before a byte of the message is out; so it surely did not arrive."""
    other, _ = real.certificate("others")
    settings.FETTLE_NOTIFY_CA_FILE = str(other)
    outcome = send(url, HELLO)

    assert (outcome.sent, outcome.failure, outcome.unsure, outcome.status) == (False, "later", False, None)
    assert "TLS failed" in outcome.error
    assert "certificate" in outcome.error
    assert chats.got == []


def test_a_name_that_is_unknown_and_a_port_that_is_closed_are_told_apart(chats: Chats) -> None:
    """Neither can have arrived."""
    unknown, closed = send("jsons://nowhere.example.org/x", HELLO), send("json://127.0.0.1:9/x", HELLO)

    assert (unknown.unsure, closed.unsure) == (False, False)
    assert "unknown" in unknown.error
    assert "refuses connections" in closed.error


@THREE
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_to_elsewhere_is_a_refusal(url: str, status: int, chats: Chats) -> None:
    """A login page that answers 200 took no message, and another server is told nothing."""
    chats.plays = [answer(status, "", Location="https://chat.example.org/login")]
    outcome = send(url, HELLO)

    assert (outcome.sent, outcome.failure, outcome.status) == (False, "never", status)
    assert "leads elsewhere" in outcome.error
    assert {got.host for got in chats.got} == {host_of(url)}


def test_a_redirect_on_the_same_server_that_keeps_the_request_is_followed(chats: Chats) -> None:
    """308, to the path with a slash."""
    chats.plays = [answer(308, "", Location="/hook/")]
    outcome = send("jsons://chat.example.org/hook", HELLO)

    assert outcome.sent
    assert [got.path for got in chats.got] == ["/hook", "/hook/"]
    assert chats.got[1].body["message"].startswith("GPU 3")


def test_what_is_heard_of_two_at_once_is_kept_apart(chats: Chats) -> None:
    """Each delivery hears its own answers."""
    chats.plays = []
    found: dict[int, Outcome] = {}

    def deliver(status: int) -> None:
        found[status] = send(f"jsons://chat.example.org/{status}", HELLO)

    by_path = {f"/{status}": answer(status, f"says_{status}") for status in (200, 403, 429, 500)}
    chats.plays = [lambda handler: by_path[handler.path](handler)] * 4
    threads = [threading.Thread(target=deliver, args=(status,)) for status in (200, 403, 429, 500)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert {status: outcome.status for status, outcome in found.items()} == {200: 200, 403: 403, 429: 429, 500: 500}
    assert {status: outcome.failure for status, outcome in found.items()} == {200: "", 403: "never", 429: "limited", 500: "later"}
    assert all(status == 200 or f"says_{status}" in outcome.error for status, outcome in found.items())


@pytest.mark.parametrize("asked", ["retry=3&wait=0", "optional=yes"])
def test_no_url_makes_a_failure_a_success_or_several_attempts_of_one(asked: str, chats: Chats) -> None:
    """An attempt is one, and told as it was."""
    chats.plays = [answer(500), answer(500), answer(500)]

    assert not send(f"jsons://chat.example.org/hook?{asked}", HELLO).sent
    assert len(chats.got) == 1


def test_other_users_of_requests_are_left_alone(chats: Chats) -> None:
    """The stand-in is in Apprise's modules alone."""
    send(SLACK, HELLO)
    theirs: Any = sys.modules["apprise.plugins.slack"].__dict__["requests"]

    assert type(theirs).__name__ == "_Requests"
    assert requests.post.__module__ == "requests.api"
    assert (theirs.codes, theirs.RequestException) == (requests.codes, requests.RequestException)


def host_of(url: str) -> str:
    """The server that a chat's URL leads to."""
    return {SLACK: "hooks.slack.com", FEISHU: "open.feishu.cn", DINGTALK: "oapi.dingtalk.com"}[url]
