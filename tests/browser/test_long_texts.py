"""Texts that people and agents choose, as long as they may be and without a space: no page is wider than a telephone."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, ViewportSize

from tests.browser.conftest import CHROMIUM, NAME, PASSWORD, Site
from tests.serving import serve

TELEPHONE: ViewportSize = {"width": 390, "height": 844}
ROWS = """
from datetime import timedelta
from django.contrib.auth import get_user_model
from django.utils import timezone
from fleet.annotations.models import Annotation
from fleet.benches.models import BenchRun, BenchScore
from fleet.commands.models import Command
from fleet.findings.models import Diagnosis, Finding, Transition
from fleet.inventory.models import Absence, Engine, Event, Gpu, Node, Process, Refusal
from fleet.slow.models import JobRun
from fleet.tuning.models import Override, OwnRule, RuleChange, RuleState, Trial

def w(size, letter="W"):
    return letter * size

now = timezone.now()
get_user_model().objects.create_superuser(NAME, password=PASSWORD)
node = Node.objects.create(
    name=w(200), boot=w(64), agent_version=w(40), kernel=w(200), driver_version=w(40), cuda_driver_version=w(40), nvidia_module_version=w(40),
    nvidia_parameters={w(60): w(100)}, cpu_governor=w(40), cores=2**31 - 1, mem_total_bytes=2**62, connected_at=now, last_seen_at=now,
    recording=w(100), interval_s=1e9)
gpu = Gpu.objects.create(
    node=node, uuid=w(80), index=0, model=w(100), pci_bus_id=w(40), compute_capability=w(10), mem_total_bytes=2**62, power_limit_w=1e15,
    labels={"pod": w(200), "namespace": w(200), "container": w(200), "hpc_job": w(200)}, labels_told_at=now)
Engine.objects.create(node=node, name=w(200), kind="vllm", model=w(200), first_seen_at=now, last_seen_at=now)
labels = {"launcher": w(200), "pod_name": w(200), "container": w(200), "torch": w(200), "env.NCCL_ALGO": w(200), "flag.dtype": w(200), "told." + w(55): w(200)}
Process.objects.create(node=node, pid=2**31 - 1, name=w(64), labels=labels, told_at=now, first_seen_at=now, last_seen_at=now)
Absence.objects.create(node=node, gpu=gpu, metric="power_w", reason=w(30), since=now)
Refusal.objects.create(node_name=node.name, code="bad_hello", total=2**60, last_detail=w(300))
Event.objects.create(node=node, gpu=gpu, seq=1, kind="xid", code=2**31 - 1, severity="warn", text=w(1000), observed_at=now)
Command.objects.create(node=node, node_name=node.name, what="pause_profiling", seconds=2**31 - 1, reason=w(300), asked_by_name=w(150),
                       state="failed", answer=w(1000), expires_at=now)
for scope, target in (("node", node.name), ("job", node.name + "/" + w(90))):
    Annotation.objects.create(scope=scope, target=target, key="image", value=w(200), by_name=w(150))
run = BenchRun.objects.create(node=node, at=now, seconds=1e9, protocol="full", versions={w(40): w(100)}, environment={w(40): w(100)},
                              missing=[{"name": w(60), "gpu": gpu.uuid, "reason": w(200)}])
BenchScore.objects.create(run=run, gpu=gpu, name=w(60), value=1e30, p5=1e30, p95=1e30, unit="bytes_per_second", iterations=2**31 - 1, judged=True)
Override.objects.create(rule="memory-nearly-full", threshold="mem_used_share_opens", matcher="node", pattern=w(300), value=123456789012345678901234567890.0, by_name=w(150), comment=w(300))
RuleState.objects.create(rule="memory-nearly-full", state="shadow", by_name=w(150), comment=w(300))
RuleChange.objects.create(rule="memory-nearly-full", what="override", before=None, by_name=w(150), comment=w(300),
                          after={"threshold": "mem_used_share_opens", "matcher": "node", "pattern": w(300), "value": 1e300})
for number in range(20):
    begun = now - timedelta(days=20 - number)
    JobRun.objects.create(
        job=w(298) + f"{number:02}", program=w(300), node=node, first_seen=begun, last_seen=begun, merged_to=0, gpus=2**31 - 1, gpu_model=w(100),
        minutes=9, step_time_s=1e9 if number < 15 else 2e9, energy_j_per_sample=1e15, samples_per_s=1e15, told={"image": w(198) + f"{number:02}"})
own = OwnRule.objects.create(
    slug="site-" + w(55, "x"), scope="gpu", severity="warn", group="capacity", opens="busy > " + w(200, "1"), clears="busy < 0.1",
    title=w(200), summary=w(1000), change=w(2000), by_name=w(150), error=w(500))
Trial.objects.create(rule=own, digest="x", by_name=w(150), ended_at=now, windows_total=9, windows_looked_at=9, error=w(500), targets={node.name: 9, w(300): 2**31})
text = {"id": w(900), "params": {}}
for scope, rule in (("node", own.slug), ("job", "memory-nearly-full"), ("gpu", "memory-nearly-full")):
    found = Finding.objects.create(
        fingerprint=scope + w(300), rule=rule, severity="critical", severity_rank=3, scope=scope, target=w(300), node=node, bottleneck="data",
        confidence="high", recoverable=0.5, gpus_total=2**31 - 1, gpu_hours_a_day=1e15, condition="firing", opened_at=now, last_seen_at=now,
        content={"title": text, "summary": text, "risk": text, "rollback": text, "verify": text, "sources": [w(300), "https://" + w(300)],
                 "expected_gain": {"low": 1, "high": 1e15, "basis": text}, "change": [{"kind": "command", "text": w(900)}, {"kind": "step", "text": w(900)}],
                 "evidence": [{"name": w(80), "value": 1e30, "unit": "number", "threshold": 1e30, "comparison": ">="}]})
    found.gpus.add(gpu)
    Transition.objects.create(finding=found, axis="advice", before="proposed", after="dismissed", note=w(500))
    Diagnosis.objects.create(scope=scope, target=w(300), node=node, gpu=gpu if scope == "gpu" else None, bottleneck="data", confidence="high",
                             shares={"data": 1.0}, window_start=now - timedelta(minutes=5), window_end=now)
"""
PAGES = ("/", "/nodes/{node}/", "/gpus/1/", "/findings/", "/findings/?node={node}&rule={node}", "/findings/1/", "/findings/2/", "/findings/3/", "/rules/",
         "/rules/?q={node}", "/rules/memory-nearly-full/", "/rules/{own}/", "/rules/{own}/edit/", "/rules/new/", "/families/{family}/")  # fmt: skip
WIDER = """() => {
  const wide = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= wide) return [];
  const scrolls = (element) => element && (getComputedStyle(element).overflowX !== "visible" || scrolls(element.parentElement));
  return [...document.querySelectorAll("body *")].filter((one) => one.getBoundingClientRect().right > wide + 1 && !scrolls(one.parentElement))
    .map((one) => `${one.tagName}.${one.className} in ${one.parentElement.tagName}.${one.parentElement.className}: ${one.textContent.trim().slice(0, 40)}`);
}"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server whose every text is as long as its column lets it be; no agent."""
    if CHROMIUM is None:
        pytest.skip("needs Chromium (apt-get install chromium)")
    with serve(tmp_path_factory.mktemp("long") / "data", {}) as server:
        site = Site(server)
        site.run(f"NAME, PASSWORD = {NAME!r}, {PASSWORD!r}\n{ROWS}")
        yield site


def test_no_page_is_wider_than_a_telephone(page: Page) -> None:
    """On every page that shows such a text the words break, or a table scrolls within itself; the page never scrolls sideways."""
    page.set_viewport_size(TELEPHONE)
    wider = {}
    for address in PAGES:
        answer = page.goto(address.format(node="W" * 200, own="site-" + "x" * 55, family="W" * 300))
        assert answer is not None
        assert answer.status == 200, address
        page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
        if found := page.evaluate(WIDER):
            wider[address] = found[:12]

    assert wider == {}


def test_a_number_and_its_unit_stand_on_one_line(page: Page) -> None:
    """On a GPU's page at the usual width and on a telephone: the longest clock, rate and size fit into their cells."""
    for width in (TELEPHONE["width"], 1100, 1440):
        page.set_viewport_size({"width": width, "height": 900})
        page.goto("/gpus/1/")
        broken = page.evaluate("""() => [...document.querySelectorAll(".figures dd[data-unit]")].flatMap((one) => {
          one.textContent = "1,755 MHz";
          const lines = one.getClientRects()[0].height / parseFloat(getComputedStyle(one).lineHeight);
          return lines < 1.5 && one.scrollWidth <= one.clientWidth ? [] : [`${one.dataset.metric}: ${lines} lines, ${one.scrollWidth} of ${one.clientWidth}`];
        })""")

        assert page.locator(".figures dd[data-unit]").count() > 3
        assert broken == []


def test_the_features_that_a_rule_may_name_are_not_cut(page: Page) -> None:
    """At the usual width the whole table is seen, with the mark of what is known of now alone beside the name."""
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto("/rules/new/")
    page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    cut = page.evaluate("""() => [...document.querySelectorAll(".features")].filter((one) => one.scrollWidth > one.clientWidth + 1)
      .map((one) => `${one.scrollWidth} of ${one.clientWidth}`)""")

    assert page.locator(".features tbody th", has_text="*").count() > 0
    assert cut == []
