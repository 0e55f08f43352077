"""The part of a finding's page on its cause, its consequences and its witnesses."""

from datetime import timedelta

import pytest
from django.test import Client

from fleet.accounts.models import User
from fleet.findings.judged import Judged, Place
from fleet.findings.lifecycle import end, reconcile, report
from fleet.findings.models import Finding
from fleet.inventory.models import Gpu
from tests.fleet.rows import NOON, found, gpu, minutes, node

pytestmark = pytest.mark.django_db


def lost(card: Gpu) -> Finding:
    """The card fell off the bus."""
    return report(NOON, found(str(card.pk), "xid-fallen-off-bus", "critical"), Place(card.node_id, (card.pk,)))


def hangs(number: int, card: Gpu) -> Finding:
    """A job on the card hangs, a minute later."""
    key = f"west/{number}"
    place = {("job", key): Place(card.node_id, (card.pk,))}
    reconcile(NOON + minutes(1) + timedelta(seconds=number), [found(key, "collective-hang", "critical", "job")], Judged(), place)
    return Finding.objects.get(target=key)


def page(client: Client, row: Finding) -> str:
    """The finding's page."""
    client.force_login(User.objects.create_user("vera"))
    return client.get(f"/findings/{row.pk}/").content.decode()


def test_a_consequence_names_its_cause(client: Client) -> None:
    """With a link, what the two share, and what that means for who is told."""
    card = gpu(node())
    cause, row = lost(card), hangs(1, card)
    html = page(client, row)

    assert "Because of" in html
    assert f'href="/findings/{cause.pk}/"' in html
    assert "on the same GPU" in html
    assert "It explains" not in html


def test_a_cause_lists_what_it_explains(client: Client) -> None:
    """By rule, with how many, and the first of them by name."""
    card = gpu(node())
    cause = lost(card)
    rows = [hangs(number, card) for number in range(12)]
    html = page(client, cause)

    assert "It explains" in html
    assert "12 findings · on the same GPU" in html
    assert html.count('href="/findings/') >= 10
    assert f'href="/findings/{rows[0].pk}/"' in html
    assert f'href="/findings/{rows[11].pk}/"' not in html
    assert "and 2 more" in html


def test_it_says_who_saw_it(client: Client) -> None:
    """Each kind of witness with how often."""
    cause = lost(gpu(node()))
    html = page(client, cause)

    assert "Seen by" in html
    assert "kernel log" in html


def test_the_history_tells_of_causes(client: Client) -> None:
    """Found late, and freed when the cause is over and it is not."""
    card = gpu(node())
    row = hangs(1, card)
    cause = lost(card)
    end(cause.fingerprint, NOON + minutes(2), "back")
    place = {("job", "west/1"): Place(card.node_id, (card.pk,))}
    reconcile(NOON + minutes(3), [found("west/1", "collective-hang", "critical", "job")], Judged(), place)
    html = page(client, row)

    assert f"<strong>finding {cause.pk}</strong>" in html
    assert f"finding {cause.pk} → <strong>none known</strong>" in html
    assert "Its cause is over, and it is not." in html


def test_a_finding_without_any_says_nothing_of_them(client: Client) -> None:
    """One of before witnesses were kept."""
    row = lost(gpu(node()))
    Finding.objects.update(witnesses={})
    html = page(client, row)

    assert not [said for said in ("Because of", "It explains", "Seen by") if said in html]
