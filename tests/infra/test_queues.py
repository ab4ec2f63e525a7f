"""A job goes into its own queue and into no other."""

import pytest
from django.conf import settings

from rftweb.celery import app

QUEUES = [queue.name for queue in settings.CELERY_TASK_QUEUES]


@pytest.fixture
def lengths():
    """How many messages each queue holds; all are emptied before and after."""
    with app.connection_for_write() as connection:
        client = connection.default_channel.client
        client.delete(*QUEUES)
        yield lambda: {queue: client.llen(queue) for queue in QUEUES if client.llen(queue)}
        client.delete(*QUEUES)


@pytest.mark.parametrize(("job", "route"), settings.CELERY_TASK_ROUTES.items())
def test_a_job_rings_one_bell(job, route, lengths):
    app.send_task(job)
    assert lengths() == {route["queue"]: 1}
