"""A worker takes its next message whatever became of Redis when it was done with the last one."""

import logging

import pytest
from kombu import Connection, Consumer, Queue

from rftweb import celery  # noqa: F401  (its channels)
from tests.streaming.conftest import own_redis  # noqa: F401

LOG = logging.getLogger(__name__)


@pytest.fixture
def taken(own_redis):
    """A message that was taken, of one that may be taken at a time."""
    queue = Queue("bell")
    came = []
    with Connection(own_redis.url) as connection:
        connection.Producer().publish({}, routing_key="bell", declare=[queue])
        with Consumer(connection, [queue], on_message=came.append, prefetch_count=1):
            connection.drain_events(timeout=60)
            [message] = came
            yield message


def test_a_message_at_work_is_the_only_one(taken):
    assert not taken.channel.qos.can_consume()
    taken.ack_log_error(LOG, taken.channel.connection_errors)
    assert taken.channel.qos.can_consume()


@pytest.mark.parametrize("end", ["ack_log_error", "reject_log_error"])
def test_redis_dies_before_it_hears_that_the_work_is_done(taken, own_redis, end):
    own_redis.kill()
    getattr(taken, end)(LOG, taken.channel.connection_errors)
    assert taken.channel.qos.can_consume()
    own_redis.start()
