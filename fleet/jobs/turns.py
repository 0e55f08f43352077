"""Whoever writes of a job waits for the one who does so now."""

from collections.abc import Iterable
from typing import Final

from django.db import connection

_OURS: Final = 4711
"""Keeps these locks apart from whatever others lock in the same database."""
_TURNS: Final = 4096
"""Jobs share so many locks: a server keeps no more than some thousands, and a node's hello may ask for all jobs of a week."""
_LOCK: Final = (
    "SELECT pg_advisory_xact_lock(%s, turn) FROM"
    " (SELECT DISTINCT abs(hashtext(name) %% %s) AS turn FROM unnest(%s::text[]) AS name ORDER BY turn) AS turns"
)


def wait_for(jobs: Iterable[tuple[str, str]]) -> None:
    """Have these jobs, each by cluster and id, to oneself until the transaction ends.

    Ask once in it, for all: two who ask twice could wait for each other. PostgreSQL locks no row that is not there yet, and rows in the
    order in which they are asked for. SQLite has one writer anyway.
    """
    names = [f"{cluster}/{job_id}" for cluster, job_id in jobs]
    if names and connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(_LOCK, [_OURS, _TURNS, names])
