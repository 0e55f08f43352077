"""The administration speaks as the pages do: Fettle's name, right plurals, both languages, times to the second."""

import pytest
from django.apps import apps
from django.test import Client
from django.utils import timezone

from fleet.accounts.models import User
from fleet.findings.models import Transition
from fleet.notify.models import Delivery, Route
from tests.fleet.dashboard.fleet_rows import make_finding, make_node

pytestmark = pytest.mark.django_db


@pytest.fixture
def admin(client: Client) -> Client:
    """A browser in which an administrator is logged in."""
    client.force_login(User.objects.create_superuser("root", password="x"))
    return client


def test_the_administration_has_fettles_name_and_right_plurals(admin: Client) -> None:
    """No “Diagnosiss”, no “Gpus”."""
    page = admin.get("/admin/").content.decode()

    assert "Fettle administration" in page
    for name in ("Diagnoses", "Deliveries", "GPUs", "API tokens"):
        assert f">{name}</a>" in page, name


def test_the_administration_comes_in_chinese(admin: Client) -> None:
    """The models and the apps too, not Django's own words alone."""
    page = admin.get("/admin/", headers={"accept-language": "zh-CN"}).content.decode()

    for name in ("Fettle 管理", "诊断", "发送记录", "API 令牌", "通知"):
        assert name in page, name


def test_every_model_of_ours_has_a_name_for_people() -> None:
    """Django's guess joins an s to the class's name."""
    ours = [model._meta for app in ("inventory", "findings", "notify") for model in apps.get_app_config(app).get_models()]
    guessed = [meta.label for meta in ours if isinstance(meta.verbose_name_plural, str) and not meta.auto_created]

    assert guessed == []


def test_the_list_of_deliveries_tells_node_times_and_the_error(admin: Client) -> None:
    """What failed, on which node, and when to the second."""
    node = make_node("gpu-17", 1)
    finding = make_finding(node, list(node.gpus.all()))
    Delivery.objects.create(
        route=Route.objects.create(name="chat", url="json://localhost"),
        transition=Transition.objects.filter(finding=finding).earliest("id"),
        state="failed", error="HTTP 503", key="k", created_at=timezone.now().replace(second=7),
    )  # fmt: skip

    page = admin.get("/admin/notify/delivery/").content.decode()

    for told in ("gpu-17", "HTTP 503", ":07 UTC"):
        assert told in page, told
