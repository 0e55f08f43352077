"""The pages of alerts in a real browser: rows are added and kept, ticks go together, and nothing steers the page or makes it wider."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page

from tests.browser.conftest import CHROMIUM, NAME, PASSWORD, Site
from tests.browser.test_long_texts import TELEPHONE, WIDER
from tests.serving import serve

ROWS = """
from datetime import timedelta
from uuid import uuid4
from django.contrib.auth import get_user_model
from django.utils import timezone
from fleet.annotations.models import Annotation
from fleet.findings.models import Finding, Transition
from fleet.inventory.models import Node
from fleet.notify.models import LABELS, Acknowledgement, Delivery, Inhibition, Route, Silence
from fleet.notify.sayings import said

now, evil = timezone.now(), "<img src=x onerror=alert(1)>\\u202e"
get_user_model().objects.create_superuser(NAME, password=PASSWORD)
node = Node.objects.create(name="W" * 200, boot="b", last_seen_at=now, connected_at=now)
every = [{"label": label, "op": "not_in", "values": ["W" * 300] * 5} for label in LABELS]
hours = [{"days": [day], "from": "09:00", "to": "24:00", "timezone": "America/Argentina/ComodRivadavia"} for day in range(7)]
last = Route.objects.create(name=evil, url="json://127.0.0.1:1/", enabled=False, last=True)
first = Route.objects.create(name="W" * 100, url="json://127.0.0.1:1/", matchers=every, active_times=hours, group_by=list(LABELS), escalate_to=last, escalate_after_s=60)
text = {"id": "W" * 900, "params": {}}
content = {"title": text, "summary": text, "risk": text, "rollback": text, "verify": text, "sources": [], "change": [], "evidence": []}
cause = None
for title, target in (("W" * 900, "W" * 300), (evil, evil), ("short", "t")):
    found = Finding.objects.create(
        fingerprint=title[:300], rule="W" * 60, severity="critical", severity_rank=3, scope="job", target=target, node=node, confidence="high",
        condition="firing", opened_at=now, last_seen_at=now, content=content | {"title": {"id": title, "params": {}}}, cause=cause if title == evil else None)
    cause = cause or found
    moved = Transition.objects.create(finding=found, axis="condition", before="pending", after="firing", routed_at=now)
    Delivery.objects.create(route=first, transition=moved, key=uuid4().hex, state="dead", error="W" * 500, status=500, attempts=16, may_repeat=True)
    Delivery.objects.create(route=last, transition=moved, key=uuid4().hex, state="muted", why_muted=said("silence", comment="W" * 300).kept())
Acknowledgement.objects.create(finding=cause, severity_rank=3, by_name="W" * 150, via="link", comment="W" * 300)
for name in ("W" * 300, evil):
    Silence.objects.create(matchers=[{"label": "job", "op": "in", "values": [name] * 9}], ends_at=now + timedelta(hours=1), comment=name, by_name=name[:150])
Annotation.objects.create(scope="node", target="W" * 200, key="maintenance", value=True, by_name="W" * 150)
Inhibition.objects.create(name="W" * 100, source=every, target=every, equal=list(LABELS))
"""
PAGES = ("/alerts/", "/alerts/?by=node", "/alerts/?by=rule", "/alerts/silences/?finding=1", "/alerts/routes/", "/alerts/routes/new/", "/alerts/routes/1/",
         "/alerts/routes/2/", "/alerts/routes/try/?finding=1", "/alerts/inhibitions/1/", "/alerts/deliveries/", "/alerts/noise/", "/findings/1/")  # fmt: skip


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server whose alerts, routes and silences have names as long and as hostile as may be; no agent."""
    if CHROMIUM is None:
        pytest.skip("needs Chromium (apt-get install chromium)")
    with serve(tmp_path_factory.mktemp("alerts") / "data", {}) as server:
        site = Site(server)
        site.run(f"NAME, PASSWORD = {NAME!r}, {PASSWORD!r}\n{ROWS}")
        yield site


@pytest.mark.parametrize("width", [TELEPHONE["width"], 1440])
def test_no_page_of_alerts_is_wider_than_the_screen(page: Page, width: int) -> None:
    """On a telephone and on a screen; and no name runs as a script."""
    page.on("dialog", lambda dialog: pytest.fail(f"a name spoke: {dialog.message}"))
    page.set_viewport_size({"width": width, "height": 900})
    wider = {}
    for address in PAGES:
        answer = page.goto(address)
        assert answer is not None
        assert answer.status == 200, address
        page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
        if found := page.evaluate(WIDER):
            wider[address] = found[:12]

    assert wider == {}
    assert page.locator("img[src=x]").count() == 0


def test_a_row_is_added_to_a_form_and_kept(page: Page) -> None:
    """The third matcher, in a row that the script made, is saved as what it is."""
    page.goto("/alerts/routes/new/")
    page.fill("[name=name]", "rows")
    page.fill("[name=url]", "json://127.0.0.1:1/secret")
    rows = page.locator("fieldset", has=page.locator("[name=matchers-0-label]"))
    rows.locator("[data-add-row]").click()
    for number, label in enumerate(("team", "node", "rack")):
        page.select_option(f"[name=matchers-{number}-label]", label)
        page.fill(f"[name=matchers-{number}-values]", f"a{number}*\nb")
    page.click("form.own button.primary")
    page.wait_for_selector("ul.messages")

    assert [page.input_value(f"[name=matchers-{number}-values]") for number in range(3)] == ["a0*\nb", "a1*\nb", "a2*\nb"]
    assert page.input_value("[name=url]") == ""


def test_all_alerts_of_a_page_are_ticked_and_acknowledged(page: Page) -> None:
    """One tick for all, one press; the number beside “Alerts” goes."""
    page.goto("/alerts/")
    assert page.locator("nav .waiting").inner_text() == "1"
    page.check("[data-tick-all] input")
    page.fill("#comment", "I look")
    page.click("button[value=acknowledge]")
    page.wait_for_selector("ul.messages")

    assert page.locator("nav .waiting").count() == 0
    assert page.locator("q", has_text="I look").count() == 1
