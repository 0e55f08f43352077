"""Who changed what keeps alerts quiet or decides where they go: a line in the log of Django's admin, by whatever way it was changed."""

from collections.abc import Iterable
from typing import Literal

from django.contrib.admin.models import ADDITION, CHANGE, DELETION, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.db.models import Model

from fleet.accounts.models import User

_FLAGS = {"added": ADDITION, "changed": CHANGE, "deleted": DELETION}


def note(user: User, row: Model, what: Literal["added", "changed", "deleted"], fields: Iterable[str] = ()) -> None:
    """Write the line. It names fields and no values: a route's URL is a secret."""
    LogEntry.objects.create(
        user_id=user.pk,
        content_type=ContentType.objects.get_for_model(row),
        object_id=str(row.pk),
        object_repr=str(row)[:200],
        action_flag=_FLAGS[what],
        change_message=", ".join(sorted(fields)),
    )
