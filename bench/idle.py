"""Cost of an idle installation: processor share and PostgreSQL statements per second.

    python bench/idle.py [--window 60] [--port 8341] [--runs 1]

Two states of the whole stack are measured, with a tiny untrained policy: no live run, and a live
run that waits for people. The share is that of one processor core, over all processes. Aims: at
most 3 % and 8 %. The last line on standard output is one JSON object; exit code 1 if an aim is
missed.
"""

import argparse
import json
import os
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
AIMS = {"idle": 0.03, "waiting": 0.08}  # cores
PLAN = {
    "policy": "tiny",
    "taskset": "sort",
    "steps": 1_000_000,
    "group_size": 4,
    "groups_per_step": 4,
    "sampling": {"max_tokens": 8},
    "rewards": [{"scorer": "sort"}],
    "engine": "transformers",
    "people": {"per_group": 2, "deadline_s": 86_400},
}
SETTLE_S = 20.0
LOGGED_S = 20.0
PATIENCE_S = 600.0
STATEMENT = re.compile(r"LOG: +(?:statement|execute [^:]+): +(.*)")


def main() -> int:
    options = parse_options()
    with tempfile.TemporaryDirectory(prefix="rftweb-idle-") as var:
        folder = Path(var)
        os.environ.update(RFTWEB_VAR=var, DATABASE_URL="", REDIS_URL="")
        os.environ.update(DJANGO_SETTINGS_MODULE="rftweb.settings", RFTWEB_LOG_LEVEL="WARNING")
        import django

        django.setup()
        from rftweb.supervisor import Supervisor

        stack = Supervisor(folder, port=options.port, quiet=True, stdout=sys.stderr)
        try:
            stack.start()
            stack.wait_ready(PATIENCE_S)
            figures = measure_idle(stack, folder, options)
        finally:
            stack.stop()
    over = [state for state, aim in AIMS.items() if figures[state]["cpu_share"] > aim]
    print(json.dumps({**figures, "aims": AIMS, "over": over, "window_s": options.window}))
    return int(bool(over))


def measure_idle(stack: Any, var: Path, options: argparse.Namespace) -> dict[str, dict]:
    from apps.runs.models import Worker

    everybody = {"explorer", "scorer", "refiner", "trainer", "control"}
    wait_until_idle(
        "every worker is here",
        lambda: everybody <= set(Worker.every.values_list("role", flat=True)),
    )
    time.sleep(SETTLE_S)
    figures = {"idle": of_state(stack, var, options.window)}
    print_idle_table("no live run", figures["idle"])
    runs = create_idle_stage(var, options.runs)
    wait_until_idle("each waits for people", lambda: all(waits_for_people(run) for run in runs))
    time.sleep(SETTLE_S)
    figures["waiting"] = of_state(stack, var, options.window)
    print_idle_table(f"{options.runs} waiting for people", figures["waiting"])
    return figures


def of_state(stack: Any, var: Path, window: float) -> dict[str, Any]:
    before = used(stack)
    began = time.monotonic()
    time.sleep(window)
    after = used(stack)
    took = time.monotonic() - began
    share = {role: round((after[role] - before.get(role, 0.0)) / took, 4) for role in after}
    with statements_logged(var) as log:
        time.sleep(LOGGED_S)
    counts = Counter(strip_values(line) for line in log())
    return {
        "cpu_share": round(sum(share.values()), 4),
        "by_role": share,
        "statements_per_s": round(counts.total() / LOGGED_S, 2),
        "most_frequent": [[count, text] for text, count in counts.most_common(12)],
    }


def used(stack: Any) -> Mapping[str, float]:
    """Return processor seconds by role; an ended child counts for the process that reaped it."""
    import psutil

    seconds: Counter[str] = Counter()
    for name, child in stack.status()["children"].items():
        parent = psutil.Process(child["pid"])
        for process in (parent, *parent.children(recursive=True)):
            try:
                seconds[name] += sum(process.cpu_times()[:4])
            except psutil.NoSuchProcess:
                continue
    return seconds


@contextmanager
def statements_logged(var: Path) -> Iterator[Any]:
    """Make PostgreSQL log every statement; yield a function that returns the new ones."""
    log = var / "log" / "postgres.log"
    alter("ALTER SYSTEM SET log_statement = 'all'")
    start = log.stat().st_size
    try:
        yield lambda: STATEMENT.findall(log.read_text(errors="replace")[start:])
    finally:
        alter("ALTER SYSTEM RESET log_statement")


def alter(statement: str) -> None:
    import psycopg
    from django.conf import settings

    with psycopg.connect(settings.DATABASE_URL, autocommit=True) as connection:
        connection.execute(statement)
        connection.execute("SELECT pg_reload_conf()")


def strip_values(statement: str) -> str:
    """Return the statement without values, so that equal statements have the same text."""
    columns = re.sub(r"SELECT .*? FROM ", "SELECT … FROM ", statement)
    return re.sub(r"\$?\d+|'[^']*'", "?", columns)[:160]


def create_idle_stage(var: Path, count: int) -> list[Any]:
    from apps.accounts.models import Project
    from apps.policies.registering import register_policy
    from apps.runs import parsing
    from apps.runs.models import Run
    from apps.tasksets.importing import generate
    from workers.policies.tiny import build_tiny

    build_tiny(var / "tiny")
    project = Project.objects.create(slug="bench", title="Bench")
    register_policy(project, "tiny", var / "tiny", "built for a measurement", "Tiny")
    generate(project, "sort", "sort", 200, 0)
    plan = parsing.parse_config(PLAN)
    runs = [
        Run.create(project=project, slug=f"idle-{n}", title="Idle", plan=plan) for n in range(count)
    ]
    for run in runs:
        run.start()
    return runs


def waits_for_people(run: Any) -> bool:
    """Tell whether all groups wait for people, and the trainer for these."""
    run.refresh_from_db()
    states = set(run.groups.values_list("state", flat=True))
    return states == {"waiting"} and bool(run.waiting_on)


def wait_until_idle(what: str, look: Any) -> None:
    ends = time.monotonic() + PATIENCE_S
    while not look():
        if time.monotonic() > ends:
            raise SystemExit(f"not within {PATIENCE_S:.0f} s: {what}")
        time.sleep(0.5)


def print_idle_table(state: str, figures: Mapping[str, Any]) -> None:
    roles = ", ".join(f"{role} {share:.1%}" for role, share in figures["by_role"].items())
    rate = f"{figures['statements_per_s']:g} statements/s"
    print(f"{state}: {figures['cpu_share']:.1%} of a core, {rate} ({roles})")
    for count, text in figures["most_frequent"]:
        print(f"    {count / LOGGED_S:6.2f}/s  {text}")


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--window", type=float, default=60.0, help="seconds for which CPU time is measured"
    )
    parser.add_argument("--port", type=int, default=8341)
    parser.add_argument("--runs", type=int, default=1, help="number of runs that wait for people")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
