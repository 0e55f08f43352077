"""Jobs that hold GPUs on the pages of a node and of a GPU, and how much of the work is known to be whose on the first page."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from fleet.dashboard.holding import rows
from fleet.slow.models import Coverage
from tests.fleet.jobs.given import give, job
from tests.fleet.rows import gpu, node

pytestmark = pytest.mark.django_db
BEGAN = timezone.now() - timedelta(hours=1)


def test_one_row_a_job_says_what_it_holds_and_who_says_so() -> None:
    """In the order of the GPUs, shared ones marked; another node's are not this page's."""
    one, two = gpu(home := node("n1")), gpu(home, 1)
    far = gpu(node("n2"))
    give(job("4711", BEGAN), one, two, far)
    give(job("4712", BEGAN + timedelta(minutes=5)), two)
    give(job("n2/ann/x", BEGAN, cluster="", source="processes"), gpu(far.node, 1))
    found = [(row.target, row.indices, row.shared, row.scheduled) for row in rows([two, one])]

    assert found == [("west/4711", (0, 1), True, True), ("west/4712", (1,), True, True)]
    assert [(row.target, row.scheduled) for row in rows(far.node.gpus.all())] == [("west/4711", True), ("n2/ann/x", False)]


def test_pages_of_node_and_gpu_show_them(admin_client: Client) -> None:
    """And say so where nobody is known to hold one."""
    card = gpu(node("n1"))
    paths = ("/nodes/n1/", f"/gpus/{card.pk}/")
    for path in paths:
        assert "No job is known to hold one." in admin_client.get(path).content.decode()
    give(job("4711", BEGAN), card, shared=True)
    for path in paths:
        page = admin_client.get(path).content.decode()
        assert "west/4711" in page
        assert "never summed" in page


def test_the_first_page_says_how_much_of_the_work_is_for_scheduled_jobs(admin_client: Client) -> None:
    """In per cent of the last hour; nothing where nothing was measured."""
    assert 'id="covered"' not in admin_client.get("/").content.decode()
    Coverage.objects.create(
        start=int(timezone.now().timestamp()) - 120, present=4, scheduled=2, processes=1, unknown=1,
        busy_scheduled_s=90, busy_processes_s=27, busy_unknown_s=3,
    )  # fmt: skip
    page = admin_client.get("/").content.decode()
    part = page[page.index('id="covered"') :]
    assert "<dd>75\xa0%</dd>" in part[:400]
    assert "for nobody that is known" in part[:800]
