"""Names of a hundred characters that somebody chose, in every table: no column is pushed out of sight, and the whole name can be read."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page

from tests.browser.conftest import CHROMIUM, NAME, PASSWORD, Site
from tests.serving import serve

ROWS = """
from datetime import timedelta
from django.contrib.auth import get_user_model
from django.utils import timezone
from fleet.accounts.models import ApiToken
from fleet.annotations.models import Annotation
from fleet.commands.models import Command
from fleet.findings.models import Diagnosis, Finding
from fleet.inventory.models import Engine, Event, Gpu, Node, Process, Refusal
from fleet.jobs.models import Allocation, Job
from fleet.reports.models import JobSummary
from fleet.slow.models import JobRun
from fleet.tuning.models import Override, OwnRule, RuleChange, RuleState
from fleet.verdicts.models import Verification

SCRIPT = "<script>document.title='owned'</script>"
HOSTILE = ("W" * 100, "\\u0627\\u062d\\u0635\\u0628" * 25, "\\U0001f680\\U0001f9d1\\u200d\\U0001f4bb" * 25, (SCRIPT + "x" * 100)[:100], "ada")

now = timezone.now()
root = get_user_model().objects.create_superuser(NAME, password=PASSWORD)
for number, evil in enumerate(HOSTILE):
    ascii = "".join(one if one.isascii() and one.isalnum() else "x" for one in evil) or "x"
    name = evil.replace("/", "|")
    node = Node.objects.create(name=name, boot=f"b{number}", agent_version="0.9", driver_version="580", connected_at=now, last_seen_at=now, recording="")
    gpu = Gpu.objects.create(node=node, uuid=f"GPU-{number}", index=0, model=evil[:100], mem_total_bytes=2**37, power_limit_w=700.0)
    Engine.objects.create(node=node, name=evil, kind="vllm", model=evil, first_seen_at=now, last_seen_at=now)
    Process.objects.create(node=node, pid=4000 + number, name=evil[:64], labels={"pod_name": evil, "launcher": evil}, told_at=now, first_seen_at=now, last_seen_at=now)
    Event.objects.create(node=node, gpu=gpu, seq=1, kind="xid", code=79, severity="warn", text=evil, observed_at=now)
    Refusal.objects.create(node_name=name, code="bad_hello", total=3, last_detail=evil)
    Command.objects.create(node=node, node_name=name, what="pause_profiling", seconds=60, reason=evil, asked_by_name=evil, state="failed", answer=evil, expires_at=now)
    Annotation.objects.create(scope="node", target=name, key="k" * 55, value=evil, by_name=evil)
    job = Job.objects.create(cluster=ascii[:100], job_id=(ascii + str(number))[-100:], started_at=now - timedelta(hours=number + 1), source="slurm",
                             name=evil, user=evil, account=evil, partition=evil, family="/".join((evil, evil, evil)), gpus_total=8, state="running" if number else "node_fail")
    Allocation.objects.create(job=job, node=node, node_name=name, gpu=gpu, device="0", from_at=now - timedelta(hours=1), shared=True)
    JobSummary.objects.create(job=job, made_at=now - timedelta(days=1), due_at=now, document={"gpus": 8}, bottleneck="memory_bandwidth", gpu_hours=12345.6, idle_gpu_hours=1234.5, energy_j=1e10, coverage=1.0)
    for back in range(2):
        JobRun.objects.create(job=f"{name}/{evil}/{back}", program=name, node=node, first_seen=now - timedelta(days=back), last_seen=now, merged_to=0, gpus=8, gpu_model=evil, minutes=9, step_time_s=1.5, energy_j_per_sample=2.0, samples_per_s=3.0, told={"image": evil})
    OwnRule.objects.create(slug="site-" + "x" * 54 + str(number), scope="gpu", severity="warn", group="capacity", opens="busy > 0.5", clears="busy < 0.1", title=evil, summary=evil * 2, change=evil, by_name=evil)
    Override.objects.create(rule="memory-nearly-full", threshold="mem_used_share_opens", matcher="node", pattern=evil, value=0.5, by_name=evil, comment=evil)
    RuleChange.objects.create(rule="memory-nearly-full", what="override", before=None, by_name=evil, comment=evil, after={"threshold": "mem_used_share_opens", "matcher": "node", "pattern": evil, "value": 0.9})
    ApiToken.objects.create(user=root, name=evil, digest=f"{number:064}")
    said = lambda text: {"id": text.replace("{", "").replace("}", ""), "params": {}}
    for scope, target, at in (("job", f"{name}/{evil}/train"[:300], None), ("node", name, node)):
        found = Finding.objects.create(
            fingerprint=f"{scope}{number}", rule="memory-nearly-full", severity="critical", severity_rank=3, scope=scope, target=target, node=at, bottleneck="memory_bandwidth",
            confidence="high", recoverable=0.5, gpus_total=8, gpu_hours_a_day=12.0, condition="firing", opened_at=now, last_seen_at=now,
            content={"title": said(evil), "summary": said(evil), "risk": said(evil), "rollback": said(evil), "verify": said(evil), "sources": [evil],
                     "expected_gain": {"low": 1.1, "high": 2.5, "basis": said(evil)}, "change": [{"kind": "step", "text": evil}],
                     "evidence": [{"name": "mem_used_share", "value": 0.9, "unit": "ratio", "threshold": 0.8, "comparison": ">="}]})
        found.gpus.add(gpu)
        Verification.objects.create(finding=found, rule=found.rule, scope=scope, target=target, family=evil, applied_at=now, due_at=now, verdict="worse", ratio=0.9,
                                    ratio_low=0.8, ratio_high=0.95, reason=said(evil), rollback=said(evil), measured_at=now, recovered_gpu_hours=-12.0)
"""
PAGES = ("/", "/jobs/", "/jobs/1/", "/jobs/2/", "/jobs/4/", "/findings/", "/findings/1/", "/advice/", "/rules/", "/rules/?kind=own", "/rules/memory-nearly-full/",
         "/gpus/1/", "/gpus/2/", "/nodes/{wide}/", "/nodes/{script}/", "/families/{wide}/")  # fmt: skip
CUT = """() => {
  const told = [];
  const short = (element) => `${element.tagName}.${element.className} "${element.textContent.trim().slice(0, 30)}"`;
  const wide = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > wide) told.push(`the page is ${document.documentElement.scrollWidth} wide`);
  for (const one of document.querySelectorAll(".scroll"))
    if (wide > 1000 && one.scrollWidth > one.clientWidth + 1) told.push(`a table hides ${one.scrollWidth - one.clientWidth} px: ${short(one.querySelector("th"))} in ${one.closest("section, body").id || one.closest("section")?.getAttribute("aria-labelledby")}`);
  for (const cell of document.querySelectorAll("td, th")) {
    if (!cell.getClientRects().length) continue;
    if (cell.scrollWidth > cell.clientWidth + 1) told.push(`runs out of its cell: ${short(cell)}`);
    if (cell.getBoundingClientRect().width > wide) told.push(`a cell is wider than the screen: ${short(cell)}`);
    if (wide < 500 && cell.getBoundingClientRect().height > 700) told.push(`a cell is higher than the screen: ${short(cell)}`);
  }
  for (const one of document.querySelectorAll("main *")) {
    const isCut = getComputedStyle(one).webkitLineClamp !== "none" && one.scrollHeight > one.clientHeight + 1;
    if (isCut && one.title !== one.textContent.trim()) told.push(`cut without its whole text: ${short(one)}`);
    if (isCut && one.tabIndex < 0) told.push(`out of the keyboard's reach: ${short(one)}`);
  }
  return told;
}"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server with five of everything, four of them with a hostile name; no agent."""
    if CHROMIUM is None:
        pytest.skip("needs Chromium (apt-get install chromium)")
    with serve(tmp_path_factory.mktemp("hostile") / "data", {}) as server:
        site = Site(server)
        site.run(f"NAME, PASSWORD = {NAME!r}, {PASSWORD!r}\n{ROWS}")
        yield site


def addresses() -> list[str]:
    """The pages, by the names of the nodes."""
    script = ("<script>document.title='owned'<|script>" + "x" * 100)[:100]
    return [address.format(wide="W" * 100, script=script.replace("'", "%27")) for address in PAGES]


@pytest.mark.parametrize("width", [1440, 390])
def test_every_column_is_seen_and_every_name_can_be_read(page: Page, width: int) -> None:
    """At both widths: a table scrolls on a telephone alone, no text runs over its neighbour, and one that is cut says the whole of itself."""
    page.set_viewport_size({"width": width, "height": 900})
    wrong = {}
    for address in addresses():
        answer = page.goto(address)
        assert answer is not None
        assert answer.status == 200, address
        page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
        assert page.title() != "owned"
        if found := page.evaluate(CUT):
            wrong[address] = found[:12]

    assert wrong == {}
