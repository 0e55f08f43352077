"""Changes of many findings' rows, written together."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

import msgspec
from django.db import connection, models

from fleet.findings.models import Finding


def update(rows: Sequence[Finding], names: Collection[str]) -> None:
    """Write the fields `names` of the rows as they stand here; one that a row neither read nor was given stays as it is.

    One statement prepared once: the ORM's upsert takes four times the CPU, and most findings of a working fleet change each time.
    """
    of_name = {field.name: field for field in Finding._meta.concrete_fields}
    together: dict[tuple[str, ...], list[Finding]] = defaultdict(list)
    for row in rows:
        there = row.__dict__
        together[tuple(name for name in names if name in there)].append(row)
    for known, alike in together.items():
        fields = [of_name[name] for name in known]
        ready = _Ready()
        values = [[*(ready.value(field, row.__dict__[field.attname]) for field in fields), row.pk] for row in alike]
        with connection.cursor() as cursor:
            cursor.executemany(_statement(fields), values)


class _Ready:
    """Values as the database takes them; moments, of which thousands of rows share a few, are made so once."""

    def __init__(self) -> None:
        self._moments: dict[datetime, Any] = {}

    def value(self, field: "models.Field[Any, Any]", value: Any) -> Any:
        if isinstance(value, datetime):
            if value not in self._moments:
                self._moments[value] = field.get_db_prep_save(value, connection)
            return self._moments[value]
        return json_text(value) if isinstance(field, models.JSONField) else value


def json_text(value: Any) -> str:
    """A JSON field's value as text, which every database takes; msgspec writes it in a tenth of the standard library's time."""
    return msgspec.json.encode(value).decode()


def _statement(fields: "Sequence[models.Field[Any, Any]]") -> str:
    quote = connection.ops.quote_name
    sets = ", ".join(f"{quote(str(field.column))} = %s" for field in fields)
    return f"UPDATE {quote(Finding._meta.db_table)} SET {sets} WHERE {quote('id')} = %s"  # noqa: S608 - no input in the names
