"""Facts that the alert rules evaluate, read for all runs together in a fixed number of queries."""

import shutil
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from django.conf import settings
from django.db import connection
from django.db.models import Count, Exists, F, Max, Min, OuterRef, Q
from django.db.models.functions import Coalesce

from apps.alerts.learning_stalls import Fruitless, fruitless_runs
from apps.alerts.processes import LostWorker, lost
from apps.environments.models import Environment
from apps.feedback.calibration.watching import alarm_sentence
from apps.feedback.models import Calibration, Suspicion
from apps.rewards.hacking import TITLES
from apps.rollouts.models import Group
from apps.runs import control_plane
from apps.runs.config import RunConfig
from apps.runs.control_plane import ControlPlane
from apps.runs.models import Acknowledgement, Metric, Run, TrainStep, WeightVersion, Worker

CURVES = ("kl", "behaviour_kl", "behaviour_gap", "entropy", "success", "step_seconds")
FIRST_CURVES = ("entropy", "behaviour_gap")
STEPS_SEEN = 50  # newest steps, and first ones; the rules ask for no more
VERSIONS_SEEN = 50
# By state of a group: the field that says since when it has been in it.
SINCE = {
    "sampling": "opened_at",
    "scoring": "sampled_at",
    "waiting": "sampled_at",
    "judged": "judged_at",
}
Points = Sequence[tuple[int, float]]  # (step, value), by step


@dataclass(frozen=True)
class GroupsInState:
    """The number of groups of a run in one state, and since when the oldest has been in it."""

    count: int
    since: datetime


@dataclass(frozen=True)
class OpenBreaker:
    """An environment whose circuit breaker is open, with no success since it opened.

    `until` is the end of its latest pause.
    """

    name: str
    reason: str
    failures: int
    until: datetime


@dataclass(frozen=True)
class RewardWarning:
    """A warning about the run's rewards: a scorer below its threshold, or a suspicion."""

    key: str
    words: str
    since: datetime


@dataclass(frozen=True)
class DiskSpace:
    """The free and total bytes of a disk that runs write to."""

    name: str
    free: int
    total: int


@dataclass(frozen=True)
class Facts:
    """Everything the rules need to know about one run at `now`, by the database's clock.

    `moved_at` is the time of the latest step, or of the last start or resume if that came later.
    """

    now: datetime
    plan: RunConfig
    moved_at: datetime
    live_since: datetime
    step: int = 0
    waiting_on: str = ""
    groups_by_state: Mapping[str, GroupsInState] = field(default_factory=dict)
    curves: Mapping[str, Points] = field(default_factory=dict)
    first_entropy: Points = ()
    first_gap: Points = ()
    fruitless: Fruitless | None = None
    unapplied: Sequence[tuple[int, str, datetime]] = ()  # (step, reason, time), by step
    # Oldest published version after the newest that an engine acknowledged.
    unserved: tuple[int, datetime] | None = None
    failing: Sequence[OpenBreaker] = ()
    scorers: Sequence[RewardWarning] = ()
    suspicions: Sequence[RewardWarning] = ()
    disks: Sequence[DiskSpace] = ()
    heartbeats: Mapping[str, datetime] = field(default_factory=dict)  # newest heartbeat, by role
    lost: Sequence[LostWorker] = ()
    control: ControlPlane | None = None
    spent: Mapping[str, float] = field(
        default_factory=dict
    )  # by the fields of apps.runs.budget.Budget

    def since(self, moment: datetime | None) -> float:
        """Return the seconds from a moment until `now`; 0 without a moment."""
        return 0.0 if moment is None else (self.now - moment).total_seconds()


def gather_facts(runs: Iterable[Run], spent: Mapping[int, Mapping[str, float]]) -> dict[int, Facts]:
    """Return the facts of each run by run id.

    `runs` must have their projects loaded. Raises ConfigError for a run whose configuration cannot
    be read.
    """
    runs = list(runs)
    ids = [run.pk for run in runs]
    now = _now()
    groups_by_state = _groups_by_state(ids)
    curves = _curves(runs)
    first = _first_curves(ids)
    unapplied = _unapplied(ids)
    unserved = _unserved(ids)
    scorers = _scorers(ids)
    suspicions = _suspicions(ids)
    fruitless = fruitless_runs(runs)
    failing = _failing({run.project_id for run in runs})
    all_disks = disks()
    heartbeats = _newest_heartbeats()
    lost_workers = lost()
    control = control_plane.read_control_plane()
    facts_by_run = {}
    for run in runs:
        plan = run.settings
        live_since = run.state_since or run.started_at or run.created_at
        environment = plan.environment.name if plan.environment else None
        facts_by_run[run.pk] = Facts(
            now=now,
            plan=plan,
            step=run.step,
            moved_at=max(filter(None, (live_since, run.trained_at))),
            live_since=live_since,
            waiting_on=run.waiting_on,
            groups_by_state=groups_by_state[run.pk],
            curves=curves[run.pk],
            first_entropy=first[run.pk]["entropy"],
            first_gap=first[run.pk]["behaviour_gap"],
            unapplied=unapplied[run.pk],
            unserved=unserved.get(run.pk),
            disks=all_disks,
            heartbeats=heartbeats,
            scorers=scorers[run.pk],
            failing=[breaker for breaker in failing[run.project_id] if breaker.name == environment],
            suspicions=suspicions[run.pk],
            spent=spent.get(run.pk, {}),
            lost=lost_workers,
            control=control,
            fruitless=fruitless.get(run.pk),
        )
    return facts_by_run


def facts_of_control(runs: Iterable[Run]) -> dict[int, Facts]:
    """Return, by run id, only the facts that the rule `control_worker_late` reads."""
    control = control_plane.read_control_plane()
    facts_by_run = {}
    for run in runs:
        live_since = run.state_since or run.started_at or run.created_at
        facts_by_run[run.pk] = Facts(
            now=control.now,
            plan=run.settings,
            moved_at=live_since,
            live_since=live_since,
            control=control,
        )
    return facts_by_run


def _now() -> datetime:
    with connection.cursor() as cursor:
        cursor.execute("SELECT now()")
        return cursor.fetchone()[0]


def _groups_by_state(ids: list[int]) -> dict[int, dict[str, GroupsInState]]:
    groups_by_run: dict[int, dict[str, GroupsInState]] = defaultdict(dict)
    rows = (
        Group.objects.filter(run__in=ids, state__in=list(SINCE)).order_by().values("run", "state")
    )
    oldest = {
        f"oldest_{state}": Min(Coalesce(name, "opened_at"), filter=Q(state=state))
        for state, name in SINCE.items()
    }
    counted = rows.annotate(n=Count("pk"), **oldest).values_list("run", "state", "n", *oldest)
    for run, state, count, *since in counted:
        groups_by_run[run][state] = GroupsInState(count, since[list(SINCE).index(state)])
    return groups_by_run


def _curves(runs: Sequence[Run]) -> dict[int, dict[str, list]]:
    curves: dict[int, dict[str, list]] = defaultdict(lambda: defaultdict(list))
    newest = Metric.objects.of_last_steps(runs, STEPS_SEEN).filter(name__in=CURVES)
    for run, name, step, value in newest.order_by("run", "name", "step").values_list(
        "run_id", "name", "step", "value"
    ):
        curves[run][name].append((step, value))
    return curves


def _first_curves(ids: list[int]) -> dict[int, dict[str, list]]:
    curves: dict[int, dict[str, list]] = defaultdict(lambda: defaultdict(list))
    first = Metric.objects.filter(run__in=ids, name__in=FIRST_CURVES, step__lte=STEPS_SEEN)
    rows = first.order_by("run", "name", "step").values_list("run_id", "name", "step", "value")
    for run, name, step, value in rows:
        curves[run][name].append((step, value))
    return curves


def _unapplied(ids: list[int]) -> dict[int, list]:
    unapplied: dict[int, list] = defaultdict(list)
    steps = TrainStep.objects.filter(
        run__in=ids, number__gt=F("run__step") - STEPS_SEEN, committed_at__isnull=False
    )
    rows = (
        steps.exclude(skipped="")
        .order_by("number")
        .values_list("run_id", "number", "skipped", "committed_at")
    )
    for run, number, why, at in rows:
        unapplied[run].append((number, why, at))
    return unapplied


def _unserved(ids: list[int]) -> dict[int, tuple[int, datetime]]:
    """Return each run's oldest published version that no engine has acknowledged, with its time.

    Only versions after the newest acknowledged one count; a run whose newest version is
    acknowledged has no entry.
    """
    acknowledged = Exists(Acknowledgement.objects.filter(weight_version=OuterRef("pk")))
    versions = WeightVersion.objects.filter(
        run__in=ids,
        published_at__isnull=False,
        version__gt=F("run__published_version") - VERSIONS_SEEN,
    )
    oldest: dict[int, tuple[int, datetime] | None] = {}
    rows = (
        versions.annotate(is_acknowledged=acknowledged)
        .order_by("run", "version")
        .values_list("run_id", "version", "published_at", "is_acknowledged")
    )
    for run, version, at, is_acknowledged in rows:
        assert at is not None  # only published versions were read
        oldest[run] = None if is_acknowledged else oldest.get(run) or (version, at)
    return {run: first for run, first in oldest.items() if first}


def _failing(projects: set[int]) -> dict[int, list[OpenBreaker]]:
    breakers: dict[int, list[OpenBreaker]] = defaultdict(list)
    for environment in Environment.objects.filter(
        project__in=projects, open_until__isnull=False
    ):  # a success clears `open_until`
        assert environment.open_until is not None
        breakers[environment.project_id].append(
            OpenBreaker(
                environment.name,
                environment.open_reason,
                environment.failures,
                environment.open_until,
            )
        )
    return breakers


def _scorers(ids: list[int]) -> dict[int, list[RewardWarning]]:
    warnings_by_run: dict[int, list[RewardWarning]] = defaultdict(list)
    for row in (
        Calibration.objects.filter(run__in=ids)
        .exclude(alarm="")
        .defer("metrics", "widest")
        .order_by("pk")
    ):
        key = row.scorer if row.domain is None else f"{row.scorer} at {row.domain or 'no domain'}"
        assert row.alarmed_at is not None  # it is set with the alarm
        warnings_by_run[row.run_id].append(
            RewardWarning(key[:100], alarm_sentence(row, row.alarm), row.alarmed_at)
        )
    return warnings_by_run


def _suspicions(ids: list[int]) -> dict[int, list[RewardWarning]]:
    warnings_by_run: dict[int, list[RewardWarning]] = defaultdict(list)
    for suspicion in Suspicion.objects.filter(run__in=ids, state=Suspicion.State.OPEN).order_by(
        "pk"
    ):
        warnings_by_run[suspicion.run_id].append(
            RewardWarning(
                suspicion.kind,
                f"{TITLES.get(suspicion.kind, suspicion.kind)}: {suspicion.words}",
                suspicion.first_seen_at,
            )
        )
    return warnings_by_run


def _newest_heartbeats() -> dict[str, datetime]:
    lately = Worker.objects.filter(heartbeat_at__gt=_now() - timedelta(days=31)).order_by()
    return dict(lately.values_list("role").annotate(newest=Max("heartbeat_at")))


def disks() -> list[DiskSpace]:
    """Return the disks that hold weights and data; a disk that holds both appears once."""
    folders = {"weights": settings.WEIGHTS_ROOT, "data": settings.VAR}
    disk_by_device: dict[int, DiskSpace] = {}
    for name, folder in folders.items():
        existing_folder = _nearest(folder)
        device = existing_folder.stat().st_dev
        if device not in disk_by_device:
            usage = shutil.disk_usage(existing_folder)
            disk_by_device[device] = DiskSpace(name, usage.free, usage.total)
    return list(disk_by_device.values())


def _nearest(folder: Path) -> Path:
    """Return the folder, or its nearest existing parent."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder
