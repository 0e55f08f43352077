"""The admin lists and revokes tokens, and never makes one."""

import pytest
from django.contrib import admin
from django.test import RequestFactory

from fleet.accounts.admin import revoke
from fleet.accounts.models import AgentToken, ApiToken, User

pytestmark = pytest.mark.django_db


def test_it_revokes_the_chosen_tokens() -> None:
    """The action ends what was chosen, and leaves an earlier revocation's time as it was."""
    chosen, token = AgentToken.issue(node_name="a")
    _other, kept = AgentToken.issue(node_name="b")
    model_admin = admin.site.get_model_admin(AgentToken)
    revoke(model_admin, RequestFactory().post("/"), AgentToken.objects.filter(pk=chosen.pk))  # type: ignore[arg-type]
    first = AgentToken.objects.get(pk=chosen.pk).revoked_at
    revoke(model_admin, RequestFactory().post("/"), AgentToken.objects.filter(pk=chosen.pk))  # type: ignore[arg-type]

    assert AgentToken.of(token) is None
    assert AgentToken.of(kept) is not None
    assert AgentToken.objects.get(pk=chosen.pk).revoked_at == first


@pytest.mark.parametrize("model", [AgentToken, ApiToken])
def test_it_has_no_form_to_add_one(model: type[AgentToken | ApiToken]) -> None:
    """A form could not show the token, so even a superuser gets none."""
    request = RequestFactory().get("/")
    request.user = User.objects.create_superuser("root", password="root")

    assert not admin.site.get_model_admin(model).has_add_permission(request)
