"""Three groups to put people into: viewer looks, operator moves advice, admin looks after tokens and routes too.

Django makes permissions only after all migrations have run, so those that are granted here are made here, under the names
that Django would give them; it then finds them.
"""

from typing import Any, Final

from django.db import migrations

LOOK: Final = (
    ("inventory", "node", "view"),
    ("inventory", "gpu", "view"),
    ("inventory", "event", "view"),
    ("inventory", "absence", "view"),
    ("inventory", "refusal", "view"),
    ("findings", "finding", "view"),
    ("findings", "transition", "view"),
    ("findings", "diagnosis", "view"),
)
DECIDE: Final = (*LOOK, ("findings", "finding", "change"), ("notify", "delivery", "view"))
LOOK_AFTER: Final = (
    *DECIDE,
    *((app, model, action) for app, model in (("accounts", "agenttoken"), ("accounts", "apitoken"), ("notify", "route"))
      for action in ("view", "add", "change", "delete")),
)  # fmt: skip
ROLES: Final = {"viewer": LOOK, "operator": DECIDE, "admin": LOOK_AFTER}


def make(apps: Any, schema_editor: Any) -> None:
    """Make the groups; one that a site has made under such a name keeps what it has and gains what the role holds."""
    group_model = apps.get_model("auth", "Group")
    for name, grants in ROLES.items():
        group, _ = group_model.objects.get_or_create(name=name)
        group.permissions.add(*(_permission(apps, *grant) for grant in grants))


def unmake(apps: Any, schema_editor: Any) -> None:
    """Take the permissions back; a group that nobody is in goes."""
    for name, grants in ROLES.items():
        for group in apps.get_model("auth", "Group").objects.filter(name=name):
            group.permissions.remove(*(_permission(apps, *grant) for grant in grants))
            if not apps.get_model("accounts", "User").objects.filter(groups=group).exists():
                group.delete()


def _permission(apps: Any, app: str, model: str, action: str) -> Any:
    content_type, _ = apps.get_model("contenttypes", "ContentType").objects.get_or_create(app_label=app, model=model)
    verbose = apps.get_model(app, model)._meta.verbose_name
    permission, _ = apps.get_model("auth", "Permission").objects.get_or_create(
        content_type=content_type, codename=f"{action}_{model}", defaults={"name": f"Can {action} {verbose}"}
    )
    return permission


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0001_initial"),
        ("auth", "0012_alter_user_first_name_max_length"),
        ("contenttypes", "0002_remove_content_type_name"),
        ("inventory", "0001_initial"),
        ("findings", "0001_initial"),
        ("notify", "0001_initial"),
    ]

    operations = [migrations.RunPython(make, unmake)]
