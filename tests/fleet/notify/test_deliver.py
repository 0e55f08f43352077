"""Deliveries to a real HTTP receiver: sent once, retried, given up, raced for, and taken over from the dead."""

import io
import logging
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone
from pytest_django import Settings

from fleet.findings.lifecycle import Place, report
from fleet.notify import deliver, outcome, sending, tasks
from fleet.notify.models import Delivery, Route
from tests.fleet.notify.receiver import Receiver
from tests.fleet.notify.telling import tell
from tests.fleet.rows import found, gpu, node
from tests.fleet.site import Site
from tests.serving import migrated_database

SECRET = "T0kenThatNobodyMaySee"


def delivery(url: str) -> Delivery:
    """A delivery that is due."""
    home = node()
    card = gpu(home)
    Route.objects.create(name="chat", url=url)
    report(timezone.now(), found(target=str(card.pk), severity="critical"), Place(home.pk, (card.pk,)))
    (made,) = tell()
    return Delivery.objects.get(pk=made)


def again(row: Delivery) -> str:
    """Attempt it once more, as if its waiting time were over."""
    Delivery.objects.filter(pk=row.pk).update(next_try_at=timezone.now())
    return sending.attempt(row.pk)


@pytest.mark.django_db
def test_a_delivery_arrives_with_its_numbers_its_change_and_its_link(chat: Receiver, settings: Settings) -> None:
    """What a person needs to act stands in the message."""
    settings.FETTLE_BASE_URL = "https://fettle.example.org/"
    row = delivery(chat.url(SECRET))

    assert sending.attempt(row.pk) == "sent"
    (got,) = chat.got
    assert got["title"] == "[critical] The power limit takes the speed (n1 GPU 0)"
    assert got["type"] == "failure"
    for part in (
        "At 500 W the clocks fall for 25% of the time.",
        "Node: n1",
        "GPU: 0 (NVIDIA H200, GPU-n1-0)",
        "• SM active: 91\u00a0% (threshold ≥ 50\u00a0%)",
        "• Power: 500\u00a0W",
        "    nvidia-smi -i GPU-1 -pl 700",
        "Expected gain: 1.05–1.2× the speed",
        "To undo it: Set the limit back.",
        f"https://fettle.example.org/findings/{row.transition.finding_id}/",
        row.key,
    ):
        assert part in got["message"]
    assert got["headers"]["Idempotency-Key"] == row.key
    assert "repeat" not in got["message"]


@pytest.mark.django_db
def test_a_delivery_that_was_sent_is_not_sent_again(chat: Receiver) -> None:
    """The task may be delivered twice."""
    row = delivery(chat.url())
    assert sending.attempt(row.pk) == "sent"

    assert again(row) == ""
    assert len(chat.got) == 1


@pytest.mark.django_db
def test_after_an_error_it_is_tried_again_with_the_same_key(chat: Receiver) -> None:
    """500, then 200: two attempts, one row, taken once."""
    chat.statuses = [500]
    row = delivery(chat.url())

    assert sending.attempt(row.pk) == "failed"
    row.refresh_from_db()
    assert row.next_try_at > timezone.now()
    assert "500" in row.error
    assert again(row) == "sent"
    row.refresh_from_db()
    assert (row.attempts, row.error, Delivery.objects.count()) == (2, "", 1)
    assert [got["status"] for got in chat.got] == [500, 200]
    assert chat.got[0]["headers"]["Idempotency-Key"] == chat.got[1]["headers"]["Idempotency-Key"]
    assert "repeat" not in chat.got[1]["message"]


@pytest.mark.django_db
def test_it_is_not_tried_before_its_time(chat: Receiver) -> None:
    """Whoever calls, the waiting time holds."""
    chat.statuses = [500]
    row = delivery(chat.url())
    sending.attempt(row.pk)

    assert sending.attempt(row.pk) == ""
    assert len(chat.got) == 1


@pytest.mark.django_db
def test_a_target_that_does_not_answer_may_have_it_so_the_next_message_says_so(chat: Receiver) -> None:
    """A read that times out leaves it open; the repeat carries the same key."""
    chat.delay_s = 1.5
    row = delivery(chat.url() + "?rto=0.3")
    assert sending.attempt(row.pk) == "failed"
    row.refresh_from_db()
    assert row.may_repeat
    assert row.error.startswith("The target did not answer in time.")

    chat.delay_s = 0
    assert again(row) == "sent"
    assert chat.got[-1]["message"].startswith("This may be a repeat")
    assert chat.got[-1]["headers"]["Idempotency-Key"] == row.key


@pytest.mark.django_db
def test_it_is_dead_after_the_last_attempt(chat: Receiver) -> None:
    """Dead letters keep their reason and are not tried again."""
    chat.statuses = [500]
    row = delivery(chat.url())
    Delivery.objects.filter(pk=row.pk).update(attempts=outcome.MAX_ATTEMPTS - 1)

    assert sending.attempt(row.pk) == "dead"
    row.refresh_from_db()
    assert "500" in row.error
    assert again(row) == ""


@pytest.mark.django_db
def test_a_claim_of_a_dead_worker_is_taken_over_and_the_message_says_so(chat: Receiver) -> None:
    """Between the chat's answer and our note of it a worker died: the one message that may repeat."""
    row = delivery(chat.url())
    Delivery.objects.filter(pk=row.pk).update(state="sending", attempts=1, claimed_at=timezone.now())
    assert sending.attempt(row.pk) == ""

    Delivery.objects.filter(pk=row.pk).update(claimed_at=timezone.now() - sending.CLAIM - timedelta(seconds=1))
    assert sending.take() == [row.pk]
    assert sending.attempt(row.pk) == "sent"
    assert chat.got[0]["message"].startswith("This may be a repeat")


@pytest.mark.django_db
def test_a_worker_that_comes_back_late_does_not_overwrite_the_result(chat: Receiver) -> None:
    """Its claim has passed on: the number of the attempt tells."""
    row = delivery(chat.url())
    Delivery.objects.filter(pk=row.pk).update(state="sending", attempts=2, claimed_at=timezone.now())
    row.refresh_from_db()
    row.attempts = 1

    assert sending._note(row, state="failed", error="late") == ""
    row.refresh_from_db()
    assert (row.state, row.error) == ("sending", "")


@pytest.mark.django_db
def test_a_route_that_was_switched_off_gets_no_more(chat: Receiver) -> None:
    """What still waited for it is dead."""
    row = delivery(chat.url())
    Route.objects.update(enabled=False)

    assert sending.attempt(row.pk) == "dead"
    assert chat.got == []


RACE = """
import sys, threading
import django
django.setup()
from django.db import connection
from django.utils import timezone
from fleet.findings.lifecycle import report, Place
from fleet.notify import sending
from tests.fleet.notify.telling import tell
from fleet.notify.models import Route
from tests.fleet.rows import found

Route.objects.create(name="chat", url=sys.argv[1])
report(timezone.now(), found(severity="critical"), Place(None))
start, made, states = threading.Barrier(4), [], []
def work():
    start.wait(10)
    made.extend(tell())
    start.wait(10)
    states.append(sending.attempt(made[0]))
    connection.close()
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert len(made) == 1, made
assert sorted(states) == ["", "", "", "sent"], states
"""


def test_of_four_workers_one_routes_and_one_sends(chat: Receiver, tmp_path: Path) -> None:
    """Four threads with transactions of their own on a database file try at the same moments; claims decide."""
    chat.delay_s = 0.3
    site = Site(tmp_path, "redis://127.0.0.1:1/0")
    (tmp_path / "fettle.sqlite3").write_bytes(migrated_database())
    site.run(RACE, chat.url())

    assert len(chat.got) == 1
    assert [state for _, state, _ in site.deliveries()] == ["sent"]


@pytest.fixture
def logged(capfd: pytest.CaptureFixture[str]) -> Iterator[Callable[[], str]]:
    """All that reaches the root logger or the terminal, with every level let through."""
    root, stream = logging.getLogger(), io.StringIO()
    handler, level = logging.StreamHandler(stream), root.level
    root.addHandler(handler)
    root.setLevel(1)
    yield lambda: stream.getvalue() + "".join(capfd.readouterr())
    root.removeHandler(handler)
    root.setLevel(level)


@pytest.mark.django_db
@pytest.mark.parametrize("status", [200, 404, None])
@pytest.mark.parametrize("form", ["json://user:{}@127.0.0.1:{}/", "json://127.0.0.1:{1}/{0}", "json://127.0.0.1:{1}/?+X-Key={0}"])
def test_no_secret_is_logged_or_kept(form: str, status: int | None, chat: Receiver, logged: Callable[[], str]) -> None:
    """Taken, refused, or not reached at all: no log line and no error names a part of the URL."""
    chat.statuses = [status] if status else []
    row = delivery(form.format(SECRET, chat.server_port if status else 9))

    tasks.deliver(row.pk)
    row.refresh_from_db()
    assert row.state == {200: "sent", 404: "dead", None: "failed"}[status]
    assert bool(row.error) == (status != 200)
    assert SECRET not in row.error
    said = logged()
    assert SECRET not in said
    assert status == 200 or f"Delivery {row.pk} to chat is {row.state}" in said


@pytest.mark.parametrize("url", ["", "nonsense", "nosuch://x", "json://", "two words", "json://a/ json://b/"])
def test_a_url_that_apprise_cannot_use_is_a_problem(url: str) -> None:
    """It is said before anything is stored, and without the URL."""
    problem = deliver.problem(url)

    assert problem
    assert "nosuch" not in problem


def test_a_url_that_apprise_knows_is_none() -> None:
    """Chat, mail and webhooks alike."""
    for url in (
        "json://127.0.0.1:1/",
        "mailto://user:pass@example.org",
        "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/#general",
    ):
        assert deliver.problem(url) is None


@pytest.mark.parametrize(("url", "shown"), [("slack://a/b", "slack"), ("a secret", "?"), ("se cret://x", "?")])
def test_of_a_url_only_the_scheme_is_shown(url: str, shown: str) -> None:
    """Whatever is no scheme is not shown either."""
    assert deliver.service(url) == shown


@pytest.mark.parametrize(
    ("url", "said", "kept"),
    [
        ("json://127.0.0.1:8172/fail", "Failed to send JSON notification", "Failed to send JSON notification"),
        ("json://127.0.0.1:8172/fail", "to /fail: error", "to /***: error"),
        ("slack://T1JJ3T3L2/A1BRTD4JD/secrettoken", "xT1JJ3T3L2y refused", "x***y refused"),
        ("json://user:pass@host", "passed user:pass", "passed ***:***"),
        ("json://me:averylongpassphrase@host", "%40averylongpassphrasex", "%40***x"),
    ],
)
def test_a_short_word_of_the_url_is_masked_as_a_word_alone(url: str, said: str, kept: str) -> None:
    """What Apprise says stays readable, and no secret is left in it."""
    assert deliver.without_secrets(said, url) == kept
