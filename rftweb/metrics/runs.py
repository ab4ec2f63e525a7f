"""Metrics of runs and workers, read from rows: the same from every web process.

A user or a token sees the runs of its own projects; workers are shown to staff.
"""

from collections import Counter
from collections.abc import Iterator

from django.conf import settings
from django.db import connection
from django.db.models import Count, F, Min, Model
from django.db.models.fields.json import KeyTransform
from django.db.models.functions import Now
from django.utils import timezone
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from apps.accounts.models import User
from apps.alerts.models import Alert
from apps.buffer.models import Experience
from apps.rollouts.models import Group
from apps.runs import control_plane
from apps.runs.blind_review import judged_openly
from apps.runs.models import Metric as RunMetric
from apps.runs.models import Run, Worker, after

RUN = ("project", "run")
# Metrics of the newest step that are exported: scorer names among a run's metrics do not create
# series here.
TOLD = (
    "reward_mean",
    "reward_human",
    "reward_simulated",
    "reward_machine",
    "reward_rule",
    "reward_model",
    "reward_environment",
    "success",
    "staleness",
    "kl",
    "behaviour_kl",
    "entropy",
    "grad_norm",
    "loss",
    "completion_length",
    "step_seconds",
    "wait_seconds",
    "explore_tokens_per_s",
    "judged_per_s",
    "refined_per_s",
)
# Measures of evaluations, at k = 1, for so many question sets per run: at most 15 series per run.
OF_EVALUATIONS = ("pass", "mean")
EVALUATIONS = 5
RECENT = "interval '10 minutes'"
MAX_RATINGS = 1_000  # newest ratings read per run
MAX_WORKERS = 500
FORGOTTEN_S = 24 * 3600  # a worker that is silent for longer has no series
# The newest ratings of each run, by its index: the search ends at ratings older than a few minutes.
RATINGS = f"""
    SELECT run.id, rated.is_simulated, count(*) FROM unnest(%s::bigint[]) AS run (id)
    CROSS JOIN LATERAL (
        SELECT person.is_simulated, newest.at FROM
            (SELECT rater_id, at FROM feedback_rating
                WHERE run_id = run.id ORDER BY id DESC LIMIT {MAX_RATINGS}) newest
            JOIN accounts_user person ON person.id = newest.rater_id) rated
    WHERE rated.at > statement_timestamp() - {RECENT} GROUP BY 1, 2"""


class RunCollector:
    """One scrape for one user, as a prometheus_client collector."""

    def __init__(self, user: User) -> None:
        self.user = user
        self.runs = Run.objects.visible_to(user)
        self.open_runs = self.runs.exclude(state__in=Run.ENDED)

    def collect(self) -> Iterator[Metric]:
        yield self._runs()
        yield from self._progress()
        yield self._newest_metrics()
        yield from self._evaluations()
        yield from self._groups()
        waiting = (Experience.State.READY, Experience.State.CLAIMED)
        yield self._rows_by_state(
            "rftweb_experiences", "Experiences that wait.", Experience, waiting
        )
        yield self._ratings()
        yield self._alerts()
        if self.user.is_staff:
            yield from self._workers()

    def _runs(self) -> Metric:
        family = GaugeMetricFamily("rftweb_runs", "Training runs, by state.", labels=["state"])
        counts = dict(
            self.runs.filter(is_evaluation=False)
            .order_by()
            .values_list("state")
            .annotate(Count("pk"))
        )
        for state in Run.State.values:
            family.add_metric([state], counts.get(state, 0))
        return family

    def _progress(self) -> Iterator[Metric]:
        """Yield the counters of each run that has not ended; of evaluations only those of groups.

        The version is for users who do not rate the run blind.
        """
        steps = CounterMetricFamily("rftweb_run_steps", "Committed optimizer steps.", labels=RUN)
        planned = GaugeMetricFamily(
            "rftweb_run_planned_steps", "Planned optimizer steps.", labels=RUN
        )
        version = GaugeMetricFamily(
            "rftweb_run_weight_version", "Published weight version.", labels=RUN
        )
        opened = CounterMetricFamily("rftweb_run_groups_opened", "Groups opened.", labels=RUN)
        dropped = CounterMetricFamily("rftweb_run_groups_dropped", "Groups dropped.", labels=RUN)
        metrics = ("step", "planned_steps", "published_version", "groups_opened", "groups_dropped")
        families: list[CounterMetricFamily | GaugeMetricFamily]
        families = [steps, planned, version, opened, dropped]
        unblinded = set(self._open_ones())
        names = ("pk", "is_evaluation", "project__slug", "slug")
        for pk, is_evaluation, project, slug, *values in self.open_runs.order_by("pk").values_list(
            *names, *metrics
        ):
            for family, value in zip(families, values, strict=True):
                if family in (opened, dropped) or not (
                    is_evaluation or (family is version and pk not in unblinded)
                ):
                    family.add_metric([project, slug], value)
        yield from families

    def _open_ones(self) -> dict[int, tuple[str, str]]:
        """Return {id: (project, slug)} of active runs whose ratings the user may see."""
        runs = (
            judged_openly(self.user)
            .exclude(state__in=Run.ENDED)
            .values_list("pk", "project__slug", "slug")
        )
        return {pk: (project, slug) for pk, project, slug in runs}

    def _newest_metrics(self) -> Metric:
        """Return the newest metrics; one index seek per run and name."""
        family = GaugeMetricFamily(
            "rftweb_run_metric",
            "Metrics of the newest step of each run that has not ended.",
            labels=[*RUN, "name"],
        )
        labels_by_run = self._open_ones()
        rows = RunMetric.objects.filter(run__in=labels_by_run, step=F("run__step"), name__in=TOLD)
        for run, name, value in rows.values_list("run", "name", "value"):
            family.add_metric([*labels_by_run[run], name], value)
        return family

    def _evaluations(self) -> Iterator[Metric]:
        """Yield the newest evaluated version's metric by question set, for active runs.

        Only the sets that were evaluated last are included.
        """
        labels = [*RUN, "taskset", "question_set"]
        value = GaugeMetricFamily(
            "rftweb_run_evaluation",
            "The newest evaluated version's metric.",
            labels=[*labels, "measure"],
        )
        version = GaugeMetricFamily(
            "rftweb_run_evaluated_version", "The newest evaluated version.", labels=labels
        )
        labels_by_run = self._open_ones()
        counts: Counter[int] = Counter()
        question = ("evaluates__run_id", "evaluation_set", "taskset_id")
        of_runs = Run.objects.filter(evaluates__run__in=labels_by_run, result__isnull=False)
        newest = (
            of_runs.order_by(*question, "-evaluates__version", "-pk")
            .distinct(*question)
            .values("pk")
        )
        table = KeyTransform("metrics", "result__metrics")
        means_at_1 = (KeyTransform("1", KeyTransform(name, table)) for name in OF_EVALUATIONS)
        fields = ("evaluates__run_id", "evaluates__version", "taskset__slug", "evaluation_set")
        rows = Run.objects.filter(pk__in=newest).order_by("-pk").values_list(*fields, *means_at_1)
        for run, number, taskset, question_set, *means in rows:
            counts[run] += 1
            if counts[run] > EVALUATIONS:
                continue
            version.add_metric([*labels_by_run[run], taskset, question_set], number)
            for name, mean in zip(OF_EVALUATIONS, means, strict=True):
                if mean and mean[0] is not None:
                    value.add_metric(
                        [*labels_by_run[run], taskset, question_set, f"{name}@1"], mean[0]
                    )
        yield from (value, version)

    def _groups(self) -> Iterator[Metric]:
        """Yield the open groups by stage, and the age of the oldest of each."""
        count = GaugeMetricFamily(
            "rftweb_groups", "Open groups by station.", labels=[*RUN, "state"]
        )
        age = GaugeMetricFamily(
            "rftweb_oldest_group_age_seconds",
            "Age of the oldest open group at each station.",
            labels=[*RUN, "state"],
        )
        rows = Group.objects.filter(run__in=self.open_runs, state__in=Group.OPEN).order_by()
        by_state = rows.values_list("run__project__slug", "run__slug", "state").annotate(
            Count("pk"), Min("opened_at")
        )
        now = timezone.now()
        for project, run, state, groups, oldest in by_state:
            count.add_metric([project, run, state], groups)
            age.add_metric([project, run, state], max(0.0, (now - oldest).total_seconds()))
        yield from (count, age)

    def _ratings(self) -> Metric:
        family = GaugeMetricFamily(
            "rftweb_run_recent_ratings",
            f"Ratings of the last 10 minutes, {MAX_RATINGS} at most.",
            labels=[*RUN, "by"],
        )
        labels_by_run = {
            pk: (project, slug)
            for pk, project, slug in self.open_runs.values_list("pk", "project__slug", "slug")
        }
        with connection.cursor() as cursor:
            cursor.execute(RATINGS, [list(labels_by_run)])
            counts = {(run, is_simulated): count for run, is_simulated, count in cursor.fetchall()}
        for run, names in labels_by_run.items():
            for is_simulated, word in ((False, "people"), (True, "simulated")):
                family.add_metric([*names, word], counts.get((run, is_simulated), 0))
        return family

    def _alerts(self) -> Metric:
        """Return the open alerts that the user may see."""
        family = GaugeMetricFamily(
            "rftweb_open_alerts", "Open alerts, by rule.", labels=[*RUN, "rule"]
        )
        rows = Alert.objects.visible_to(self.user).open().filter(run__in=self.runs).order_by()
        for project, run, rule, count in rows.values_list(
            "run__project__slug", "run__slug", "rule"
        ).annotate(Count("pk")):
            family.add_metric([project, run, rule], count)
        return family

    def _rows_by_state(self, name: str, words: str, kind: type[Model], states: tuple) -> Metric:
        """Return how many rows each run has in each of these states."""
        family = GaugeMetricFamily(name, words, labels=[*RUN, "state"])
        rows = kind._default_manager.filter(run__in=self.open_runs, state__in=states).order_by()
        for project, run, state, count in rows.values_list(
            "run__project__slug", "run__slug", "state"
        ).annotate(Count("pk")):
            family.add_metric([project, run, state], count)
        return family

    def _workers(self) -> Iterator[Metric]:
        beat = GaugeMetricFamily(
            "rftweb_worker_heartbeat_timestamp_seconds",
            "Time of the worker's last heartbeat.",
            labels=["role", "worker"],
        )
        alive = GaugeMetricFamily(
            "rftweb_workers", "Workers with a heartbeat within their lease.", labels=["role"]
        )
        recent = Worker.every.filter(stopped_at=None, heartbeat_at__gte=after(-FORGOTTEN_S))
        for worker in recent.only("role", "key", "heartbeat_at").order_by("-heartbeat_at")[
            :MAX_WORKERS
        ]:
            beat.add_metric([worker.role, worker.key], worker.heartbeat_at.timestamp())
        living = recent.filter(
            heartbeat_at__gte=after(-settings.LEASE_SECONDS), heartbeat_at__lte=Now()
        )
        counts = dict(living.order_by().values_list("role").annotate(Count("pk")))
        for role in Worker.Role.values:
            alive.add_metric([role], counts.get(role, 0))
        plane = control_plane.read_control_plane()
        behind = GaugeMetricFamily(
            "rftweb_control_sweep_age_seconds",
            "Seconds since the last sweep; one is due every five.",
            value=plane.behind_s,
        )
        yield from (beat, alive, behind)
