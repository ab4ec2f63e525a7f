"""Figures for Prometheus, read from the rows when asked: the same from every web process.

A person or a token sees the runs of its own projects; workers are shown to staff.
"""

from collections.abc import Iterator

from django.db.models import Count, Model
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.accounts.models import User
from apps.accounts.scopes import MayRead
from apps.buffer.models import Experience
from apps.rollouts.models import Group
from apps.runs.blindness import judged_openly
from apps.runs.models import Run, Worker
from apps.streaming import bells
from apps.streaming.sockets import Socket

RUN = ("project", "run")


class PrometheusText(BaseRenderer):
    media_type, format, charset = "text/plain", "txt", "utf-8"

    def render(self, data: object, accepted_media_type: str | None = None, renderer_context: dict | None = None) -> bytes:
        return data if isinstance(data, bytes) else str(data).encode()


class Metrics(APIView):
    schema = None
    permission_classes = [MayRead]
    renderer_classes = [PrometheusText]

    def get(self, request: Request) -> Response:
        registry = CollectorRegistry()
        registry.register(Figures(request.user))
        return Response(generate_latest(registry), content_type=CONTENT_TYPE_LATEST)


class Figures:
    """One scrape for one person, as a prometheus_client collector."""

    def __init__(self, user: User) -> None:
        self.user = user
        self.runs = Run.objects.visible_to(user)
        self.open_runs = self.runs.exclude(state__in=Run.ENDED)

    def collect(self) -> Iterator[Metric]:
        yield self._runs()
        yield from self._progress()
        yield self._rows_by_state("rftweb_groups", "Open groups by station.", Group, Group.OPEN)
        waiting = (Experience.State.READY, Experience.State.CLAIMED)
        yield self._rows_by_state("rftweb_experiences", "Experiences that wait.", Experience, waiting)
        yield GaugeMetricFamily("rftweb_redis_up", "Whether Redis answers this process.", value=bells.reachable())
        yield GaugeMetricFamily("rftweb_sockets", "Live connections of this process.", value=Socket.open_sockets.total())
        if self.user.is_staff:
            yield self._workers()

    def _runs(self) -> Metric:
        family = GaugeMetricFamily("rftweb_runs", "Runs by state.", labels=["state"])
        counts = dict(self.runs.order_by().values_list("state").annotate(Count("pk")))
        for state in Run.State.values:
            family.add_metric([state], counts.get(state, 0))
        return family

    def _progress(self) -> Iterator[Metric]:
        """The counters of each run that has not ended; its version for who does not judge it blind."""
        steps = CounterMetricFamily("rftweb_run_steps", "Committed optimiser updates.", labels=RUN)
        planned = GaugeMetricFamily("rftweb_run_planned_steps", "Updates the run is to make.", labels=RUN)
        version = GaugeMetricFamily("rftweb_run_weight_version", "Published weight version.", labels=RUN)
        opened = CounterMetricFamily("rftweb_run_groups_opened", "Groups drawn.", labels=RUN)
        dropped = CounterMetricFamily("rftweb_run_groups_dropped", "Groups dropped.", labels=RUN)
        figures = ("step", "planned_steps", "published_version", "groups_opened", "groups_dropped")
        families = (steps, planned, version, opened, dropped)
        seen = set(judged_openly(self.user).exclude(state__in=Run.ENDED).values_list("pk", flat=True))
        for pk, project, slug, *values in self.open_runs.order_by("pk").values_list("pk", "project__slug", "slug", *figures):
            for family, value in zip(families, values, strict=True):
                if family is not version or pk in seen:
                    family.add_metric([project, slug], value)
        yield from families

    def _rows_by_state(self, name: str, words: str, kind: type[Model], states: tuple) -> Metric:
        """How many of them each run has in each of these states."""
        family = GaugeMetricFamily(name, words, labels=[*RUN, "state"])
        rows = kind.objects.filter(run__in=self.open_runs, state__in=states).order_by()
        for project, run, state, count in rows.values_list("run__project__slug", "run__slug", "state").annotate(Count("pk")):
            family.add_metric([project, run, state], count)
        return family

    def _workers(self) -> Metric:
        family = GaugeMetricFamily("rftweb_worker_heartbeat_timestamp_seconds", "When it last said so.", labels=["role", "worker"])
        for worker in Worker.objects.filter(stopped_at=None).only("role", "key", "heartbeat_at"):
            family.add_metric([worker.role, worker.key], worker.heartbeat_at.timestamp())
        return family
