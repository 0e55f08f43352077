"""Writing what decides where alerts go and what keeps them quiet: by the pages and the API alike, each with its line in the log."""

from collections.abc import Mapping
from typing import Any, TypeVar

from django.db import transaction
from django.db.models import Model
from django.utils import timezone

from fleet.accounts.models import User
from fleet.notify import changes
from fleet.notify.models import Silence

Kept = TypeVar("Kept", bound=Model)


def add(kind: type[Kept], fields: Mapping[str, Any], by: User) -> Kept:
    """The new row of fields that were checked."""
    with transaction.atomic():
        row = kind._default_manager.create(**fields)
        changes.note(by, row, "added", fields)
    return row


def change(row: Model, fields: Mapping[str, Any], by: User) -> None:
    """Set the fields, which were checked; the others stay, whoever changes them meanwhile."""
    for name, value in fields.items():
        setattr(row, name, value)
    with transaction.atomic():
        row.save(update_fields=list(fields) or None)
        changes.note(by, row, "changed", fields)


def remove(row: Model, by: User) -> None:
    """Delete the row and note who did."""
    with transaction.atomic():
        changes.note(by, row, "deleted")
        row.delete()


def silence(fields: Mapping[str, Any], by: User) -> Silence:
    """The new silence of fields that were checked; without `starts_at` it begins now."""
    said = {**fields, "starts_at": fields["starts_at"] or timezone.now(), "by": by, "by_name": by.get_username()}
    with transaction.atomic():
        row = Silence.objects.create(**said)
        changes.note(by, row, "added", fields)
    return row


def end(row: Silence, by: User) -> bool:
    """End the silence now; False when it has ended already."""
    now = timezone.now()
    with transaction.atomic():
        if not Silence.objects.filter(pk=row.pk, ends_at__gt=now).update(ends_at=now, ended_by_name=by.get_username()):
            return False
        changes.note(by, row, "changed", ["ends_at"])
    return True
