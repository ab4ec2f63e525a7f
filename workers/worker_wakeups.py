"""Self-wakeup of workers: a free worker sends its queue's job if no message for it waits.

Only a free worker knows that it would disturb nobody: no job is sent that would wait behind a
running slice, and a second explorer gets its own. The step runs in the worker's main process and
starts again with each connection to the broker, so neither a lost message nor a lost broker stops
the work.
"""

from typing import Any

from celery import bootsteps, current_app
from celery.worker import state

from apps.streaming import wakeups, worker_notifications

PERIOD_SECONDS = 1.0


class WorkerWakeups(bootsteps.StartStopStep):  # type: ignore[misc]  # Celery has no types
    """A bootstep that wakes this worker regularly.

    Names relied on, Celery 5.7: `Consumer.timer`, `worker.state.reserved_requests`,
    `Queues.consume_from`.
    """

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def __init__(self, consumer: Any, **options: object) -> None:
        super().__init__(consumer, **options)
        self.timer = None

    def start(self, consumer: Any) -> None:
        served = consumer.app.amqp.queues.consume_from
        queues = [queue for queue in worker_notifications.STATIONS if queue in served]
        if queues:
            self.timer = consumer.timer.call_repeatedly(PERIOD_SECONDS, send_jobs, (queues,))

    def stop(self, consumer: Any) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


def send_jobs(queues: list[str]) -> None:
    """Send the job of each of these queues, if this worker is free."""
    if not state.reserved_requests:
        for queue in queues:
            wakeups.send(queue)


current_app.steps["consumer"].add(WorkerWakeups)
