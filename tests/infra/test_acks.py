"""A worker takes its next message even if Redis died when the last one was done."""

import logging

import pytest
from kombu import Connection, Consumer, Queue

from rftweb import celery  # noqa: F401  (its channels)
from tests.streaming.conftest import own_redis  # noqa: F401

LOG = logging.getLogger(__name__)


@pytest.fixture
def taken(own_redis):
    """Take a message from a queue that delivers one at a time."""
    queue = Queue("bell")
    came = []
    with Connection(own_redis.url) as connection:
        connection.Producer().publish({}, routing_key="bell", declare=[queue])
        with Consumer(connection, [queue], on_message=came.append, prefetch_count=1):
            connection.drain_events(timeout=60)
            [message] = came
            yield message


def test_next_message_is_taken_only_after_the_current_one_is_acknowledged(taken):
    assert not taken.channel.qos.can_consume()
    taken.ack_log_error(LOG, taken.channel.connection_errors)
    assert taken.channel.qos.can_consume()


@pytest.mark.parametrize("end", ["ack_log_error", "reject_log_error"])
def test_worker_can_take_a_message_after_redis_dies_before_the_acknowledgement(
    taken, own_redis, end
):
    own_redis.kill()
    getattr(taken, end)(LOG, taken.channel.connection_errors)
    assert taken.channel.qos.can_consume()
    own_redis.start()
