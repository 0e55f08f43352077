"""What migrations of the apps above give to the three roles that accounts.0002_roles made."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from django.db import migrations

Grants: TypeAlias = Mapping[str, Mapping[str, Sequence[str]]]
"""Model, role, actions."""
VIEW: Final = ("view",)
WRITE: Final = ("view", "add", "change", "delete")


def granting(app: str, grants: Grants) -> migrations.RunPython:
    """An operation that gives the groups that are there what their role holds, and takes it back when it is undone.

    Django makes permissions only after all migrations have run: those granted are made here, under the names that it would give them.
    """

    def grant(apps: Any, schema_editor: Any) -> None:
        for group, permissions in _of_groups(apps, app, grants):
            group.permissions.add(*permissions)

    def take_back(apps: Any, schema_editor: Any) -> None:
        for group, permissions in _of_groups(apps, app, grants):
            group.permissions.remove(*permissions)

    return migrations.RunPython(grant, take_back)


def _of_groups(apps: Any, app: str, grants: Grants) -> list[tuple[Any, list[Any]]]:
    groups = apps.get_model("auth", "Group").objects
    return [
        (group, [_permission(apps, app, model, action) for action in actions])
        for model, roles in grants.items()
        for role, actions in roles.items()
        for group in groups.filter(name=role)
    ]


def _permission(apps: Any, app: str, model: str, action: str) -> Any:
    content_type, _ = apps.get_model("contenttypes", "ContentType").objects.get_or_create(app_label=app, model=model)
    verbose = apps.get_model(app, model)._meta.verbose_name
    permission, _ = apps.get_model("auth", "Permission").objects.get_or_create(
        content_type=content_type, codename=f"{action}_{model}", defaults={"name": f"Can {action} {verbose}"}
    )
    return permission
