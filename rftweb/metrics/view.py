"""The address that Prometheus asks. What was told is told again for some seconds: asking often costs nothing."""

import threading
import time

from django.conf import settings
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.accounts.models import User
from apps.accounts.scopes import MayRead
from rftweb.metrics.process import Process
from rftweb.metrics.runs import Figures

MOST_KEPT = 100  # persons whose figures are kept


class PrometheusText(BaseRenderer):
    media_type, format, charset = "text/plain", "txt", "utf-8"

    def render(self, data: object, accepted_media_type: str | None = None, renderer_context: dict | None = None) -> bytes:
        return data if isinstance(data, bytes) else str(data).encode()


class Kept:
    """What each person was told last. One asks the database at a time; who comes meanwhile gets what that one found."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.told: dict[int, tuple[float, bytes]] = {}

    def text(self, user: User) -> bytes:
        with self.lock:
            at, text = self.told.get(user.pk, (float("-inf"), b""))
            if time.monotonic() - at >= settings.METRICS_SECONDS:
                text = scraped(Figures(user))
                if len(self.told) >= MOST_KEPT:
                    self.told.clear()
                self.told[user.pk] = time.monotonic(), text
            return text


KEPT = Kept()


class Metrics(APIView):
    schema = None
    permission_classes = [MayRead]
    renderer_classes = [PrometheusText]

    def get(self, request: Request) -> Response:
        return Response(KEPT.text(request.user) + scraped(Process(request.user)), content_type=CONTENT_TYPE_LATEST)


def scraped(collector: Figures | Process) -> bytes:
    registry = CollectorRegistry()
    registry.register(collector)
    return generate_latest(registry)
