"""Test data for the dashboard benchmark: many runs, rollouts and metrics, written by SQL.

The rows are copies of those of one small run, which simulated people and workers made. One run has
two fifths of the rollouts (`big`), one has only metrics (`long`), the others share the rest. Only
the newest rollouts have arrays of tokens.
"""

import random
from copy import copy
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from apps.buffer.models import Experience
    from apps.runs.models import Run

NAMES = 36  # metrics per step: those of the charts, and others
GROUP_SIZE = 4
GROUPS_OF_4_STEPS = 20  # every fifth group is dropped
MAX_SHARE = 0.4
WITH_ARRAYS = 5_000
# Data of the largest run, whatever its size: weeks of usage by the hour, ratings and logs.
HOURS = 480
WORKERS = 8
RATINGS = 100_000
LOG_LINES = 200_000
AUDIT_ENTRIES = 100_000
BIG = "big"
LONG = "long"
FIRST = "tone-7"


@dataclass(frozen=True)
class Sizes:
    runs: int
    rollouts: int
    points: int

    @property
    def groups(self) -> dict[str, int]:
        """Return by slug the number of groups of each run."""
        small_runs = max(0, self.runs - 3)
        whole = self.rollouts // GROUP_SIZE
        share = (1 - MAX_SHARE) / small_runs if small_runs else 0
        sizes = {BIG: MAX_SHARE, **{f"run-{n}": share for n in range(small_runs)}}
        return {
            slug: max(1, round(whole * part / GROUPS_OF_4_STEPS)) * GROUPS_OF_4_STEPS
            for slug, part in sizes.items()
        }

    @property
    def steps(self) -> dict[str, int]:
        """Return by slug the number of updates; the long run gets the remaining points."""
        steps = {slug: groups * 4 // GROUPS_OF_4_STEPS for slug, groups in self.groups.items()}
        return steps | {LONG: max(100, self.points // NAMES - sum(steps.values()))}


def create_small_run() -> SimpleNamespace:
    """Create the small run, its people and an administrator; return these and a maker of steps."""
    from apps.accounts.models import User
    from tests.seeding import people_of, seed_run

    run = seed_run(FIRST, 3, password=None)
    return SimpleNamespace(
        run=run,
        root=User.objects.create(username="root", is_staff=True, is_superuser=True),
        **people_of(),
    )


def make_story(slug: str):
    """Return an object that samples, judges, refines and commits on this run as workers would."""
    from apps.accounts.models import User
    from apps.runs.models import Run
    from tests.seeding import Story

    people = {name: User.objects.get(username=name) for name in ("alice", "bob", "simulated")}
    return Story(Run.objects.get(slug=slug), people, random.Random(3))


def fill_tables(sizes: Sizes) -> None:
    """Fill the tables as after months of use, then analyse and vacuum them."""
    from django.db import connection

    from apps.runs.models import MetricSpan, Run

    with connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = 0")
        cursor.execute("SET synchronous_commit = off")
        _runs(cursor, sizes)
        for statement in [*_run_rows(), *_history_statements()]:
            cursor.execute(statement)
    for run in Run.objects.filter(slug__in=sizes.steps):
        MetricSpan.fill(run)
    with connection.cursor() as cursor:
        cursor.execute("VACUUM (ANALYZE)")


def crowd(runs: int) -> None:
    """Create so many more ended runs without content."""
    from django.db import connection

    from apps.runs.models import Run
    from apps.streaming.models import Topic

    first = Run.objects.get(slug=FIRST)
    topics = Topic.objects.bulk_create(
        Topic(project_id=first.project_id, name=f"run:lab/crowd-{n}") for n in range(runs)
    )
    rows = []
    for n, topic in enumerate(topics):
        run = copy(first)
        run.pk = None
        run.slug = f"crowd-{n}"
        run.topic = topic
        run.state = Run.State.COMPLETED
        run.reward_now = n / runs
        rows.append(run)
    Run.objects.bulk_create(rows, batch_size=1_000)
    with connection.cursor() as cursor:
        cursor.execute("VACUUM (ANALYZE) runs_run")


def _runs(cursor, sizes: Sizes) -> None:
    """Write the runs' rows, and the table `bench_plan` with the sizes of each."""
    from apps.runs.models import Run
    from apps.streaming.models import Topic

    first = Run.objects.get(slug=FIRST)
    steps = sizes.steps
    groups = sizes.groups
    topics = Topic.objects.bulk_create(
        Topic(project_id=first.project_id, name=f"run:lab/{slug}", sequence=count)
        for slug, count in steps.items()
    )
    runs = []
    for topic, (slug, count) in zip(topics, steps.items(), strict=True):
        run = Run.objects.get(pk=first.pk)
        run.pk = None
        run.slug = slug
        run.topic = topic
        run.step = count
        run.planned_steps = 10**7
        run.state = Run.State.RUNNING if slug == BIG else Run.State.COMPLETED
        run.groups_opened = groups.get(slug, 0)
        run.groups_dropped = run.groups_opened // 5
        run.published_version = count if slug in groups else 0
        run.experiences_trained = (run.groups_opened - run.groups_dropped) * GROUP_SIZE
        runs.append(run)
    Run.objects.bulk_create(runs)
    cursor.execute("CREATE TABLE bench_plan (run_id bigint, groups int, steps int)")
    rows = [(run.pk, groups.get(run.slug, 0), run.step) for run in runs]
    cursor.execute(
        "INSERT INTO bench_plan SELECT * FROM unnest(%s::bigint[], %s::int[], %s::int[])",
        [*map(list, zip(*rows, strict=True))],
    )


# What the copies are made for: each group or update of the plan, each group or rollout written.
PLANNED_GROUPS = "FROM bench_plan p, generate_series(0, p.groups - 1) n"
PLANNED_STEPS = "FROM bench_plan p, generate_series(1, p.steps) n"
GROUPS = "FROM bench_plan p JOIN rollouts_group g ON g.run_id = p.run_id"
ROLLOUTS = "FROM bench_plan p JOIN rollouts_rollout r ON r.run_id = p.run_id"
STEP_TIME = "now() - (p.steps - n) * interval '3 seconds'"


def _run_rows() -> list[str]:
    """Return the statements that copy the small run's rows to all runs of the plan, in order."""
    from apps.buffer.models import Experience
    from apps.runs.models import Run

    run = Run.objects.get(slug=FIRST)
    learned = Experience.objects.filter(run=run, state="trained").order_by("pk").first()
    rows = [*_rollout_rows(run, learned), *_reward_rows(learned)]
    return [*rows, *_step_rows(run), *_metric_rows(run)]


def _rollout_rows(run: "Run", learned: "Experience") -> list[str]:
    """Return the statements that copy groups, rollouts and token arrays."""
    from apps.rollouts.models import Group, Rollout, RolloutPayload

    tasks = (
        f"(SELECT array_agg(id ORDER BY id) FROM tasksets_task WHERE taskset_id = {run.taskset_id})"
    )
    return [
        _copies(
            Group,
            learned.group_id,
            f"{PLANNED_GROUPS}, {tasks} AS t(ids)",
            {
                "run_id": "p.run_id",
                "draw_index": "n",
                "task_id": "t.ids[1 + n % 500]",
                "state": "CASE WHEN n % 5 = 0 THEN 'dropped' ELSE 'admitted' END",
                "reason": (
                    "CASE WHEN n % 5 = 0 THEN 'reward_spread: its rewards spread no wider than 0'"
                    " ELSE '' END"
                ),
                **dict.fromkeys(
                    ("opened_at", "sampled_at", "judged_at", "closed_at"),
                    "now() - (p.groups - n) * interval '600 ms'",
                ),
            },
        ),
        _copies(
            Rollout,
            learned.rollout_id,
            f"{GROUPS}, generate_series(0, {GROUP_SIZE - 1}) n",
            {
                "run_id": "p.run_id",
                "group_id": "g.id",
                "sample_index": "n",
                "text": "old.text || ' ' || g.draw_index",
                "first_version": "g.draw_index / 5",
                "last_version": "g.draw_index / 5",
                "finished_at": "g.closed_at",
            },
        ),
        _copies(
            RolloutPayload,
            learned.rollout_id,
            f"""FROM (SELECT r.id {ROLLOUTS} ORDER BY r.id DESC LIMIT {WITH_ARRAYS}) r""",
            {
                "rollout_id": "r.id",
            },
        ),
    ]


def _reward_rows(learned: "Experience") -> list[str]:
    """Return the statements that copy rewards and experiences."""
    from apps.rewards.models import Reward

    reward = Reward.objects.filter(rollout=learned.rollout_id, source=Reward.Source.RULE).first()
    return [
        _copies(
            Reward,
            reward.pk,
            ROLLOUTS,
            {"rollout_id": "r.id", "value": "round(random()::numeric, 2)"},
        ),
        _copies(
            type(learned),
            learned.pk,
            f"{ROLLOUTS} JOIN rollouts_group g ON g.id = r.group_id AND g.state = 'admitted'",
            {
                "run_id": "p.run_id",
                "group_id": "g.id",
                "rollout_id": "r.id",
                "weight_version": "r.first_version",
            },
        ),
    ]


def _step_rows(run: "Run") -> list[str]:
    """Return the statements that copy updates, their items and the weight versions."""
    from apps.buffer.models import StepItem
    from apps.runs.models import TrainStep, WeightVersion

    first = run.steps.get(number=1)
    return [
        _copies(
            TrainStep,
            first.pk,
            PLANNED_STEPS,
            {
                "run_id": "p.run_id",
                "number": "n",
                "version": "n - 1",
                "planned_at": STEP_TIME,
                "committed_at": STEP_TIME,
            },
        ),
        _copies(
            StepItem,
            first.items.first().pk,
            """FROM (
            SELECT e.id, e.run_id, row_number() OVER (PARTITION BY e.run_id ORDER BY e.id) - 1 AS n
            FROM buffer_experience e JOIN bench_plan p ON p.run_id = e.run_id) e
            JOIN runs_trainstep s ON s.run_id = e.run_id AND s.number = e.n / 16 + 1""",
            {
                "step_id": "s.id",
                "experience_id": "e.id",
                "position": "e.n % 16",
            },
        ),
        _copies(
            WeightVersion,
            run.weight_versions.get(version=1).pk,
            PLANNED_STEPS,
            {
                "run_id": "p.run_id",
                "version": "n",
                "step": "n",
                "published_at": STEP_TIME,
            },
            "p.groups > 0",
        ),
    ]


def _metric_rows(run: "Run") -> list[str]:
    """Return the statements that copy the events and metrics of updates."""
    from apps.runs.models import Metric
    from apps.streaming.models import Event

    committed = run.topic.events.filter(kind="step_committed").first()
    return [
        _copies(
            Event,
            committed.pk,
            PLANNED_STEPS.replace("p,", "p JOIN runs_run r ON r.id = p.run_id,"),
            {
                "topic_id": "r.topic_id",
                "sequence": "n",
                "at": STEP_TIME,
                "payload": "jsonb_build_object('step', n, 'reward', 0.5)",
            },
        ),
        _copies(
            Metric,
            run.metrics.first().pk,
            f"""{PLANNED_STEPS}, (
            SELECT name, row_number() OVER (ORDER BY is_extra, name) AS k FROM (
                SELECT DISTINCT name, false AS is_extra FROM runs_metric WHERE run_id = {run.pk}
                UNION SELECT 'extra_' || k, true
                    FROM generate_series(1, {NAMES}) k) all_names
                    ORDER BY k LIMIT {NAMES}) names""",
            {
                "run_id": "p.run_id",
                "step": "n",
                "name": "names.name",
                "at": STEP_TIME,
                "value": "0.5 + 0.4 * sin(n * names.k / 900.0) + 0.1 * random()",
            },
        ),
    ]


def _history_statements() -> list[str]:
    """Return the statements that write the largest run's usage, ratings and logs."""
    from apps.feedback.models import Rating
    from apps.runs.costs import KINDS
    from apps.runs.models import Run

    run = Run.objects.get(slug=BIG)
    rating = Rating.objects.filter(rollout__isnull=False, replaces=None).first()
    kinds = ", ".join(f"('{kind}')" for kind in KINDS if not kind.startswith("people"))
    newest = (
        "(SELECT id, row_number() OVER (ORDER BY id DESC) AS n FROM rollouts_rollout WHERE run_id"
        f" = {run.pk})"
    )
    return [
        f"""INSERT INTO runs_usage (run_id, kind, worker, hour, amount)
            SELECT {run.pk}, kind, 'worker-' || w,
                date_trunc('hour', now(), 'UTC') - h * interval '1 hour', 1 + random()
            FROM (VALUES {kinds}) AS k(kind), generate_series(1, {WORKERS}) w,
                generate_series(0, {HOURS - 1}) h""",
        _copies(
            Rating,
            rating.pk,
            f"FROM {newest} r",
            {
                "run_id": f"{run.pk}",
                "rollout_id": "r.id",
                "item_id": "NULL",
                "client_uuid": "gen_random_uuid()",
                "seconds": "4",
                "at": "now() - r.n * interval '1 second'",
            },
            f"r.n <= {RATINGS}",
        ),
        f"""INSERT INTO runs_logline (at, level, event, logger, run_id, worker, fields)
            SELECT now() - ({LOG_LINES} - n) * interval '1 second', 20 + 10 * (n % 50 = 0)::int,
                'groups_started', 'workers.explorer',
            CASE WHEN n % 2 = 0 THEN {run.pk} END, 'explorer@lab:' || 1 + n % 2,
                jsonb_build_object('groups', n)
            FROM generate_series(1, {LOG_LINES}) n""",
        f"""INSERT INTO accounts_auditentry (at, by_id, name, action, project_id, target, details)
            SELECT now() - ({AUDIT_ENTRIES} - n) * interval '1 second', {run.owner_id}, 'alice',
                'run paused', {run.project_id},
            'run lab/' || CASE WHEN n % 2 = 0 THEN '{BIG}' ELSE '{FIRST}' END, '{{}}'
                FROM generate_series(1, {AUDIT_ENTRIES}) n""",
    ]


def _copies(model, pk: int, source: str, new_columns: dict[str, str], where: str = "true") -> str:
    """Return an INSERT of one copy of the row `pk` per row of `source`, with these columns new."""
    meta = model._meta
    columns = [field.column for field in meta.concrete_fields if field.column != "id"]
    values = ", ".join(new_columns.get(column, f'old."{column}"') for column in columns)
    names = ", ".join(f'"{column}"' for column in columns)
    is_original = f'old."{meta.pk.column}" = {pk}'
    return (
        f"INSERT INTO {meta.db_table} ({names}) SELECT {values} {source}, {meta.db_table} old WHERE"
        f" {where} AND {is_original}"
    )
