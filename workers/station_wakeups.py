"""Stations wake themselves: a worker that is free sends its station's job, if no message for it
waits.

Only a free worker knows that there is nobody it would disturb: a station is never sent a job that
would wait behind a running slice, and a second explorer gets its own. The step lives in the
worker's main process and starts anew with each connection to the broker, so neither a lost message
nor a lost broker stops a station.
"""

from typing import Any

from celery import bootsteps, current_app
from celery.worker import state

from apps.streaming import bells, wakeups

PERIOD_SECONDS = 1.0


class StationWakeups(bootsteps.StartStopStep):
    """Names relied on, Celery 5.7: `Consumer.timer`, `worker.state.reserved_requests`,
    `Queues.consume_from`.
    """

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def __init__(self, consumer: Any, **options: object) -> None:
        super().__init__(consumer, **options)
        self.timer = None

    def start(self, consumer: Any) -> None:
        served = consumer.app.amqp.queues.consume_from
        stations = [station for station in bells.STATIONS if station in served]
        if stations:
            self.timer = consumer.timer.call_repeatedly(PERIOD_SECONDS, wake, (stations,))

    def stop(self, consumer: Any) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


def wake(stations: list[str]) -> None:
    """Send each station's job, if this worker is free."""
    if not state.reserved_requests:
        for station in stations:
            wakeups.send(station)


current_app.steps["consumer"].add(StationWakeups)
