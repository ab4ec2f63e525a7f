"""The URL that Prometheus scrapes.

A response is reused for some seconds, so that frequent scrapes cost nothing.
"""

import threading
import time
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from rest_framework.renderers import BaseRenderer
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.accounts.models import User
from apps.accounts.requests import ApiRequest
from apps.accounts.scopes import MayRead
from rftweb.metrics.process import Process
from rftweb.metrics.runs import RunCollector

MAX_KEPT = 100  # users whose response is kept


class PrometheusText(BaseRenderer):
    media_type = "text/plain"
    format = "txt"
    charset = "utf-8"

    def render(
        self,
        data: object,
        accepted_media_type: str | None = None,
        renderer_context: Mapping[str, Any] | None = None,
    ) -> bytes:
        return data if isinstance(data, bytes) else str(data).encode()


class CachedResponse:
    """The last response for each user.

    One scrape queries the database at a time; those that wait for it get its result.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.texts: dict[int, tuple[float, bytes]] = {}

    def text(self, user: User) -> bytes:
        with self.lock:
            at, text = self.texts.get(user.pk, (float("-inf"), b""))
            if time.monotonic() - at >= settings.METRICS_SECONDS:
                text = scraped(RunCollector(user))
                if len(self.texts) >= MAX_KEPT:
                    self.texts.clear()
                self.texts[user.pk] = time.monotonic(), text
            return text


KEPT = CachedResponse()


class Metrics(APIView):
    schema = None
    permission_classes = [MayRead]
    renderer_classes = [PrometheusText]

    def get(self, request: ApiRequest) -> Response:
        return Response(
            KEPT.text(request.user) + scraped(Process(request.user)),
            content_type=CONTENT_TYPE_LATEST,
        )


def scraped(collector: RunCollector | Process) -> bytes:
    registry = CollectorRegistry()
    registry.register(collector)
    return generate_latest(registry)
