"""/healthz: the process is up. /readyz: what it needs is there. Neither asks who calls, and neither tells a secret."""

import tempfile
from collections.abc import Callable
from typing import Final

import redis
from django.conf import settings
from django.db import DatabaseError, connection
from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from fleet.store.connect import SERVERS, unready

PATIENCE_S: Final = 2.0


@never_cache
@require_safe
def healthz(request: HttpRequest) -> JsonResponse:
    """200 as long as the process answers."""
    return JsonResponse({"status": "ok"})


@never_cache
@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """200 when database, broker and store can be used, else 503 with what is wrong."""
    problems = {name: problem for name, check in CHECKS.items() if (problem := check())}
    status = {name: problems.get(name, "ok") for name in CHECKS}
    return JsonResponse({"status": "unready" if problems else "ok", "checks": status}, status=503 if problems else 200)


def database() -> str | None:
    """Why the database cannot be used, or None."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1 FROM django_migrations WHERE 1 = 0")
    except DatabaseError:
        return "The database does not answer, or was never migrated."
    return None


def broker() -> str | None:
    """Why the broker cannot be used, or None."""
    client = redis.Redis.from_url(settings.REDIS_URL, socket_timeout=PATIENCE_S, socket_connect_timeout=PATIENCE_S)
    try:
        client.ping()
    except (redis.RedisError, OSError):
        return "The broker does not answer."
    finally:
        client.close()
    return None


def store() -> str | None:
    """Why telemetry cannot be written, or None."""
    if settings.FETTLE_STORE in SERVERS:
        return unready()
    if settings.FETTLE_STORE != "parquet":
        return None
    try:
        settings.FETTLE_STORE_DIR.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=settings.FETTLE_STORE_DIR, prefix=".readyz-") as file:
            file.write(b"ok")
            file.flush()
    except OSError as error:
        return f"The store's directory cannot be written: {error.strerror}."
    return None


CHECKS: Final[dict[str, Callable[[], str | None]]] = {"database": database, "broker": broker, "store": store}
