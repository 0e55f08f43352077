"""Viewers see what is set of rules, operators and admins set it; as in accounts.0002_roles, under the names that Django gives permissions."""

from typing import Any, Final

from django.db import migrations

LOOK: Final = tuple((model, "view") for model in ("rulestate", "override", "ownrule", "trial", "rulechange"))
SET: Final = (*LOOK, ("rulechange", "add"))
ROLES: Final = {"viewer": LOOK, "operator": SET, "admin": SET}


def grant(apps: Any, schema_editor: Any) -> None:
    """Give the groups that are there what their role holds."""
    for name, grants in ROLES.items():
        for group in apps.get_model("auth", "Group").objects.filter(name=name):
            group.permissions.add(*(_permission(apps, *one) for one in grants))


def take_back(apps: Any, schema_editor: Any) -> None:
    """Take it from them."""
    for name, grants in ROLES.items():
        for group in apps.get_model("auth", "Group").objects.filter(name=name):
            group.permissions.remove(*(_permission(apps, *one) for one in grants))


def _permission(apps: Any, model: str, action: str) -> Any:
    content_type, _ = apps.get_model("contenttypes", "ContentType").objects.get_or_create(app_label="tuning", model=model)
    verbose = apps.get_model("tuning", model)._meta.verbose_name
    permission, _ = apps.get_model("auth", "Permission").objects.get_or_create(
        content_type=content_type, codename=f"{action}_{model}", defaults={"name": f"Can {action} {verbose}"}
    )
    return permission


class Migration(migrations.Migration):
    dependencies = [("tuning", "0001_initial"), ("accounts", "0002_roles")]

    operations = [migrations.RunPython(grant, take_back)]
