"""Pages read few rows: as many queries for much as for little."""

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from fleet.dashboard import readings
from fleet.findings.models import Finding
from fleet.inventory.models import Absence, Gpu, Node
from tests.fleet.dashboard.fleet_rows import diagnose, make_finding, make_node, write_gpus, write_host, write_process

pytestmark = pytest.mark.django_db


def fill(nodes: int) -> None:
    """Nodes of eight GPUs with telemetry, findings, diagnoses and absences."""
    for number in range(nodes):
        node = make_node(f"n{number}")
        gpus = list(node.gpus.all())
        write_gpus(gpus, 1)
        write_host(node)
        write_process(gpus, number + 1)
        for gpu in gpus:
            make_finding(node, [gpu], rule=f"rule-{gpu.index}")
            diagnose(gpu, "data")
            Absence.objects.create(node=node, gpu=gpu, metric="memory_temperature_c", reason="unsupported", since=node.created_at)


SESSION = 3  # the session, the user, and the number of alerts beside “Alerts”


@pytest.mark.parametrize(("path", "queries"), [("/", 8), ("/fleet.json", 3), ("/findings/", 8)])
@pytest.mark.parametrize("nodes", [1, 12])
def test_pages_of_the_whole_fleet_cost_the_same_for_any_number_of_nodes(
    viewer: Client, django_assert_max_num_queries: DjangoAssertNumQueries, path: str, queries: int, nodes: int
) -> None:
    """No query for each node, GPU or finding."""
    fill(nodes)
    readings.fleet.forget()

    with django_assert_max_num_queries(SESSION + queries):
        assert viewer.get(path).status_code == 200


@pytest.mark.parametrize("gpus", [1, 16])
def test_pages_of_one_thing_cost_the_same_for_any_number_of_gpus(
    viewer: Client, django_assert_max_num_queries: DjangoAssertNumQueries, gpus: int
) -> None:
    """No query for each GPU, process, absence, or transition."""
    fill(1)
    node = Node.objects.get()
    Gpu.objects.bulk_create(Gpu(node=node, uuid=f"more-{index}", index=index, model="H200") for index in range(8, 8 + gpus))
    finding = make_finding(node, list(node.gpus.all()), target="all")
    gpu = node.gpus.all()[0]

    for path, queries in ((f"/nodes/{node.name}/", 16), (f"/gpus/{gpu.pk}/", 7), (f"/findings/{finding.pk}/", 29)):
        with django_assert_max_num_queries(SESSION + queries):
            assert viewer.get(path).status_code == 200


def test_the_fleet_is_read_once_for_viewers_who_come_together(
    viewer: Client, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    """A hundred open overviews do not read a hundred fleets."""
    fill(2)
    viewer.get("/fleet.json")

    with django_assert_max_num_queries(SESSION):
        assert len(viewer.get("/fleet.json").json()["gpus"]) == 16


def test_ten_thousand_gpus_make_a_page_of_fifty_nodes(viewer: Client) -> None:
    """The HTML does not grow with the fleet; the map comes as columns."""
    Node.objects.bulk_create(Node(name=f"node{number:04}") for number in range(1250))
    Gpu.objects.bulk_create(
        Gpu(node=node, uuid=f"{node.pk}-{index}", index=index, model="H200") for node in Node.objects.all() for index in range(8)
    )

    page = viewer.get("/")
    frame = viewer.get("/fleet.json").json()

    assert len(page.context["rows"]) == 50
    assert len(page.content) < 60_000
    assert page.context["summary"].stale == len(frame["gpus"]) == 10_000
    assert Finding.objects.count() == 0
