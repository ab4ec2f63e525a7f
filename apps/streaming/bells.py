"""Bells in Redis: they hasten work and views, and are never needed for either to be right.

Every function here survives a dead Redis: ringing is dropped, waiting becomes sleeping.
"""

import threading
import time
from functools import cache

import redis
import structlog
from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.conf import settings
from redis.backoff import NoBackoff
from redis.retry import Retry

log = structlog.get_logger(__name__)
STATIONS = ("explore", "score", "refine", "train")
RINGS_KEPT = 4
DEAD_REDIS = (redis.ConnectionError, redis.TimeoutError, OSError)
# One new attempt at once, for a connection that a restart has cut; redis-py would sleep between three of them.
ONCE_MORE = Retry(NoBackoff(), 1)


@cache
def connection() -> redis.Redis:
    """This process's connection for short commands (blocking ones have a timeout of their own)."""
    timeouts = {"socket_timeout": 2, "socket_connect_timeout": 2, "health_check_interval": 15}
    return redis.Redis.from_url(settings.REDIS_URL, retry=ONCE_MORE, **timeouts)


@cache
def _waiting_connection() -> redis.Redis:
    return redis.Redis.from_url(settings.REDIS_URL, socket_timeout=None, socket_connect_timeout=2, retry=ONCE_MORE)


def ring(*stations: str) -> None:
    """Tell the stations that there may be work. A few rings are kept for sleepers; more say nothing new."""
    try:
        pipe = connection().pipeline(transaction=False)
        for station in stations:
            pipe.lpush(f"bell:{station}", 1)
            pipe.ltrim(f"bell:{station}", 0, RINGS_KEPT - 1)
        pipe.execute()
    except DEAD_REDIS as error:
        log.warning("bell_not_rung", stations=stations, error=str(error))


def wait(station: str, seconds: float) -> bool:
    """Sleep until the station's bell rings or the seconds are over; True when it rang."""
    started = time.monotonic()
    try:
        return _waiting_connection().blpop([f"bell:{station}"], timeout=seconds) is not None
    except DEAD_REDIS:
        threading.Event().wait(max(0.0, seconds - (time.monotonic() - started)))
        return False


def reachable() -> bool:
    """Whether Redis answers now. While it does not, a slice goes on: nobody could ring the next one."""
    try:
        return bool(connection().ping())
    except DEAD_REDIS:
        return False


def announce(topic: str, sequence: int, kind: str, payload: dict, at: str) -> None:
    """Push an event to this topic's followers; those who miss it ask Postgres from their last sequence."""
    message = {"type": "topic.event", "topic": topic, "sequence": sequence, "kind": kind, "payload": payload, "at": at}
    try:
        async_to_sync(get_channel_layer().group_send)(group_name(topic), message)
    except DEAD_REDIS as error:
        log.warning("event_not_announced", topic=topic, sequence=sequence, error=str(error))


def group_name(topic: str) -> str:
    """The channel layer's spelling of a topic (it allows no colon)."""
    return "topic." + topic.replace(":", ".")
