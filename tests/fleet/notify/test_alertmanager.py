"""Our alerts in a site's Alertmanager: Debian's real one, and what a request looks like."""

import base64
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from fleet.findings import lifecycle
from fleet.findings.lifecycle import Judged, Place, reconcile
from fleet.inventory.models import Gpu
from fleet.notify import deliver, sending
from fleet.notify.deliver import send
from fleet.notify.models import Route
from fleet.notify.note import Alert, Message
from fleet.notify.trial import trial
from tests.fleet.notify.alertmanager import Alertmanager, alertmanager
from tests.fleet.notify.chats import Chats, answer, chatting
from tests.fleet.notify.telling import tell
from tests.fleet.rows import NOON, found, gpu, node
from tests.serving import eventually

NOW = timezone.now()
HOT = Alert(
    "gpu-too-hot:gpu:7", True, "critical", "It is hot (n1 GPU 3)", "It is at 95 °C.", "https://fettle.example.org/findings/1/", NOW,
    labels={"alertname": "gpu-too-hot", "severity": "critical", "node": "n1", "target": "n1 GPU 3"},
)  # fmt: skip


def telling(*alerts: Alert) -> Message:
    """A message with these alerts."""
    return Message("[critical] It is hot (n1 GPU 3)", "It is at 95 °C.", "failure", "k" * 32, alerts=alerts)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Alertmanager]:
    """An Alertmanager that nobody hears."""
    with alertmanager(tmp_path_factory.mktemp("alertmanager")) as program:
        yield program


@pytest.fixture
def home(real: Alertmanager) -> str:
    """Its route's URL."""
    return real.url.replace("http", "alertmanager")


@pytest.fixture
def card(db: None, home: str) -> Gpu:
    """A GPU, and a route to Alertmanager."""
    Route.objects.create(name="am", url=home, min_severity="info")
    return gpu(node(f"n{timezone.now().timestamp():.6f}"), 3)


def judge(card: Gpu, step: int, severity: str = "") -> None:
    """One judgement, and whatever it makes is sent."""
    seen = [found(str(card.pk), "gpu-too-hot", severity)] if severity else []  # type: ignore[arg-type]
    judged = Judged(frozenset(["gpu-too-hot"]), frozenset([("gpu", str(card.pk))]), frozenset(), {card.node_id}, {card.pk})
    reconcile(NOW - timedelta(minutes=5 - step / 6), seen, judged, {("gpu", str(card.pk)): Place(card.node_id, (card.pk,))})
    for pk in tell():
        assert sending.attempt(pk) == "sent"


def firing(real: Alertmanager, card: Gpu) -> list[dict[str, str]]:
    """Labels of what fires there of the card's node."""
    return [one["labels"] for one in real.alerts() if one["labels"].get("node") == card.node.name]


def test_an_alert_begins_grows_worse_and_ends_there(real: Alertmanager, card: Gpu) -> None:
    """With each change what fires there is what fires here, though its severity, which is a label there, has changed."""
    judge(card, 0, "warn")
    judge(card, 1, "warn")
    (first,) = firing(real, card)
    judge(card, 2, "critical")
    (worse,) = firing(real, card)
    judge(card, 3)
    judge(card, 4)

    assert (first["severity"], worse["severity"]) == ("warn", "critical")
    assert (worse["alertname"], worse["target"], worse["source"]) == ("gpu-too-hot", f"{card.node.name} GPU 3", "fettle")
    assert firing(real, card) == []


def test_it_fires_until_its_end_is_told(real: Alertmanager, home: str) -> None:
    """Alertmanager forgets what is not repeated; ours says that it lasts."""
    assert send(home, telling(HOT)).sent
    (got,) = [one for one in real.alerts() if one["labels"].get("node") == "n1"]

    assert got["endsAt"] > (timezone.now() + timedelta(days=20)).isoformat()
    assert got["annotations"] == {"summary": "It is hot (n1 GPU 3)", "description": "It is at 95 °C."}
    assert got["generatorURL"] == HOT.link


def test_its_own_receiver_hears_of_the_beginning_and_the_end(tmp_path: Path) -> None:
    """From our finding to the webhook of the site's Alertmanager."""
    over = Alert(**{name: getattr(HOT, name) for name in HOT.__dataclass_fields__} | {"firing": False, "ends_at": timezone.now()})
    with chatting(None) as hook, alertmanager(tmp_path, f"http://127.0.0.1:{hook.server_port}/") as program:
        url = program.url.replace("http", "alertmanager")
        assert send(url, telling(HOT)).sent
        assert eventually(lambda: len(hook.got) > 0, 20)
        assert send(url, telling(over)).sent
        assert eventually(lambda: len(hook.got) > 1, 20)

    assert [got.body["status"] for got in hook.got[:2]] == ["firing", "resolved"]


def test_a_test_message_shows_and_goes(real: Alertmanager, db: None, home: str) -> None:
    """It does not stay for a month."""
    assert trial(Route.objects.create(name="am", url=home)).sent
    (got,) = [one for one in real.alerts() if one["labels"]["alertname"] == "fettle-test"]

    assert got["endsAt"] < (timezone.now() + timedelta(minutes=3)).isoformat()


def test_what_it_finds_wrong_is_said(home: str) -> None:
    """An alert without labels is none."""
    bare = Alert("f", True, "info", "", "", "", NOW)
    outcome = send(home, telling(bare))

    assert (outcome.sent, outcome.failure, outcome.status) == (False, "never", 400)


@pytest.mark.django_db
def test_what_was_measured_of_advice_is_no_alert() -> None:
    """Nothing is sent, and nothing fails."""
    with chatting(None) as server:
        assert send(f"alertmanager://127.0.0.1:{server.server_port}", telling()).sent

    assert server.got == []


@pytest.mark.parametrize(
    ("url", "header", "value"),
    [
        ("alertmanagers://chat.example.org/", "Authorization", None),
        (
            "alertmanagers://me:p%40ss@chat.example.org/",
            "Authorization",
            "Basic " + base64.b64encode(b"me:p@ss").decode(),
        ),
        ("alertmanagers://chat.example.org/?token=t0ken%2B", "Authorization", "Bearer t0ken+"),
        ("alertmanagers://chat.example.org/?+X-Scope-OrgID=fleet", "X-Scope-OrgID", "fleet"),
    ],
)
def test_a_url_says_who_sends(url: str, header: str, value: str | None, chats: Chats) -> None:
    """By a password, a token, or any header."""
    assert send(url, telling(HOT)).sent
    (got,) = chats.got

    assert got.path == "/api/v2/alerts"
    assert got.headers.get(header) == value


def test_a_url_may_have_a_path_and_labels(chats: Chats) -> None:
    """Behind a proxy; and for a site with several fleets."""
    assert send("alertmanagers://chat.example.org/am/x?:env=prod&:team=gpu", telling(HOT)).sent
    (got,) = chats.got

    assert got.path == "/am/x/api/v2/alerts"
    assert got.body[0]["labels"] == {**HOT.labels, "env": "prod", "team": "gpu"}
    assert set(got.body[0]) == {"labels", "annotations", "startsAt", "endsAt", "generatorURL"}


def test_no_url_of_it_shows_a_secret() -> None:
    """As far as it may be shown."""
    target = deliver._target("alertmanagers://me:s3cretpass@host:9093/x?token=t0kenthatnobodyknows&+X-Key=k3ythatnobodyknows")
    shown = target.url(privacy=True)

    assert "host:9093/x" in shown
    for secret in ("s3cretpass", "t0kenthatnobodyknows", "k3ythatnobodyknows"):
        assert secret not in shown
        assert secret in target.url()
    assert deliver.problem(target.url()) is None


@pytest.mark.parametrize("status", [429, 503, 401])
def test_its_refusals_are_heard(status: int, chats: Chats) -> None:
    """As those of chats are."""
    chats.plays = [answer(status, "no", Retry_After="3")]
    outcome = send("alertmanagers://chat.example.org/", telling(HOT))

    assert (outcome.sent, outcome.status, outcome.failure) == (False, status, "never" if status == 401 else "limited")


def test_an_end_bears_the_labels_of_its_beginning(card: Gpu, real: Alertmanager) -> None:
    """The node has been put into another rack meanwhile."""
    lifecycle.report(NOON, found(str(card.pk), "row-remap-failed", "critical"), Place(card.node_id, (card.pk,)))
    assert [sending.attempt(pk) for pk in tell()] == ["sent"]
    assert len(firing(real, card)) == 1
    lifecycle.end(f"row-remap-failed:gpu:{card.pk}", timezone.now(), "The GPU is back.")
    assert [sending.attempt(pk) for pk in tell()] == ["sent"]

    assert firing(real, card) == []
