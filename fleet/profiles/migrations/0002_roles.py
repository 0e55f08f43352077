"""Viewers see profiles, operators and admins may send them, admins may delete them; as in benches.0002_roles."""

from typing import Any, Final

from django.db import migrations

ROLES: Final = {"viewer": ("view",), "operator": ("view", "add"), "admin": ("view", "add", "delete")}


def grant(apps: Any, schema_editor: Any) -> None:
    """Give the groups that are there what their role holds."""
    for name, actions in ROLES.items():
        for group in apps.get_model("auth", "Group").objects.filter(name=name):
            group.permissions.add(*(one for action in actions for one in _permissions(apps, action)))


def take_back(apps: Any, schema_editor: Any) -> None:
    """Take it from them."""
    for name, actions in ROLES.items():
        for group in apps.get_model("auth", "Group").objects.filter(name=name):
            group.permissions.remove(*(one for action in actions for one in _permissions(apps, action)))


def _permissions(apps: Any, action: str) -> list[Any]:
    found = []
    for model, verbose in (("jobprofile", "profile"),):
        content_type, _ = apps.get_model("contenttypes", "ContentType").objects.get_or_create(app_label="profiles", model=model)
        permission, _ = apps.get_model("auth", "Permission").objects.get_or_create(
            content_type=content_type, codename=f"{action}_{model}", defaults={"name": f"Can {action} {verbose}"}
        )
        found.append(permission)
    return found


class Migration(migrations.Migration):
    dependencies = [("profiles", "0001_initial"), ("accounts", "0002_roles")]

    operations = [migrations.RunPython(grant, take_back)]
