"""What findings cost on the pages: GPU-hours, money where there is a price, and the order that follows from them."""

import pytest
from django.test import Client
from pytest_django import Settings

from tests.fleet.dashboard.fleet_rows import make_finding, make_node

pytestmark = pytest.mark.django_db


def test_the_page_says_what_a_finding_costs(viewer: Client, settings: Settings) -> None:
    """At the site's price, beside since when."""
    settings.FETTLE_GPU_HOUR_PRICE, settings.FETTLE_CURRENCY = 2.5, "USD"
    node = make_node("n1")
    priced = make_finding(node, list(node.gpus.all())[:1], gpus_total=4, gpu_hours_a_day=38.4)
    page = viewer.get(f"/findings/{priced.pk}/").content.decode()

    assert "<dt>What it costs</dt><dd>38.4 GPU-hours a day, 96.00\u00a0USD at 2.50\u00a0USD a GPU-hour</dd>" in page
    assert "<dt>Since</dt>" in page


@pytest.mark.parametrize(
    ("hours", "answer"), [(0.0, "no GPU time by itself"), (None, "unknown: how many GPUs"), (38.4, "38.4 GPU-hours a day</dd>")]
)
def test_without_a_price_no_money_is_named(viewer: Client, settings: Settings, hours: float | None, answer: str) -> None:
    """GPU-hours alone; nothing to win back and nothing known are told apart."""
    settings.FETTLE_GPU_HOUR_PRICE = None
    finding = make_finding(make_node("n1"), gpu_hours_a_day=hours)
    page = viewer.get(f"/findings/{finding.pk}/").content.decode()

    assert f"<dt>What it costs</dt><dd>{answer}" in page
    assert "USD" not in page


@pytest.mark.parametrize("path", ["/findings/", "/findings/?state=all"])
def test_the_list_is_ranked_by_all_that_a_line_stands_for(viewer: Client, path: str) -> None:
    """Critical first; eight small findings of one node are more than one large one; the unknown comes last."""
    node, other = make_node("n1"), make_node("n2")
    make_finding(other, rule="unknown", severity="warn", gpu_hours_a_day=None, target="u")
    make_finding(other, rule="large", severity="advice", gpu_hours_a_day=20.0, target="l")
    make_finding(other, rule="sick", severity="critical", gpu_hours_a_day=0.0, target="c")
    for gpu in node.gpus.all():
        make_finding(node, [gpu], rule="small", severity="advice", gpu_hours_a_day=6.0)
    lines = viewer.get(path).context["lines"]
    rules = list(dict.fromkeys(line.finding.rule for line in lines))

    assert rules == (["sick", "small", "large", "unknown"] if path == "/findings/" else ["sick", "large", "small", "unknown"])
    if path == "/findings/":
        assert lines[1].cost == "48.0 GPU-hours a day"


def test_the_fleet_page_shows_the_dearest_first(viewer: Client) -> None:
    """The strongest findings are ranked by the GPU-hours of all that a line stands for."""
    node, other = make_node("n1"), make_node("n2")
    make_finding(other, rule="large", severity="warn", gpu_hours_a_day=20.0, target="l")
    for gpu in node.gpus.all():
        make_finding(node, [gpu], rule="small", severity="advice", gpu_hours_a_day=6.0)
    strongest = viewer.get("/").context["strongest"]

    assert [(line.finding.rule, line.cost) for line in strongest] == [
        ("small", "48.0 GPU-hours a day"),
        ("large", "20.0 GPU-hours a day"),
    ]
