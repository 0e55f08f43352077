"""A JSON webhook gets findings as data, so that a program can act on their changes."""

import pytest
from django.utils import timezone

from fleet.findings import lifecycle
from fleet.findings.lifecycle import Place, report
from fleet.findings.models import Transition
from fleet.inventory.models import Gpu
from fleet.notify import deliver, sending, webhook
from fleet.notify.deliver import Message
from fleet.notify.message import message
from fleet.notify.models import Delivery, Route
from tests.fleet.notify.receiver import Receiver
from tests.fleet.notify.telling import tell
from tests.fleet.rows import found, gpu, node

pytestmark = pytest.mark.django_db


def sick(card: Gpu) -> int:
    """Its finding opens."""
    return report(timezone.now(), found(str(card.pk), "row-remap-failed", "critical"), Place(card.node_id, (card.pk,))).pk


def sent() -> None:
    """What is due is sent."""
    for made in tell():
        assert sending.attempt(made) == "sent"


def test_an_opening_and_an_end_arrive_with_what_they_are_about(chat: Receiver) -> None:
    """The key stands in the body and in the header, for receivers that drop repeats."""
    Route.objects.create(name="scheduler", url=chat.url("hook"))
    card = gpu(node("n1"), 3)
    pk = sick(card)
    sent()
    lifecycle.end(f"row-remap-failed:gpu:{card.pk}", timezone.now(), "The GPU is back.")
    sent()

    opened, over = chat.got
    assert (opened["event"], over["event"], opened["findings_total"]) == ("opened", "resolved", 1)
    (one,) = opened["findings"]
    assert {name: one[name] for name in ("id", "rule", "severity", "scope", "target", "node", "condition")} == {
        "id": pk, "rule": "row-remap-failed", "severity": "critical", "scope": "gpu", "target": str(card.pk), "node": "n1", "condition": "firing",
    }  # fmt: skip
    assert one["gpus"] == [{"gpu": card.pk, "index": 3, "uuid": card.uuid}]
    assert opened["key"] == opened["headers"]["Idempotency-Key"] == Delivery.objects.order_by("pk")[0].key
    assert over["findings"][0]["condition"] == "resolved"
    assert opened["title"].startswith("[critical]")


def test_findings_that_are_one_message_are_all_in_it(chat: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to a bound; the number of all is told."""
    Route.objects.create(name="scheduler", url=chat.url())
    n1 = node("n1")
    wanted = [sick(gpu(n1, index)) for index in range(4)]
    monkeypatch.setattr(webhook, "MOST", 3)
    sent()

    (got,) = chat.got
    assert got["findings_total"] == 4
    assert {one["id"] for one in got["findings"]} < set(wanted)
    assert len(got["findings"]) == 3


def test_the_urls_own_headers_and_fields_go_along(chat: Receiver) -> None:
    """A receiver knows its sender by a header, and may name a field otherwise."""
    words = Message("T", "B", "info", "k", {"event": "opened", "key": "k"})
    url = f"{chat.url()}?+X-Token=s3cret&:event=mine"
    assert deliver.send(url, words).sent

    (got,) = chat.got
    assert (got["headers"]["X-Token"], got["event"], got["key"]) == ("s3cret", "mine", "k")


def test_a_chat_gets_no_data_of_programs() -> None:
    """Other services have fields of their own."""
    sick(gpu(node("n1"), 0))
    for scheme, has_data in (("json", True), ("jsons", True), ("slack", False), ("xml", False)):
        Route.objects.all().delete()
        Route.objects.create(name=scheme, url=f"{scheme}://example.org/a/b/c")
        Transition.objects.update(routed_at=None)
        (pk,) = tell()
        assert (message(Delivery.objects.get(pk=pk)).extras is not None) == has_data, scheme
