"""Answers about a job of 1,000 nodes with 8 GPUs each: bounded in bytes, and what is left out is said."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from fleet.findings.lifecycle import Place, report
from fleet.findings.models import Finding
from fleet.inventory.models import Gpu, Node
from fleet.jobs.models import Allocation, Job
from tests.fleet.rows import found

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("memory_store")]
PATH = "/api/v1/jobs/"
ROW_BYTES = 6_000
"""Of one job, whatever its size. With all its allocations it had 1.4 MB."""
REPORT_BYTES = 20_000
NODES, GPUS = 1_000, 8


@pytest.fixture
def job(db: None) -> Job:
    """A job that began half a minute ago, and a finding about all its GPUs."""
    now = timezone.now()
    began = now - timedelta(seconds=30)
    nodes = Node.objects.bulk_create(Node(name=f"node-{number:04}.rack.example.org") for number in range(NODES))
    cards = Gpu.objects.bulk_create(
        Gpu(node=node, index=index, uuid=f"GPU-{node.pk:08x}-0000-0000-0000-{index:012x}", model="NVIDIA H200")
        for node in nodes
        for index in range(GPUS)
    )
    row = Job.objects.create(
        cluster="west", job_id="4711", started_at=began, source="slurm", name="pretrain", user="ada", gpus_total=NODES * GPUS
    )
    Allocation.objects.bulk_create(
        Allocation(job=row, node=card.node, node_name=card.node.name, gpu=card, device=card.uuid, from_at=began) for card in cards
    )
    finding = report(now, found("west/4711", "low-mfu", scope="job"), Place(None, ()))
    through = Finding.gpus.through
    through._default_manager.bulk_create(through(finding_id=finding.pk, gpu_id=card.pk) for card in cards)
    return row


def test_answers_do_not_grow_with_the_job(job: Job, bob: APIClient) -> None:
    """The row, the list, findings and the report: the first of each, and how many there are."""
    listed, row = bob.get(PATH), bob.get(f"{PATH}{job.pk}/")
    told: dict[str, Any] = row.json()

    assert (told["held_total"], told["held_nodes_total"], told["allocations_total"]) == (8000, 1000, 8000)
    assert [one["gpu_index"] for one in told["allocations"]] == [*range(8), *range(8)]
    assert len(row.content) < ROW_BYTES
    assert listed.json()["results"] == [told]
    assert len(listed.content) < ROW_BYTES

    said = bob.get(f"{PATH}{job.pk}/findings/")
    (finding,) = said.json()["results"]
    assert (len(finding["gpus"]), finding["gpus_left_out"]) == (64, 7936)
    assert len(said.content) < ROW_BYTES
    of_all = bob.get("/api/v1/findings/")
    assert of_all.json()["results"] == [finding]
    whole = bob.get(f"/api/v1/findings/{finding['id']}/").json()
    assert (len(whole["gpus"]), whole["gpus_left_out"]) == (8000, 0)

    made = bob.get(f"{PATH}{job.pk}/report/")
    assert made.json()["job"] == told
    assert (len(made.json()["nodes"]), made.json()["nodes_total"], made.json()["gpus"]) == (64, 1000, 8000)
    assert made.json()["findings"] == [finding]
    assert len(made.content) < REPORT_BYTES

    page = bob.get(told["allocations_url"], {"page_size": 1000})
    assert (page.json()["count"], len(page.json()["results"])) == (8000, 1000)
    assert page.json()["results"][:16] == told["allocations"]
    assert [bob.get(told["allocations_url"], query).json()["count"] for query in ({"open": "true"}, {"open": "false"})] == [
        8000,
        0,
    ]
    assert bob.get(told["allocations_url"], {"nodes": "x"}).status_code == 400
    assert bob.get(f"{PATH}{job.pk + 1}/allocations/").status_code == 404
