"""How the time of draws, claims, sweeps and `reconcile` grows with tasks, rollouts and runs.

    python bench/growth.py [--tasks 1000 10000] [--rollouts 1000 10000] [--runs 10 100] [--rounds 5]

On a PostgreSQL of its own. Three tables are grown one after the other, each to every size that is
given:

- tasks: a set of that size; where success counts, the run tried all of its tasks once, the last of
  them just now. Measured is `drawn` for the eight draws of one update, by every rule of
  `selection`; the first call, which may build a scale of difficulty, is shown apart.
- rollouts: those of an ended run. Measured are opening, sampling, claiming and admitting eight
  groups of eight (`bench/buffer.py`), planning and committing their update, a sweep, and
  `reconcile`.
- runs: one in ten of them is live. Measured is a sweep.

Times are medians of `--rounds` calls, by wall and by processor (this process and its PostgreSQL).
The exponent is that of the power of the size that fits best (least squares of the logarithms) to
the processor time: other work on the machine disturbs it least. 0 is no growth, 1 is linear.

The last line on standard output is JSON: by what is measured, `sizes`, `wall_ms`, `cpu_ms` and
`exponent`; and `worst_draw_ms` and `worst_draw_cpu_ms`, the slowest rule at the largest set, for
eight draws.
"""

import argparse
import json
import math
import statistics
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from bench.buffer import (  # noqa: E402
    GROUPS,
    REPLIES,
    Seconds,
    Spent,
    Timer,
    copy_groups,
    create_buffer_run,
    create_buffer_stage,
    drawn_tokens,
    through_us,
)
from bench.installation import installation  # noqa: E402

LEVELS = 7  # values of the tasks' number by which they are ordered
RULES = {
    "sequential": {"name": "sequential"},
    "shuffle": {"name": "shuffle"},
    "random": {"name": "random"},
    "people": {"name": "people"},
    "easy_to_hard": {"name": "easy_to_hard", "scale": "level"},
    "curriculum": {"name": "curriculum", "scale": "level", "from_step": 0},
    "pools": {
        "name": "pools",
        "scale": "level",
        "pools": [{"max_value": 3, "share": 2}, {"share": 1}],
    },
    "mixture": {"name": "mixture", "parts": [{"domain": "a", "share": 2}, {"domain": "b"}]},
    "prioritized": {"name": "prioritized"},
    "bots": {"name": "bots", "choose": "thompson"},
    "bots by mean": {"name": "bots", "choose": "mean"},
    "bots by softmax": {"name": "bots", "choose": "softmax"},
}
BY_SUCCESS = {"prioritized", "bots", "bots by mean", "bots by softmax"}
COPY_TASKS = """
    INSERT INTO tasksets_task SELECT new.* FROM generate_series(%(first)s, %(size)s - 1) n,
        tasksets_task old,
        LATERAL jsonb_populate_record(old, jsonb_build_object(
            'id', nextval(pg_get_serial_sequence('tasksets_task', 'id')), 'index', n,
            'digest', md5(n::text))) new
    WHERE old.taskset_id = %(taskset)s AND old.index = 0"""
NUMBER_TASKS = """
    UPDATE tasksets_task SET meta = jsonb_build_object('level', index %% %(levels)s),
        domain = CASE index %% 2 WHEN 0 THEN 'a' ELSE 'b' END
    WHERE taskset_id = %(taskset)s"""
TRY_TASKS = """
    INSERT INTO rollouts_taskrecord (run_id, task_id, attempts, successes, alpha, beta, last_draw)
    SELECT %(run)s, id, 8, index %% 9, 1 + 2 * (index %% 9), 17 - 2 * (index %% 9), index
    FROM tasksets_task WHERE taskset_id = %(taskset)s"""


class Growth:
    """What was measured, by name and size."""

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds
        self.medians: dict[str, dict[int, Spent]] = {}

    def measure(self, name: str, size: int, work: Callable[[], object]) -> None:
        spent: list[Spent] = []
        for _ in range(self.rounds):
            with Timer(spent):
                work()
        self.note(name, size, spent)

    def note(self, name: str, size: int, spent: Sequence[Spent]) -> None:
        """Keep the medians of these times, and print them."""
        wall = statistics.median(call_time.wall for call_time in spent)
        cpu = statistics.median(call_time.cpu for call_time in spent)
        self.medians.setdefault(name, {})[size] = Spent(wall, cpu)
        print(f"{name:28}{size:12,}{wall * 1e3:12.2f} ms{cpu * 1e3:12.2f} ms cpu", flush=True)

    def report(self) -> dict[str, object]:
        """Print the exponents; return everything."""
        document: dict[str, object] = {}
        for name, by_size in self.medians.items():
            grown = exponent({size: spent.cpu for size, spent in by_size.items()})
            print(f"{name:28} exponent {grown:5.2f}")
            document[name] = {
                "sizes": list(by_size),
                "wall_ms": [round(spent.wall * 1e3, 2) for spent in by_size.values()],
                "cpu_ms": [round(spent.cpu * 1e3, 2) for spent in by_size.values()],
                "exponent": round(grown, 3),
            }
        return document


def main() -> None:
    options = parse_options()
    with installation(RFTWEB_DEBUG="0"):
        growth = Growth(options.rounds)
        project = create_buffer_stage()
        for size in options.tasks:
            grow_tasks(growth, project, size)
        grow_runs(growth, project, options.runs)
        grow_rollouts(growth, project, options.rollouts)
        document = growth.report()
    for unit in ("ms", "cpu_ms"):
        of_rules = [document[f"draw: {rule}"] for rule in RULES]
        key = unit if unit == "cpu_ms" else "wall_ms"
        document[f"worst_draw_{unit}"] = max(by_size[key][-1] for by_size in of_rules)
    print(json.dumps(document))


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, sizes in (
        ("tasks", (1000, 10_000)),
        ("rollouts", (1000, 10_000)),
        ("runs", (10, 100)),
    ):
        parser.add_argument(
            f"--{name}", type=int, nargs="+", default=sizes, help=("sizes in increasing order")
        )
    parser.add_argument(
        "--rounds", type=int, default=5, help=("number of calls; the median is reported")
    )
    return parser.parse_args()


def exponent(by_size: dict[int, float]) -> float:
    """Return the slope of the line that fits the logarithms best; 0 for a single size."""
    points = [(math.log(size), math.log(spent)) for size, spent in by_size.items()]
    if len(points) < 2:
        return 0.0
    return statistics.linear_regression(*zip(*points, strict=True)).slope


def execute(statement: str, **values: object) -> None:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = 0")
        cursor.execute(statement, values or None)


# -- tasks


def grow_tasks(growth: Growth, project, size: int) -> None:
    """Measure the draws of every rule from a set of this size."""
    from apps.rollouts.task_sampling import sample_tasks

    taskset = new_taskset(project, size)
    for rule, selection in RULES.items():
        run = new_drawing_run(project, taskset, f"{rule.replace(' ', '-')}-{size}", selection)
        if rule in BY_SUCCESS:
            execute(TRY_TASKS, run=run.pk, taskset=taskset.pk)
            execute("ANALYZE rollouts_taskrecord")
        draws = range(size, size + GROUPS)
        first: list[Spent] = []
        with Timer(first):
            sample_tasks(run, run.settings, draws)
        print(f"{rule}, first call at {size:,}: {first[0].wall * 1e3:.0f} ms")
        growth.measure(f"draw: {rule}", size, partial(sample_tasks, run, run.settings, draws))
        execute("DELETE FROM rollouts_taskrecord WHERE run_id = %(run)s", run=run.pk)


def new_taskset(project, size: int):
    from apps.tasksets.importing import generate
    from apps.tasksets.models import Taskset

    slug = f"grown-{size}"
    generate(project, slug, "tone", 10, 0)
    taskset = project.tasksets.get(slug=slug)
    execute(COPY_TASKS, first=taskset.size, size=size, taskset=taskset.pk)
    execute(NUMBER_TASKS, levels=LEVELS, taskset=taskset.pk)
    Taskset.objects.filter(pk=taskset.pk).update(size=size)
    execute("VACUUM ANALYZE tasksets_task")
    taskset.refresh_from_db()
    return taskset


def new_drawing_run(project, taskset, slug: str, selection: dict):
    from apps.runs.models import Run
    from apps.runs.parsing import parse_config

    plan = parse_config(
        {
            "policy": "tone",
            "taskset": taskset.slug,
            "steps": 10,
            "group_size": REPLIES,
            "groups_per_step": GROUPS,
            "selection": selection,
            "rewards": [{"scorer": "tone"}],
        }
    )
    return Run.create(project=project, slug=slug, title=slug, plan=plan)


# -- runs


def grow_runs(growth: Growth, project, sizes: Sequence[int]) -> None:
    from apps.runs.models import Run
    from workers.coordinator import sweep_leases

    before = Run.objects.count()
    for size in sizes:
        for number in range(Run.objects.count() - before, size):
            run = create_buffer_run(project, f"one-{number}", 2)
            if number % 10:
                run.stop()
        execute("ANALYZE")
        growth.measure("sweep, by runs", size, sweep_leases)
    for run in Run.objects.running():  # rollouts are measured without them
        run.stop()


# -- rollouts


def grow_rollouts(growth: Growth, project, sizes: Sequence[int]) -> None:
    """Measure the stations of a batch, a sweep and `reconcile` beside this many old rollouts."""
    from apps.dashboard.reconciliation import reconcile
    from workers.coordinator import sweep_leases

    samples = drawn_tokens(16, 16)
    _, old = through_us(project, "old", samples, 1)
    count = GROUPS
    for size in sizes:
        count = copy_groups(old, count, max(count, size // REPLIES))
        spent, run = through_us(project, f"among-{size}", samples, growth.rounds)
        for name in vars(Seconds()):
            growth.note(f"batch {name}", size, getattr(spent, name))
        growth.measure("sweep, by rollouts", size, sweep_leases)
        growth.measure("reconcile", size, partial(reconcile, None))
        run.stop()


if __name__ == "__main__":
    main()
