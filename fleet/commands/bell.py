"""A word to all server processes that a node has a new command. A hint: whoever misses it finds the row in its next sweep."""

import logging
from functools import cache
from typing import Final

import redis
from django.conf import settings

log = logging.getLogger(__name__)

CHANNEL: Final = "fettle:commands"
PATIENCE_S: Final = 1.0


def ring(node: int) -> None:
    """Publish the node's id; a broker that is away costs a second and nothing else."""
    try:
        _client().publish(CHANNEL, str(node))
    except (redis.RedisError, OSError) as error:
        log.warning("No word of a command went out, the sweep will find it: %s", error)


@cache
def _client() -> redis.Redis:
    return redis.Redis.from_url(settings.REDIS_URL, socket_timeout=PATIENCE_S, socket_connect_timeout=PATIENCE_S)
