"""Metrics of this web process: response times, open connections, and whether Redis answers.

Several web processes share an address, and a scrape reaches any of them: the label `process`
distinguishes their series.
"""

import os
import socket
import time
from collections.abc import Callable, Iterator

from django.http import HttpRequest, HttpResponse
from prometheus_client import Histogram
from prometheus_client.core import GaugeMetricFamily, Metric

from apps.accounts.models import User
from apps.streaming import worker_notifications
from apps.streaming.delays import LAG
from apps.streaming.sockets import Socket

SECONDS = (0.01, 0.025, 0.05, 0.1, 0.15, 0.25, 0.5, 1, 2.5, 5, 10)
METHODS = {"GET", "HEAD", "POST", "PATCH", "PUT", "DELETE"}
ANSWERS = Histogram(
    "rftweb_http_seconds",
    "Response time by route name; for files, until the first byte.",
    ["view", "method", "status"],
    buckets=SECONDS,
    registry=None,
)


class TimingMiddleware:
    """Middleware that records response times.

    Labels are names of URL patterns, never paths, and classes of status codes: their number is
    bounded.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        started = time.perf_counter()
        answer = self.get_response(request)
        match = request.resolver_match
        view = (match.view_name or match.route) if match else "none"
        method = request.method if request.method in METHODS else "other"
        ANSWERS.labels(view, method, f"{answer.status_code // 100}xx").observe(
            time.perf_counter() - started
        )
        return answer


class Process:
    """A prometheus_client collector of this process's metrics, for staff."""

    def __init__(self, user: User) -> None:
        self.user = user

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily(
            "rftweb_redis_up",
            "Whether this process can reach Redis.",
            value=worker_notifications.reachable(),
        )
        yield GaugeMetricFamily(
            "rftweb_sockets",
            "Open WebSocket connections of this process.",
            value=Socket.open_sockets.total(),
        )
        if self.user.is_staff:
            name = f"{socket.gethostname()}:{os.getpid()}"
            for family in (*ANSWERS.collect(), *LAG.collect()):
                for place, sample in enumerate(family.samples):
                    family.samples[place] = sample._replace(
                        labels=sample.labels | {"process": name}
                    )
                yield family
