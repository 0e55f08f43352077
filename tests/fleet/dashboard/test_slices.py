"""What pages tell of MIG slices, which have no utilisation (D08)."""

from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from fleet.inventory.models import Absence
from tests.fleet.dashboard.fleet_rows import make_node, write_gpus

pytestmark = pytest.mark.django_db


def test_a_slice_shows_its_sm_activity_under_that_name_and_says_why(viewer: Client) -> None:
    """No number stands where the driver tells none, on the slice's page, on its node's and in its charts; a whole GPU says nothing."""
    node = make_node("n", 3)
    card, part, whole = node.gpus.all()
    type(card).objects.filter(pk=card.pk).update(mig_mode=True)
    type(card).objects.filter(pk=part.pk).update(parent_uuid=card.uuid, mig_profile="1g.18gb")
    write_gpus([card], gpu_util_pct=None, sm_active=None)
    write_gpus([part], gpu_util_pct=None, power_w=None, sm_active=0.42)
    write_gpus([whole])
    since = timezone.now() - timedelta(hours=1)
    for gpu, metrics in ((card, ("gpu_util_pct", "sm_active")), (part, ("gpu_util_pct", "power_w"))):
        for metric in metrics:
            Absence.objects.create(node=node, gpu=gpu, metric=metric, reason="unsupported", since=since)
    pages = [viewer.get(f"/gpus/{gpu.pk}/") for gpu in (card, part, whole)]
    now = [{cell.metric: (cell.value, cell.reason) for cell in page.context["now"]} for page in pages]

    assert now[1]["sm_active"] == (0.42, "")
    assert now[0]["gpu_util_pct"] == now[1]["gpu_util_pct"] == (None, "this device, driver or mode cannot answer")
    assert now[2]["gpu_util_pct"][0] is not None
    assert ["why-no-utilisation" in page.content.decode() for page in pages] == [True, True, False]
    assert "its own SM activity" in pages[1].content.decode()
    row = next(row for row in viewer.get("/nodes/n/").context["rows"] if row["gpu"].pk == part.pk)
    assert {cell.metric: cell.value for cell in row["cells"]}["gpu_util_pct"] is None
    missing = viewer.get(reverse("gpu-series", args=[part.pk])).json()["missing"]
    assert ("GPU utilisation", "this device, driver or mode cannot answer") in {(one["metric"], one["reason"]) for one in missing}
