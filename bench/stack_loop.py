"""Run the whole stack without a browser: one run of a given policy from start to end.

    python bench/stack_loop.py --plan examples/sort.yaml --policy FOLDER --var FOLDER [--steps 60]
    [--port 8321]

Services, web and workers are started under --var, which must be empty, and stopped again. The last
line on standard output is that of `manage.py demo --exit`; exit code 1 if the run did not complete
or the database checks fail.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))


def main() -> int:
    options = parse_options()
    os.environ.update(
        RFTWEB_VAR=str(options.var),
        DATABASE_URL="",
        REDIS_URL="",
        DJANGO_SETTINGS_MODULE="rftweb.settings",
    )
    import django

    django.setup()
    from rftweb.supervisor import Supervisor

    with Supervisor(options.var, port=options.port, quiet=True, stdout=sys.stderr) as stack:
        run = create_loop_run(options)
        wait_for_libraries()
        facts = follow_run(stack, run)
    print(json.dumps(facts))
    return int(facts["reconcile"] != "clean")


def create_loop_run(options: argparse.Namespace):
    """Create project, policy, taskset and run, by their slugs in the plan."""
    from apps.accounts.models import Project
    from apps.policies.registering import register_policy
    from apps.runs import parsing
    from apps.runs.models import Run
    from apps.tasksets.importing import generate
    from rftweb.demonstration.furnishing import SEED, TASKS

    plan = parsing.from_yaml(options.plan.read_text())
    plan = parsing.parse_config(
        {**plan.model_dump(mode="json"), "steps": options.steps or plan.steps}
    )
    project = Project.objects.create(slug="bench", title="Bench")
    register_policy(project, plan.policy, options.policy, "built for a measurement")
    generate(project, plan.taskset, plan.taskset, TASKS[plan.taskset], SEED)
    return Run.create(project=project, slug="bench", title="Bench", plan=plan)


def wait_for_libraries(seconds: float = 120) -> None:
    """Wait until explorer and trainer have registered, after loading torch and TRL."""
    from apps.runs.models import Worker

    ends = time.monotonic() + seconds
    while not {"explorer", "trainer"} <= set(Worker.objects.values_list("role", flat=True)):
        if time.monotonic() > ends:
            raise SystemExit(f"no explorer or no trainer within {seconds:.0f} s")
        time.sleep(0.1)


def follow_run(stack, run) -> dict[str, object]:
    """Start the run, wait for its end and check the database."""
    from apps.dashboard.reconciliation import reconcile
    from apps.runs.models import Run
    from bench.idle import used
    from rftweb.demonstration.following import until_ended
    from rftweb.management.run_report import latest, summary_document

    before = used(stack)
    began = time.monotonic()
    run.start()
    if not until_ended(
        run,
        lambda: stack.process.poll() is None,
        lambda run: print_line(f"step {run.step}/{run.planned_steps}, {latest(run)}"),
    ):
        raise SystemExit(f"the supervisor ended before the run; see {stack.var / 'log'}")
    seconds = time.monotonic() - began
    after = used(stack)
    by_role = {role: round(after[role] - before.get(role, 0.0), 2) for role in after}
    if run.state != Run.State.COMPLETED:
        raise SystemExit(f"the run is {run.get_state_display()}: {run.state_reason}")
    violations = {check: problems for check, problems in reconcile().items() if problems}
    for check, problems in violations.items():
        print_line(f"{check}: {'; '.join(problems)}")
    facts = summary_document(run, seconds, not violations)
    return {**facts, "processor_s": round(sum(by_role.values()), 2), "by_role": by_role}


def print_line(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plan", type=Path, required=True, help="a run's configuration, as YAML")
    parser.add_argument("--policy", type=Path, required=True, help="sealed folder of version 0")
    parser.add_argument(
        "--var", type=Path, required=True, help="empty folder for data, weights and logs"
    )
    parser.add_argument("--steps", type=int, help="number of steps (default: the plan's)")
    parser.add_argument("--port", type=int, default=8321)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
