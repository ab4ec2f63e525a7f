"""Limit the requests of an API token per interval of a few seconds, counted in Redis.

While Redis is unavailable, no requests are counted: the limit protects the server and is not a
guarantee.
"""

import time

import redis
import structlog
from django.conf import settings
from redis.backoff import NoBackoff
from redis.retry import Retry
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from apps.accounts.models import Token

log = structlog.get_logger(__name__)
STRETCH_S = 5
TIMEOUT_S = 0.5
DEAD_REDIS = (redis.RedisError, OSError)
_connections: dict[str, redis.Redis] = {}


class TokenRate(BaseThrottle):
    """A throttle that refuses with 429 and Retry-After; people in browsers are not counted."""

    def allow_request(self, request: Request, view: object) -> bool:
        if not isinstance(request.auth, Token):
            return True
        now = time.time()
        self.left_s = STRETCH_S - now % STRETCH_S
        return (
            _count_request(f"asked:{request.auth.pk}:{int(now // STRETCH_S)}")
            <= settings.REQUESTS_PER_SECOND * STRETCH_S
        )

    def wait(self) -> float:
        return self.left_s


def _count_request(key: str) -> int:
    """Count this request; return the count including it, or 0 while Redis is unavailable."""
    try:
        pipe = _connection(settings.REDIS_URL).pipeline(transaction=False)
        pipe.incr(key)
        pipe.expire(key, 2 * STRETCH_S)
        return pipe.execute()[0]
    except DEAD_REDIS as error:
        log.warning("rate_limit_not_counted", error=str(error))
        return 0


def _connection(url: str) -> redis.Redis:
    if url not in _connections:
        once = Retry(NoBackoff(), 1)
        _connections[url] = redis.Redis.from_url(
            url, socket_timeout=TIMEOUT_S, socket_connect_timeout=TIMEOUT_S, retry=once
        )
    return _connections[url]
