"""The catalogue of rules and the page of each: for who may look, who may set, and nobody; with own rules, trials and hostile text."""

from dataclasses import replace

import pytest
from django.contrib.auth.models import Group
from django.test import Client
from django.utils import timezone

from advisor import xid_catalog
from advisor.rule import load
from fleet.accounts.models import User
from fleet.findings.models import Finding
from fleet.tuning import own_rules
from fleet.tuning.changes import save_own, set_override, set_state
from fleet.tuning.models import Override, OwnRule, RuleChange, RuleState, Trial
from tests.fleet.dashboard.fleet_rows import make_finding, make_node
from tests.fleet.dashboard.test_pages import text

pytestmark = pytest.mark.django_db
FULL = "/rules/memory-nearly-full/"
EVIL = "<script>alert(1)</script>"
OWN: dict[str, str] = {
    "slug": "site-empty", "scope": "gpu", "severity": "advice", "group": "performance", "opens": "busy >= 0.5 AND sm_active < 0.2",
    "clears": "", "title": "Busy and empty", "summary": "Busy {busy:.0%} of the time.", "change": "Ask the owner.",
}  # fmt: skip


@pytest.fixture
def operator(db: None) -> Client:
    """A person who may set rules, by the group."""
    user = User.objects.create_user("olga", password="x")
    user.groups.add(Group.objects.get(name="operator"))
    client = Client()
    client.force_login(user)
    return client


def ann() -> User:
    """Somebody who set something before."""
    return User.objects.create_user("ann", password="x")


@pytest.mark.parametrize("path", ["/rules/", FULL, "/rules/new/", "/rules/site-empty/edit/"])
def test_a_stranger_is_sent_to_the_login(client: Client, path: str) -> None:
    """As everywhere."""
    assert client.get(path)["Location"].startswith("/login/?next=")


@pytest.mark.parametrize("path", [f"{FULL}state/", f"{FULL}override/", "/rules/site-empty/try/", "/rules/site-empty/remove/"])
def test_who_may_look_may_not_set(viewer: Client, client: Client, path: str) -> None:
    """A viewer is refused, nobody is sent to the login, and neither changes anything; a look changes nothing either."""
    save_own("site-empty", OWN, ann())
    before = RuleChange.objects.count()
    asked = {"state": "off", "threshold": "mem_used_share_opens", "matcher": "site", "value": "0.95", "confirmed": "yes"}

    assert viewer.post(path, asked).status_code == 403
    assert client.post(path, asked).status_code == 302
    assert viewer.get(path).status_code in (403, 405)
    assert RuleChange.objects.count() == before
    assert OwnRule.objects.exists()
    assert not Trial.objects.exists()
    for form in ("/rules/new/", "/rules/site-empty/edit/"):
        assert viewer.get(form).status_code == viewer.post(form, OWN).status_code == 403


def test_the_catalogue_lists_every_rule_and_narrows(viewer: Client) -> None:
    """By words, group, state and origin; a viewer finds no button to write one."""
    whole = text(viewer, "/rules/")
    set_state("memory-nearly-full", "off", ann())

    for rule in load():
        assert rule.id in whole
    assert "/rules/new/" not in whole
    assert "{busy" not in whole
    only = text(viewer, "/rules/?state=off")
    assert "memory-nearly-full" in only
    assert "checkpoint-stall" not in only
    assert "1 rule<" in only
    assert "checkpoint-stall" in text(viewer, "/rules/?q=SAVING+a+checkpoint")
    assert "checkpoint-stall" not in text(viewer, "/rules/?group=health")
    assert "No rule matches." in text(viewer, "/rules/?q=" + "x" * 500)
    assert "No rule matches." in text(viewer, "/rules/?q=%00&state=bogus")


def test_a_rule_of_events_alone_has_its_page_too(viewer: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """No shipped rule is one today; it would have no conditions and no thresholds."""
    alone = replace(xid_catalog.HEALTH[0], rule="xid-alone")
    monkeypatch.setattr(xid_catalog, "HEALTH", (alone,))

    assert "xid-alone" in text(viewer, "/rules/?kind=event")
    page = text(viewer, "/rules/xid-alone/")
    assert "When a node reports an event of this kind." in page
    assert xid_catalog.SOURCES[0] in page


@pytest.mark.parametrize("rule", [rule.id for rule in load()])
def test_every_rule_has_its_page(viewer: Client, rule: str) -> None:
    """What, when, why, on what it rests, and no control for who may not set."""
    page = text(viewer, f"/rules/{rule}/")

    for title in ("When", "Why", "Audit trail", "The change that it asks for", "Newest findings"):
        assert title in page
    assert "<form" not in page.split('id="content"')[1]


def test_a_rule_shows_the_conditions_of_every_way_to_judge_it(viewer: Client) -> None:
    """Where the best signal is not measured, another condition holds, and stands there too."""
    page = text(viewer, "/rules/h2d-unpinned-copy/")

    assert "pcie_rx_bytes_per_s &gt; pcie_tx_bytes_per_s" in page


def test_what_does_not_exist_is_not_found(operator: Client) -> None:
    """Neither a page nor a form."""
    for path in ("/rules/none/", "/rules/site-none/edit/", "/rules/memory-nearly-full/edit/"):
        assert operator.get(path).status_code == 404
    for path in ("/rules/site-none/try/", "/rules/site-none/remove/"):
        assert operator.post(path).status_code == 404


def test_an_operator_sets_the_state(operator: Client) -> None:
    """It stands on the page and in the trail; a state that is none is refused with a sentence."""
    answer = operator.post(f"{FULL}state/", {"state": "shadow", "comment": "Too loud."}, follow=True)
    page = answer.content.decode()

    assert RuleState.objects.get().state == "shadow"
    assert "on → shadow" in page
    assert "Too loud." in page
    refused = operator.post(f"{FULL}state/", {"state": "asleep"}, follow=True).content.decode()
    assert "A rule is one of: on, shadow, off." in refused


def test_an_operator_sets_and_removes_a_threshold(operator: Client) -> None:
    """For one model alone; then it is gone, and the trail has both."""
    asked = {
        "threshold": "mem_used_share_opens",
        "matcher": "gpu_model",
        "pattern": "*H200*",
        "value": "0.95",
        "comment": "Ours.",
    }
    page = operator.post(f"{FULL}override/", asked, follow=True).content.decode()

    assert "95" in page
    assert "*H200*" in page
    assert Override.objects.get().value == 0.95
    page = operator.post(f"{FULL}override/", asked | {"remove": "yes"}, follow=True).content.decode()
    assert not Override.objects.exists()
    assert "0.95 → default" in page


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"value": "much"}, "“much” is no number"),
        ({"value": "0.5"}, "must stay below mem_used_share_opens"),
        ({"value": "7"}, "can be from 0 to 1, not 7"),
        ({"value": "nan"}, "not nan"),
        ({"threshold": "x" * 200}, "has no threshold xxx"),
        ({"matcher": "node", "pattern": ""}, "Say which by a pattern"),
        ({"comment": "a\x00b"}, "control characters"),
    ],
)
def test_a_threshold_that_cannot_be_is_refused_with_a_sentence(operator: Client, asked: dict[str, str], says: str) -> None:
    """On top of the page, and nothing is set."""
    whole = {"threshold": "mem_used_share_opens", "matcher": "site", "value": "0.95", **asked}
    page = operator.post(f"{FULL}override/", whole, follow=True).content.decode()

    assert says in page
    assert not Override.objects.exists()


def test_a_site_value_is_shown_in_the_conditions(viewer: Client) -> None:
    """What stands there is what is judged."""
    user = ann()
    assert "mem_used_share &gt;= 0.91" in text(viewer, FULL)
    set_override("memory-nearly-full", "mem_used_share_opens", 0.95, user)

    assert "mem_used_share &gt;= 0.95" in text(viewer, FULL)


def test_an_own_rule_is_written_tried_edited_and_removed(operator: Client) -> None:
    """Its whole way by the pages."""
    form = operator.get("/rules/new/").content.decode()
    assert "mem_used_share" in form
    page = operator.post("/rules/new/", OWN, follow=True).content.decode()
    assert "It is off" in page
    assert "It was never tried." in page
    assert "disabled" in page

    page = operator.post("/rules/site-empty/try/", follow=True).content.decode()
    assert "under way" in page
    assert "js/rule.js" in page
    node = make_node("a-01", 1)
    key = str(node.gpus.get().pk)
    Trial.objects.update(ended_at=timezone.now(), windows_looked_at=48, windows_with_data=40, judged_total=1000, fired_total=25,
                         targets={key: 25})  # fmt: skip
    page = text(operator, "/rules/site-empty/")
    assert "25 times in 1,000 judgements of a target" in page
    assert "known now" not in page
    Trial.objects.update(of_now=["base_runs"])
    assert '<code title="Earlier runs compared with">base_runs</code>' in text(operator, "/rules/site-empty/")
    assert "a-01 GPU 0" in page
    operator.post("/rules/site-empty/state/", {"state": "on"})
    assert RuleState.objects.get().state == "on"

    assert "busy &gt;= 0.5" in text(operator, "/rules/site-empty/edit/")
    page = operator.post("/rules/site-empty/edit/", OWN | {"opens": "busy >= 0.9"}, follow=True).content.decode()
    assert "switched off: try it against the last day again" in page
    page = operator.post("/rules/site-empty/remove/", follow=True).content.decode()
    assert "tick the box" in page
    operator.post("/rules/site-empty/remove/", {"confirmed": "yes"})
    assert not OwnRule.objects.exists()


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"opens": "bizy > 1"}, "There is no feature bizy (character 1)."),
        ({"opens": "busy IN (SELECT busy FROM read_csv('/etc/passwd'))"}, "There is no feature SELECT (character 10)."),
        ({"opens": f"name = '{EVIL}' AND nothing > 1"}, "There is no feature nothing"),
        ({"summary": EVIL + "{bizy}"}, "There is no feature {bizy} to fill in."),
        ({"slug": "Mine"}, "is named site-…"),
        ({"title": ""}, "This is empty."),
    ],
)
def test_a_rule_that_cannot_be_is_shown_again_with_what_is_wrong(operator: Client, asked: dict[str, str], says: str) -> None:
    """The sentence at its field, the text as it was written, nothing kept, no script let through."""
    answer = operator.post("/rules/new/", OWN | asked)
    page = answer.content.decode()

    assert answer.status_code == 400
    assert says in page
    assert EVIL not in page
    assert "Ask the owner." in page
    assert not OwnRule.objects.exists()


def test_hostile_texts_of_an_own_rule_do_no_harm(viewer: Client) -> None:
    """Markup is text, in the catalogue, on its page, and in what it finds."""
    user = ann()
    save_own("site-evil", OWN | {"title": EVIL, "summary": EVIL, "change": f"{EVIL}\nrm -rf /"}, user, EVIL)
    set_state("site-evil", "shadow", user, EVIL)
    make_finding(make_node("a-01", 1), rule="site-evil", shadow=True)

    for path in ("/rules/", "/rules/site-evil/"):
        page = text(viewer, path)
        assert EVIL not in page
        assert "&lt;script&gt;" in page


def test_an_own_rule_of_an_older_release_says_so(viewer: Client) -> None:
    """Its page is there, and says what to do."""
    OwnRule.objects.create(slug="site-old", by_name="x", **own_rules.cleaned(OWN) | {"opens": "gone_feature > 1"})

    assert "do not fit this release any more" in text(viewer, "/rules/site-old/")


def test_findings_in_shadow_show_on_the_rules_page_alone(viewer: Client) -> None:
    """Not on the fleet's page, not in the list of findings, not on the node's; on the rule's page they are marked."""
    node = make_node("a-01", 1)
    shown = make_finding(node, rule="memory-nearly-full", shadow=True)
    page = text(viewer, FULL)

    assert "in shadow" in page
    assert f"/findings/{shown.pk}/" in page
    for path in ("/", "/findings/", "/findings/?state=all", "/nodes/a-01/"):
        assert f"/findings/{shown.pk}/" not in text(viewer, path), path
    Finding.objects.update(shadow=False)
    assert f"/findings/{shown.pk}/" in text(viewer, "/findings/")


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ("node-silent", "in its own look at the fleet"),
        ("told-by-alertmanager", "Alertmanager tells of an alert"),
        ("xid-unknown", "When a node reports an event of this kind."),
        ("nvswitch-fault", "When a node reports an event of this kind."),
    ],
)
def test_a_rule_without_conditions_says_when_it_opens(viewer: Client, rule: str, says: str) -> None:
    """Events, the watch and Alertmanager open theirs."""
    page = text(viewer, f"/rules/{rule}/")

    assert says in page
