"""What schedulers' requests take: health, placements and jobs over REST, of a fleet with jobs and findings, in a database of its own.

    python bench/rest.py --gpus 10000

The fleet is played_fleet.py's, with a minute of telemetry in the store. On seven GPUs of ten a scheduler's job runs, on three nodes of a
hundred something speaks against a GPU, and half as many findings as GPUs are open besides. Each request goes through all of Django, in this
process, one after the other, by tokens that have the scope `jobs` or `read`: what is measured is the server's own time. Prints a line a request,
then one JSON object: gpus, nodes, jobs, findings, and by request p50_ms, p95_ms, cpu_p50_ms,
cpu_p95_ms and bytes.
"""

import argparse
import json
import os
import random
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.played_fleet import GPUS_PER_NODE, build  # isort: skip

SECONDS: Final = 60
SICK: Final = ("row-remap-failed", "nvlink-fault", "clocks-locked-low")
PAGE: Final = 100
"""Nodes of a page of the fleet's health."""
AT_ONCE: Final = 50
"""Jobs that are told in one request."""
DEAR: Final = ("health_of_all", "jobs_told_at_once")
FEW: Final = 20
"""Requests of these."""
FRESH_FOR: Final = timedelta(hours=1)
"""The fleet's agents do not go on: its nodes count as heard of for so long."""


def main(argv: list[str] | None = None) -> int:
    """Build the fleet, ask, print what it took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", type=int, default=10_000)
    parser.add_argument("--requests", type=int, default=200, help="of each kind")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="fettle-bench-") as data:
        os.environ.update(FETTLE_DATA=data, FETTLE_DEBUG="0", DJANGO_SETTINGS_MODULE="config.settings")
        os.environ.update(FETTLE_SECRET_KEY=secrets.token_urlsafe(50), FETTLE_ALLOWED_HOSTS="testserver")
        subprocess.run([sys.executable, "manage.py", "migrate", "--skip-checks", "-v", "0"], cwd=ROOT, check=True)
        build(options.gpus, SECONDS, int(time.time()))
        told = fill()
        print(f"{options.gpus} GPUs: {told}", flush=True)
        print(json.dumps({"gpus": options.gpus, **told, **ask(options.requests)}))
    return 0


def fill() -> dict[str, int]:
    """Jobs on the fleet's GPUs, and findings; how many of each."""
    from django.utils import timezone

    from fleet.findings.models import Finding
    from fleet.inventory.models import Gpu, Node
    from fleet.jobs.models import Allocation, Job

    draw = random.Random(7)
    now = timezone.now()
    Node.objects.update(last_seen_at=now + FRESH_FOR)
    Gpu.objects.update(nvlink_links=18, power_limit_w=700.0)
    nodes = list(Node.objects.order_by("pk"))
    cards: dict[int, list[Gpu]] = {}
    for gpu in Gpu.objects.order_by("index"):
        cards.setdefault(gpu.node_id, []).append(gpu)
    held = [(node, cards[node.pk][: draw.choice((4, 8))]) for node in nodes if draw.random() < 0.9]
    jobs = Job.objects.bulk_create(
        Job(cluster="west", job_id=str(number), started_at=now, source="slurm", user=f"user{number % 40}", family=f"west/user{number % 40}/train")
        for number, _ in enumerate(held)
    )  # fmt: skip
    Allocation.objects.bulk_create(
        Allocation(job=job, node=node, node_name=node.name, gpu=gpu, device=str(gpu.index), from_at=now)
        for job, (node, gpus) in zip(jobs, held, strict=True)
        for gpu in gpus
    )
    rows = [
        finding(now, rule, cards[node.pk][0])
        for number, node in enumerate(nodes)
        if number % 33 == 0
        for rule in SICK[number % 3 :][:1]
    ]
    rows += [finding(now, "low-mfu", gpu) for gpus in cards.values() for gpu in gpus[::2]]
    found = Finding.objects.bulk_create(rows)
    through = Finding.gpus.through
    through.objects.bulk_create(through(finding_id=row.pk, gpu_id=int(row.target)) for row in found)
    return {"nodes": len(nodes), "jobs": len(jobs), "findings": len(found)}


def finding(now: Any, rule: str, gpu: Any) -> Any:
    """An open finding of one GPU."""
    from fleet.findings.models import Finding

    content = {"title": ["Something is wrong", {}], "summary": ["It is.", {}], "evidence": [], "change": []}
    severity = "critical" if rule == SICK[0] else "warn"
    return Finding(
        fingerprint=f"{rule}:gpu:{gpu.pk}", rule=rule, severity=severity, severity_rank=3 if severity == "critical" else 2, scope="gpu",
        target=str(gpu.pk), node_id=gpu.node_id, confidence="high", condition="firing", content=content, opened_at=now, last_seen_at=now,
    )  # fmt: skip


def ask(requests: int) -> dict[str, Any]:
    """What each kind of request took."""
    from django.contrib.auth.models import Group
    from django.test import Client

    from fleet.accounts.models import ApiToken, User
    from fleet.inventory.models import Gpu, Node
    from fleet.jobs.models import Job

    user = User.objects.create_user("slurm")
    user.groups.add(Group.objects.get(name="operator"))
    token = ApiToken.issue(user=user, name="slurm", scopes=["jobs"])[1]
    client = Client(headers={"authorization": f"Bearer {token}"})
    names = list(Node.objects.order_by("name").values_list("name", flat=True))
    cards = list(Gpu.objects.values_list("pk", flat=True))
    model = Gpu.objects.values_list("model", flat=True)[0]
    reader = Client(headers={"authorization": f"Bearer {ApiToken.issue(user=user, name='pages', scopes=['read'])[1]}"})
    small = (
        Job.objects.filter(state="running", allocations__gpu__isnull=False)
        .order_by("pk")
        .values_list("pk", flat=True)
        .distinct()[:50]
    )
    reported, large = [kept_report(pk) for pk in small], whole_fleet()
    needs = urlencode({"gpus": 8, "model": model, "one_nvlink_domain": "true", "power_headroom_w": 100})
    draw = random.Random(3)
    number = iter(range(10_000_000, 20_000_000))

    def start() -> Any:
        body = {
            "cluster": "west", "job_id": str(next(number)), "started_at": time.time(), "source": "slurm", "state": "running", "name": "train",
            "user": "ada", "gpus_total": GPUS_PER_NODE, "nodes": draw.choice(names), "devices": f"0-{GPUS_PER_NODE - 1}",
        }  # fmt: skip
        return client.post("/api/v1/jobs/", body, content_type="application/json")

    def starts() -> Any:
        bodies = [
            {
                "cluster": "west", "job_id": str(next(number)), "started_at": time.time(), "source": "slurm", "nodes": draw.choice(names),
                "devices": f"0-{GPUS_PER_NODE - 1}",
            }
            for _ in range(AT_ONCE)
        ]  # fmt: skip
        return client.post("/api/v1/jobs/", bodies, content_type="application/json")

    def end() -> Any:
        known = str(draw.randrange(10_000_000, 10_000_000 + requests))
        body = {"cluster": "west", "job_id": known, "state": "completed", "exit_code": 0}
        return client.post("/api/v1/jobs/", body, content_type="application/json")

    pages = -(-len(names) // PAGE)
    kinds: dict[str, Callable[[], Any]] = {
        "node_health": lambda: client.get(f"/api/v1/nodes/{draw.choice(names)}/health/"),
        "gpu_health": lambda: client.get(f"/api/v1/gpus/{draw.choice(cards)}/health/"),
        "health_of_16_nodes": lambda: client.get(f"/api/v1/health/?nodes={','.join(draw.sample(names, min(16, len(names))))}"),
        "health_page": lambda: client.get("/api/v1/health/", {"page": draw.randint(1, pages), "page_size": PAGE}),
        "health_of_all": lambda: whole_health(client, pages),
        "placement": lambda: client.get("/api/v1/placements/", {"gpus": draw.choice((1, 2, 4, 8))}),
        "placement_with_all_needs": lambda: client.get(f"/api/v1/placements/?{needs}"),
        "job_start": start,
        "job_end": end,
        "jobs_told_at_once": starts,
        "jobs_page": lambda: reader.get("/api/v1/jobs/", {"open": "true"}),
        "jobs_of_a_node": lambda: reader.get("/api/v1/jobs/", {"node": draw.choice(names)}),
        "job": lambda: reader.get(f"/api/v1/jobs/{draw.choice(reported)}/"),
        "job_of_the_whole_fleet": lambda: reader.get(f"/api/v1/jobs/{large}/"),
        "allocations_of_it": lambda: reader.get(f"/api/v1/jobs/{large}/allocations/", {"page_size": 1000}),
        "job_report": lambda: reader.get(f"/api/v1/jobs/{draw.choice(reported)}/report/"),
        "verifications": lambda: reader.get("/api/v1/verifications/"),
    }  # fmt: skip
    found = {}
    for kind, call in kinds.items():
        heard_now()
        found[kind] = dict(measured(kind, call, min(requests, FEW) if kind in DEAR else requests))
    return found


def heard_now() -> None:
    """Every card draws 100 W now: what is older than a minute counts as unknown, and a bench takes longer."""
    import polars as pl

    from fleet.inventory.models import Gpu
    from fleet.store.series import store

    cards, now = list(Gpu.objects.order_by("pk").values_list("pk", flat=True)), int(time.time())
    store().write("gpu", pl.DataFrame({"entity": cards, "ts": [now] * len(cards), "power_w": [100.0] * len(cards)}))


def whole_health(client: Any, pages: int) -> Any:
    """Every page of the fleet's health, as a scheduler's plugin reads it; the last answer."""
    for page in range(1, pages + 1):
        answer = client.get("/api/v1/health/", {"page": page, "page_size": PAGE})
    return answer


def kept_report(pk: int) -> int:
    """The job itself, with a report that is kept: it is made by the worker, and read from there."""
    from datetime import timedelta

    from django.utils import timezone

    from fleet.jobs.models import Job
    from fleet.reports.summaries import keep

    job = Job.objects.get(pk=pk)
    now = timezone.now()
    Job.objects.filter(pk=pk).update(started_at=now - timedelta(minutes=1))
    job.allocations.update(from_at=now - timedelta(minutes=1))
    job.refresh_from_db()
    keep(job, now)
    job.summary.due_at = None
    job.summary.save()
    return pk


def whole_fleet() -> int:
    """An ended job that had every GPU, and as many verdicts on advice as fill a page; the job."""
    from django.utils import timezone

    from fleet.inventory.models import Gpu
    from fleet.jobs.models import Allocation, Job
    from fleet.verdicts.models import Verification

    now = timezone.now()
    job = Job.objects.create(
        cluster="west", job_id="9", started_at=now, ended_at=now, state="completed", source="slurm", user="ada", name="pretrain"
    )
    cards = list(Gpu.objects.select_related("node"))
    Allocation.objects.bulk_create(
        Allocation(job=job, node=card.node, node_name=card.node.name, gpu=card, device=str(card.index), from_at=now, until_at=now)
        for card in cards
    )
    Verification.objects.bulk_create(
        Verification(
            rule="clocks-locked-low", scope="gpu", target=str(card.pk), applied_at=now, due_at=now, verdict="helped", measure="sm_clock_mhz", ratio=1.8,
            ratio_low=1.7, ratio_high=1.9, before=1000.0, after=1800.0, reason={"id": "", "params": {}},
        )
        for card in cards[:1000]
    )  # fmt: skip
    return job.pk


def measured(kind: str, call: Callable[[], Any], requests: int) -> Iterator[tuple[str, float]]:
    """By the clock and of CPU time p50 and p95, and the bytes of an answer. Where others compute beside, CPU time is what holds."""
    clock, cpu = [], []
    for place in range(requests + 5):
        before = time.perf_counter(), time.process_time()
        answer = call()
        if place >= 5:  # the first ones load what the others find
            clock.append((time.perf_counter() - before[0]) * 1e3)
            cpu.append((time.process_time() - before[1]) * 1e3)
        if answer.status_code >= 300:
            raise SystemExit(f"{kind}: {answer.status_code} {answer.content[:300]!r}")
    parts = {name: statistics.quantiles(took, n=20) for name, took in (("", clock), ("cpu_", cpu))}
    told = {f"{name}p{place}_ms": round(took[place // 5 - 1], 1) for name, took in parts.items() for place in (50, 95)}
    print(f"{kind:<26}" + "".join(f"{name} {value:8.1f}  " for name, value in told.items()), flush=True)
    yield from told.items()
    yield "bytes", len(answer.content)


if __name__ == "__main__":
    sys.exit(main())
