"""Cost of each station for one step of a run: processor time and statements.

    python bench/stations.py [--steps 30] [--policy FOLDER]

Explorer, scorer, refiner and trainer take turns in this one process, on real services, with the
demo's `sort` run. So each figure belongs to one station, nothing waits for anything, and other work
on the machine changes little. `bench/loop.py` measures the whole stack.

Statements are those of the station's main thread, savepoints included. The processor time of a
station includes that of its threads (engine, trainer). The last line on standard output is JSON.
"""

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from bench.installation import installation  # noqa: E402
from bench.loop import PLAN, last_json  # noqa: E402

WARM_STEPS = 6


def main() -> None:
    options = parse_options()
    with installation(OMP_NUM_THREADS="1") as var:
        folder = options.policy or Path(
            last_json(["-m", "workers.policies.build", "sort", "--out", var / "policies"])["folder"]
        )
        figures = measured(furnish(folder, options.steps), options.steps, var)
    for station, station_figures in figures["stations"].items():
        print(
            f"{station:10} {station_figures['processor_ms']:7.1f} ms of processor time"
            f" {station_figures['statements']:6.1f} statements"
        )
    print(f"{'PostgreSQL':10} {figures['postgres_ms']:7.1f} ms of processor time")
    print(json.dumps(figures))


def furnish(folder: Path, steps: int) -> Any:
    """Return the running run."""
    from apps.accounts.models import Project
    from apps.policies.registering import register_policy
    from apps.runs import parsing
    from apps.runs.models import Run
    from apps.tasksets.importing import generate
    from rftweb.demonstration.furnishing import SEED, TASKS

    plan = parsing.from_yaml(PLAN.read_text())
    plan = parsing.parse_config({**plan.model_dump(mode="json"), "steps": steps})
    project = Project.objects.create(slug="bench", title="Bench")
    register_policy(project, plan.policy, folder, "built for a measurement")
    generate(project, plan.taskset, plan.taskset, TASKS[plan.taskset], SEED)
    run = Run.create(project=project, slug="bench", title="Bench", plan=plan)
    run.start()
    return run


def measured(run: Any, steps: int, var: Path) -> dict[str, Any]:
    import torch

    from workers import refiner, scorer
    from workers.explorer.job import explorer
    from workers.scorer_dispatch import grader
    from workers.trainer.job import trainer

    torch.set_num_threads(1)
    stations = {
        "explorer": explorer().serve,
        "scorer": scorer.serve,
        "refiner": refiner.serve,
        "trainer": trainer().serve,
    }
    try:
        until(run, WARM_STEPS, stations)
        first = run.step
        postgres = processor_of_postgres(var)
        used, statements = until(run, steps - 1, stations)
        step_count = run.step - first
        postgres = processor_of_postgres(var) - postgres
    finally:
        run.stop()
        explorer().stop()
        trainer().stop()
        grader().stop()
    by_station = {
        name: {
            "processor_ms": round(1000 * used[name] / step_count, 1),
            "statements": round(statements[name] / step_count, 1),
        }
        for name in stations
    }
    return {
        "steps": step_count,
        "stations": by_station,
        "postgres_ms": round(1000 * postgres / step_count, 1),
    }


def until(
    run: Any, step: int, stations: Mapping[str, Callable[[], bool]]
) -> tuple[Counter[str], Counter[str]]:
    """Let the stations take turns until the run has made this step.

    Returns the processor seconds and the statements of each.
    """
    used: Counter[str] = Counter()
    statements: Counter[str] = Counter()
    while run.step < step:
        for name, serve in stations.items():
            began = time.process_time()
            with counted() as count:
                serve()
            used[name] += time.process_time() - began
            statements[name] += count[0]
        run.refresh_from_db()
        if not run.is_live:
            raise SystemExit(f"the run is {run.get_state_display()}: {run.state_reason}")
    return used, statements


@contextmanager
def counted() -> Iterator[list[int]]:
    """Yield a list with the number of statements of this thread so far."""
    from django.db import connection

    count = [0]

    def one_more(execute: Callable, *arguments: Any) -> Any:
        count[0] += 1
        return execute(*arguments)

    with connection.execute_wrapper(one_more):
        yield count


def processor_of_postgres(var: Path) -> float:
    """Return the processor seconds of the server and its backends, ended ones included."""
    import psutil

    server = psutil.Process(int((var / "postgres/data/postmaster.pid").read_text().split()[0]))
    seconds = 0.0
    for process in (server, *server.children(recursive=True)):
        try:
            seconds += sum(process.cpu_times()[:4])
        except psutil.NoSuchProcess:
            continue
    return seconds


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--policy", type=Path, help="sealed folder of version 0; default: built")
    options = parser.parse_args()
    if options.steps < WARM_STEPS + 2:
        parser.error(f"--steps: at least {WARM_STEPS + 2}")
    return options


if __name__ == "__main__":
    main()
