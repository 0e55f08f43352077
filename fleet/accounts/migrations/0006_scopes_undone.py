"""Back before scopes, a token that had some would read everything, and one that expires would stand: both are revoked on the way."""

from typing import Any

from django.db import migrations
from django.db.models import Q
from django.utils import timezone


def revoke(apps: Any, schema_editor: Any) -> None:
    """Revoke what was narrowed."""
    narrowed = ~Q(scopes=[]) | Q(expires_at__isnull=False)
    apps.get_model("accounts", "ApiToken").objects.filter(narrowed, revoked_at=None).update(revoked_at=timezone.now())


class Migration(migrations.Migration):
    dependencies = [("accounts", "0005_token_scopes")]

    operations = [migrations.RunPython(migrations.RunPython.noop, revoke)]
