"""Record for `/metrics` how late this process receives what it passes on to browsers."""

import time
from datetime import datetime

from prometheus_client import Histogram

BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
LAG = Histogram(
    "rftweb_live_lag_seconds",
    "From when an event was recorded, or a chunk written, to when this process passes it on.",
    ["what"],
    buckets=BUCKETS,
    registry=None,
)
EVENTS = LAG.labels("event")
CHUNKS = LAG.labels("chunk")


def event_heard(at: str) -> None:
    """Record the delay of an event; `at` is when it was recorded, as ISO 8601."""
    EVENTS.observe(max(0.0, time.time() - datetime.fromisoformat(at).timestamp()))


def chunk_heard(milliseconds: int) -> None:
    """Record the delay of a chunk.

    `milliseconds` is when Redis received it, since 1970: the first half of an entry's id.
    """
    CHUNKS.observe(max(0.0, time.time() - milliseconds / 1000))
