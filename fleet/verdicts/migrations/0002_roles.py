"""Viewers see verifications, operators and admins may delete them too; as in accounts.0002_roles."""

from typing import Any, Final

from django.db import migrations

WRITE: Final = ("view", "add", "change", "delete")
ROLES: Final = {"viewer": ("view",), "operator": WRITE, "admin": WRITE}


def grant(apps: Any, schema_editor: Any) -> None:
    """Give the groups that are there what their role holds."""
    for name, actions in ROLES.items():
        for group in apps.get_model("auth", "Group").objects.filter(name=name):
            group.permissions.add(*(_permission(apps, action) for action in actions))


def take_back(apps: Any, schema_editor: Any) -> None:
    """Take it from them."""
    for name, actions in ROLES.items():
        for group in apps.get_model("auth", "Group").objects.filter(name=name):
            group.permissions.remove(*(_permission(apps, action) for action in actions))


def _permission(apps: Any, action: str) -> Any:
    content_type, _ = apps.get_model("contenttypes", "ContentType").objects.get_or_create(
        app_label="verdicts", model="verification"
    )
    permission, _ = apps.get_model("auth", "Permission").objects.get_or_create(
        content_type=content_type, codename=f"{action}_verification", defaults={"name": f"Can {action} verification"}
    )
    return permission


class Migration(migrations.Migration):
    dependencies = [("verdicts", "0001_initial"), ("accounts", "0002_roles")]

    operations = [migrations.RunPython(grant, take_back)]
