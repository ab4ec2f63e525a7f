"""What the rules look at, of all runs together: some queries, whatever the number of runs."""

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

from apps.alerts.fruitless import Fruitless, fruitless_runs
from apps.alerts.processes import Lost, lost
from apps.environments.models import Environment
from apps.feedback.calibration.watching import told
from apps.feedback.models import Calibration, Suspicion
from apps.rewards.hacking import TITLES
from apps.rollouts.models import Group
from apps.runs import control_plane
from apps.runs.config import RunConfig
from apps.runs.control_plane import ControlPlane
from apps.runs.models import Acknowledgement, Metric, Run, TrainStep, WeightVersion, Worker

CURVES = ("kl", "behaviour_kl", "entropy", "success", "step_seconds")
STEPS_SEEN = 50  # newest updates, and first ones; the rules ask for no more
VERSIONS_SEEN = 50
# Where groups stand, by the state: since when they are there.
SINCE = {"sampling": "opened_at", "scoring": "sampled_at", "waiting": "sampled_at", "judged": "judged_at"}
Points = Sequence[tuple[int, float]]  # (step, value), by step


@dataclass(frozen=True)
class Standing:
    """Groups of a run in one state: how many, and since when the oldest is."""

    count: int
    since: datetime


@dataclass(frozen=True)
class Failing:
    """An environment whose breaker opened, and which has not succeeded since. `until`: the end of its newest rest."""

    name: str
    reason: str
    failures: int
    until: datetime


@dataclass(frozen=True)
class Sign:
    """What is said elsewhere of the run's rewards, in words: a scorer under its threshold, or a suspicion."""

    key: str
    words: str
    since: datetime


@dataclass(frozen=True)
class Room:
    """A disk that runs write to, in bytes."""

    name: str
    free: int
    total: int


@dataclass(frozen=True)
class Facts:
    """Of one run at `now`, on the database's clock. `moved_at`: its newest update, or when it was started or resumed after that."""

    now: datetime
    plan: RunConfig
    step: int = 0
    moved_at: datetime | None = None
    live_since: datetime | None = None
    waiting_on: str = ""
    standing: Mapping[str, Standing] = field(default_factory=dict)
    curves: Mapping[str, Points] = field(default_factory=dict)
    first_entropy: Points = ()
    fruitless: Fruitless | None = None
    unapplied: Sequence[tuple[int, str, datetime]] = ()  # step, why, when; by step
    unserved: tuple[int, datetime] | None = None  # oldest published version after the newest that an engine acknowledged
    failing: Sequence[Failing] = ()
    scorers: Sequence[Sign] = ()
    suspicions: Sequence[Sign] = ()
    rooms: Sequence[Room] = ()
    heard: Mapping[str, datetime] = field(default_factory=dict)  # newest sign of life, by role
    lost: Sequence[Lost] = ()
    control: ControlPlane | None = None
    spent: Mapping[str, float] = field(default_factory=dict)  # by the fields of apps.runs.budget.Budget

    def since(self, moment: datetime | None) -> float:
        """Seconds."""
        return 0.0 if moment is None else (self.now - moment).total_seconds()


def facts_of(runs: Iterable[Run], spent: Mapping[int, Mapping[str, float]]) -> dict[int, Facts]:
    """By run (id). `runs` come with their projects; a run whose configuration cannot be read raises ConfigError."""
    runs = list(runs)
    ids = [run.pk for run in runs]
    now = _now()
    standing, curves, first, unapplied = _standing(ids), _curves(runs), _first_entropy(ids), _unapplied(ids)
    unserved, scorers, suspicions = _unserved(ids), _scorers(ids), _suspicions(ids)
    fruitless = fruitless_runs(runs)
    failing, rooms, heard, gone = _failing({run.project_id for run in runs}), disks(), _heard(), lost()
    control = control_plane.look()
    found = {}
    for run in runs:
        plan, live_since = run.settings, run.state_since or run.started_at or run.created_at
        environment = plan.environment.name if plan.environment else None
        found[run.pk] = Facts(
            now=now, plan=plan, step=run.step, moved_at=max(filter(None, (live_since, run.trained_at))), live_since=live_since,
            waiting_on=run.waiting_on, standing=standing[run.pk], curves=curves[run.pk], first_entropy=first[run.pk],
            unapplied=unapplied[run.pk], unserved=unserved.get(run.pk), rooms=rooms, heard=heard, scorers=scorers[run.pk],
            failing=[one for one in failing[run.project_id] if one.name == environment], suspicions=suspicions[run.pk],
            spent=spent.get(run.pk, {}), lost=gone, control=control,
            fruitless=fruitless.get(run.pk),
        )  # fmt: skip
    return found


def facts_of_control(runs: Iterable[Run]) -> dict[int, Facts]:
    """Only what the rule `control_behind` reads, by run (id)."""
    control = control_plane.look()
    return {
        run.pk: Facts(
            now=control.now,
            plan=run.settings,
            live_since=run.state_since or run.started_at or run.created_at,
            control=control,
        )
        for run in runs
    }


def _now() -> datetime:
    with connection.cursor() as cursor:
        cursor.execute("SELECT now()")
        return cursor.fetchone()[0]


def _standing(ids: list[int]) -> dict[int, dict[str, Standing]]:
    found: dict[int, dict[str, Standing]] = defaultdict(dict)
    rows = Group.objects.filter(run__in=ids, state__in=list(SINCE)).order_by().values("run", "state")
    oldest = {f"oldest_{state}": Min(Coalesce(name, "opened_at"), filter=Q(state=state)) for state, name in SINCE.items()}
    for row in rows.annotate(n=Count("pk"), **oldest):
        found[row["run"]][row["state"]] = Standing(row["n"], row[f"oldest_{row['state']}"])
    return found


def _curves(runs: Sequence[Run]) -> dict[int, dict[str, list]]:
    found: dict[int, dict[str, list]] = defaultdict(lambda: defaultdict(list))
    newest = Metric.objects.of_last_steps(runs, STEPS_SEEN).filter(name__in=CURVES)
    for run, name, step, value in newest.order_by("run", "name", "step").values_list("run_id", "name", "step", "value"):
        found[run][name].append((step, value))
    return found


def _first_entropy(ids: list[int]) -> dict[int, list]:
    found: dict[int, list] = defaultdict(list)
    first = Metric.objects.filter(run__in=ids, name="entropy", step__lte=STEPS_SEEN).order_by("run", "step")
    for run, step, value in first.values_list("run_id", "step", "value"):
        found[run].append((step, value))
    return found


def _unapplied(ids: list[int]) -> dict[int, list]:
    found: dict[int, list] = defaultdict(list)
    steps = TrainStep.objects.filter(run__in=ids, number__gt=F("run__step") - STEPS_SEEN, committed_at__isnull=False)
    rows = steps.exclude(skipped="").order_by("number").values_list("run_id", "number", "skipped", "committed_at")
    for run, number, why, at in rows:
        found[run].append((number, why, at))
    return found


def _unserved(ids: list[int]) -> dict[int, tuple[int, datetime]]:
    """None where an engine has acknowledged the newest; of versions that came since, the first."""
    heard = Exists(Acknowledgement.objects.filter(weight_version=OuterRef("pk")))
    versions = WeightVersion.objects.filter(
        run__in=ids, published_at__isnull=False, version__gt=F("run__published_version") - VERSIONS_SEEN
    )
    found: dict[int, tuple[int, datetime] | None] = {}
    rows = versions.annotate(heard=heard).order_by("run", "version").values_list("run_id", "version", "published_at", "heard")
    for run, version, at, is_heard in rows:
        found[run] = None if is_heard else found.get(run) or (version, at)
    return {run: first for run, first in found.items() if first}


def _failing(projects: set[int]) -> dict[int, list[Failing]]:
    found: dict[int, list[Failing]] = defaultdict(list)
    for one in Environment.objects.filter(project__in=projects, open_until__isnull=False):  # a success empties it
        found[one.project_id].append(Failing(one.name, one.open_reason, one.failures, one.open_until))
    return found


def _scorers(ids: list[int]) -> dict[int, list[Sign]]:
    found: dict[int, list[Sign]] = defaultdict(list)
    for row in Calibration.objects.filter(run__in=ids).exclude(alarm="").defer("figures", "widest").order_by("pk"):
        key = row.scorer if row.domain is None else f"{row.scorer} at {row.domain or 'no domain'}"
        found[row.run_id].append(Sign(key[:100], told(row, row.alarm), row.alarmed_at))
    return found


def _suspicions(ids: list[int]) -> dict[int, list[Sign]]:
    found: dict[int, list[Sign]] = defaultdict(list)
    for one in Suspicion.objects.filter(run__in=ids, state=Suspicion.State.OPEN).order_by("pk"):
        found[one.run_id].append(Sign(one.kind, f"{TITLES.get(one.kind, one.kind)}: {one.words}", one.first_seen_at))
    return found


def _heard() -> dict[str, datetime]:
    lately = Worker.objects.filter(heartbeat_at__gt=_now() - timedelta(days=31)).order_by()
    return dict(lately.values_list("role").annotate(newest=Max("heartbeat_at")))


def disks() -> list[Room]:
    """The disks under weights and data, as this machine sees them; one that holds both is one."""
    folders = {"weights": settings.WEIGHTS_ROOT, "data": settings.VAR}
    rooms: dict[int, Room] = {}
    for name, folder in folders.items():
        there = _nearest(folder)
        device = there.stat().st_dev
        if device not in rooms:
            usage = shutil.disk_usage(there)
            rooms[device] = Room(name, usage.free, usage.total)
    return list(rooms.values())


def _nearest(folder: Path) -> Path:
    """The folder, or the one that it will be made in."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder
