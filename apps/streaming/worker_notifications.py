"""Wake-up notifications over Redis: they make work start sooner, and nothing depends on them.

Every function here survives an unavailable Redis: a notification is dropped, and waiting becomes
sleeping.
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
# One immediate retry, for a connection that a restart has cut; redis-py would sleep between three
# attempts.
ONCE_MORE = Retry(NoBackoff(), 1)


@cache
def connection() -> redis.Redis:
    """Return this process's connection for short commands.

    Blocking commands use a connection without a socket timeout.
    """
    timeouts = {"socket_timeout": 2, "socket_connect_timeout": 2, "health_check_interval": 15}
    return redis.Redis.from_url(settings.REDIS_URL, retry=ONCE_MORE, **timeouts)


@cache
def _waiting_connection() -> redis.Redis:
    return redis.Redis.from_url(
        settings.REDIS_URL, socket_timeout=None, socket_connect_timeout=2, retry=ONCE_MORE
    )


def notify_workers(*stations: str) -> None:
    """Notify waiting processes that there may be work for them.

    A few notifications are kept for processes that are not waiting yet; more would carry no
    information.
    """
    try:
        pipe = connection().pipeline(transaction=False)
        for station in stations:
            pipe.lpush(f"wakeup:{station}", 1)
            pipe.ltrim(f"wakeup:{station}", 0, RINGS_KEPT - 1)
        pipe.execute()
    except DEAD_REDIS as error:
        log.warning("worker_notification_failed", stations=stations, error=str(error))


def wait(station: str, seconds: float) -> bool:
    """Sleep until a notification arrives or the time is over; return whether one arrived."""
    started = time.monotonic()
    try:
        return _waiting_connection().blpop([f"wakeup:{station}"], timeout=seconds) is not None
    except DEAD_REDIS:
        threading.Event().wait(max(0.0, seconds - (time.monotonic() - started)))
        return False


def has_arrived(station: str) -> bool:
    """Tell whether a notification has arrived, without waiting for one."""
    try:
        return connection().lpop(f"wakeup:{station}") is not None
    except DEAD_REDIS:
        return False


def reachable() -> bool:
    """Tell whether Redis answers now.

    While it does not, a job continues with its next slice: nothing could notify it to start again.
    """
    try:
        return bool(connection().ping())
    except DEAD_REDIS:
        return False


def announce(topic: str, sequence: int, kind: str, payload: dict, at: str) -> None:
    """Publish an event to the followers of its topic.

    Followers that miss it read it from Postgres, after the last sequence number that they have.
    """
    message = {
        "type": "topic.event",
        "topic": topic,
        "sequence": sequence,
        "kind": kind,
        "payload": payload,
        "at": at,
    }
    try:
        async_to_sync(get_channel_layer().group_send)(group_name(topic), message)
    except DEAD_REDIS as error:
        log.warning("event_notification_failed", topic=topic, sequence=sequence, error=str(error))


def group_name(topic: str) -> str:
    """Return a topic's name as the channel layer allows it (without colons)."""
    return "topic." + topic.replace(":", ".")
