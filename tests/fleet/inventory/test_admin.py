"""What agents report is for people to read."""

import pytest
from django.contrib import admin
from django.db.models import Model
from django.test import RequestFactory

from fleet.accounts.models import User
from fleet.inventory.models import Absence, Engine, Event, Gpu, Node, Process, Refusal


@pytest.mark.django_db
@pytest.mark.parametrize("model", [Node, Gpu, Absence, Refusal, Event, Engine, Process])
def test_nobody_adds_or_changes_rows(model: type[Model]) -> None:
    """The next hello would undo it; even a superuser only reads and deletes."""
    request = RequestFactory().get("/")
    request.user = User.objects.create_superuser("root", password="root")
    model_admin = admin.site.get_model_admin(model)

    assert not model_admin.has_add_permission(request)
    assert not model_admin.has_change_permission(request)
    assert model_admin.has_view_permission(request)
