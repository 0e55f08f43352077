"""A route's URL holds secrets: none reaches a log, an error, a row, a page, the terminal or an exception, whatever goes wrong."""

import io
import logging
import socket
import traceback
from collections.abc import Callable, Iterator

import pytest
from apprise import Apprise  # noqa: TID251 - whatever it knows is tried
from pytest_django import Settings

from fleet.notify import deliver, heard, tasks
from fleet.notify.deliver import problem, send
from fleet.notify.models import Route
from fleet.notify.note import Message
from fleet.notify.targets.alerted import Alerted
from fleet.notify.trial import trial
from tests.fleet.notify import chats as real
from tests.fleet.notify.chats import DINGTALK, DISCORD, FEISHU, SLACK, TELEGRAM, WECOM, Chats

SECRET = "s3cr3tThatNobodyMaySee0123456789"
HELLO = Message("T", "B", "info", "k" * 32)
LOCAL = {"dbus", "kde", "qt", "glib", "gnome", "macosx", "windows", "syslog", "blink1"}
"""They act on the machine itself."""


@pytest.fixture
def said(capfd: pytest.CaptureFixture[str]) -> Iterator[Callable[[], str]]:
    """All that reaches the root logger, at any level, or the terminal."""
    root, stream = logging.getLogger(), io.StringIO()
    handler, level = logging.StreamHandler(stream), root.level
    root.addHandler(handler)
    root.setLevel(1)
    yield lambda: stream.getvalue() + "".join(capfd.readouterr())
    root.removeHandler(handler)
    root.setLevel(level)


def schemes() -> list[str]:
    """All that Apprise knows, but for those that act on the machine itself."""
    known = Apprise.details(Apprise())["schemas"]
    every = {str(scheme) for one in known for scheme in (*(one["protocols"] or ()), *(one["secure_protocols"] or ()))}
    return sorted(every - LOCAL)


def forms(scheme: str) -> list[str]:
    """URLs with secrets in every place that a plugin reads, as well formed as one can be for all."""
    return [
        f"{scheme}://{SECRET}",
        f"{scheme}://user:{SECRET}@host.example.org/{SECRET}/{SECRET}/?token={SECRET}&to={SECRET}&+X-Key={SECRET}",
        f"{scheme}://{SECRET}@{SECRET}/{SECRET}/{SECRET}/{SECRET}?apikey={SECRET}&secret={SECRET}&from={SECRET}",
    ]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # not every plugin closes its socket
@pytest.mark.parametrize("part", range(4))
def test_no_target_of_apprises_tells_a_secret_when_it_cannot_send(
    part: int, said: Callable[[], str], monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    """Refused as a URL, or sent to nowhere: every service that it knows."""
    settings.FETTLE_NOTIFY_ALLOW = []
    monkeypatch.setattr(socket, "getaddrinfo", real.leading({}))
    monkeypatch.setattr(heard, "LIMIT_S", 0.3)
    tried = 0
    for scheme in schemes()[part::4]:
        for url in forms(scheme):
            why = problem(url)
            assert SECRET.lower() not in str(why).lower(), scheme
            if why is None:
                outcome = send(url, HELLO)
                assert SECRET.lower() not in repr(outcome).lower(), scheme
                assert not outcome.sent or isinstance(deliver._target(url), Alerted), scheme  # these have no alert to tell
                tried += 1

    assert tried > 20
    assert SECRET.lower() not in said().lower()


@pytest.mark.parametrize(
    "url", [SLACK, FEISHU, DINGTALK, WECOM, DISCORD, TELEGRAM, f"jsons://me:{SECRET}@chat.example.org/{SECRET}?+X-Key={SECRET}"]
)
@pytest.mark.parametrize("status", [200, 400, 403, 429, 500])
def test_a_target_that_repeats_what_it_was_asked_tells_no_secret(
    url: str, status: int, chats: Chats, said: Callable[[], str]
) -> None:
    """Path and headers come back in its answer, and the answer's words are kept."""

    def echo(handler: real._Handler) -> None:
        words = f"{handler.path} {handler.headers.get('Authorization')} {handler.headers.get('X-Key')} refused"
        real.answer(status, words)(handler)

    chats.plays = [echo]
    outcome = send(url, HELLO)
    secrets = [
        part for part in url.replace("?", "/").replace("=", "/").replace("@", "/").replace(":", "/").split("/") if len(part) > 14
    ]

    assert secrets
    told = repr(outcome) + said()
    for secret in secrets:
        assert secret not in told or secret == "chat.example.org"
    assert "bWU6" not in told  # "me:" in base64
    assert outcome.sent or "refused" in outcome.error


@pytest.mark.parametrize("where", ["instantiate", "notify"])
def test_what_breaks_within_apprise_tells_its_kind_alone(
    where: str, said: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exception of a plugin may hold the URL, in its words or its frames; none comes out."""

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError(f"https://{SECRET}")

    monkeypatch.setattr(Apprise, where, broken)
    outcome = send(f"jsons://chat.example.org/{SECRET}", HELLO)

    assert (outcome.sent, outcome.failure) == (False, "later")
    assert "RuntimeError" in outcome.error
    assert SECRET not in repr(outcome) + said()
    if where == "instantiate":
        assert SECRET not in str(problem(f"jsons://chat.example.org/{SECRET}"))


@pytest.mark.django_db
def test_rows_and_tasks_hold_no_secret_where_they_are_shown(chats: Chats, said: Callable[[], str]) -> None:
    """Their names, their messages, what tasks are called with, and what a trial says."""
    route = Route.objects.create(name="chat", url=f"jsons://me:{SECRET}@chat.example.org/{SECRET}")
    chats.plays = [real.answer(403, f"no {SECRET}")]
    outcome = trial(route)

    shown = [repr(route), str(route), repr(outcome), deliver.service(route.url)]
    assert all(SECRET not in one for one in shown)
    assert list(tasks.deliver.run.__annotations__) == ["delivery_id", "return"]
    assert SECRET not in said()


def test_an_exception_on_its_way_through_holds_no_url(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever collects frames and their variables finds none: nothing is raised."""
    monkeypatch.setattr(deliver, "_prepare", lambda *_: 1 / 0)
    try:
        send(f"jsons://chat.example.org/{SECRET}", HELLO)
    except ZeroDivisionError as error:  # pragma: no cover
        pytest.fail("".join(traceback.TracebackException.from_exception(error, capture_locals=True).format()))
