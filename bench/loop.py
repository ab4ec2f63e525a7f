"""Overhead of the whole stack over the same recipe in one process.

    python bench/loop.py [--steps 60] [--parameters 5e8]

Both train the same policy on the same tasks with the same scorer and the same TRL updates, one
after the other on this machine: the demo's `sort`, or an untrained one of that many parameters.
`stack_over_bare` compares whole runs, from the moment when each has loaded its libraries (the
stack's run still builds its trainer and its engine then); `interval_over_bare` compares the median
step. Below 1 the overlap of sampling and training outweighs the cost of database, broker, streaming
and weight transfer. `processor_over_bare` compares the processor seconds of all processes, from the
start of the run to its end; other work on the machine changes it little.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import psycopg

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from rftweb.embedded import running  # noqa: E402

PLAN = ROOT / "examples" / "sort.yaml"  # a run without human ratings
# Time of a step by stage: medians over groups or steps, in the order of processing.
STATIONS = {
    "sample": (
        "SELECT percentile_cont(.5) WITHIN GROUP (ORDER BY extract(epoch FROM sampled_at -"
        " opened_at)) FROM rollouts_group"
    ),
    "score": (
        "SELECT percentile_cont(.5) WITHIN GROUP (ORDER BY extract(epoch FROM judged_at -"
        " sampled_at)) FROM rollouts_group"
    ),
    "refine": (
        "SELECT percentile_cont(.5) WITHIN GROUP (ORDER BY extract(epoch FROM closed_at -"
        " judged_at)) FROM rollouts_group"
    ),
    "wait_in_buffer": (
        """SELECT percentile_cont(.5) WITHIN GROUP (ORDER BY extract(epoch
            FROM s.planned_at - e.created_at))
        FROM buffer_stepitem i JOIN runs_trainstep s ON s.id = i.step_id
            JOIN buffer_experience e ON e.id = i.experience_id"""
    ),
    "train": "SELECT percentile_cont(.5) WITHIN GROUP (ORDER BY seconds) FROM runs_trainstep",
    "publish": (
        """SELECT percentile_cont(.5) WITHIN GROUP (ORDER BY extract(epoch
            FROM published_at - staged_at))
        FROM runs_weightversion WHERE version > 0"""
    ),
    "acknowledge": (
        """SELECT percentile_cont(.5) WITHIN GROUP (ORDER BY extract(epoch
            FROM a.at - v.published_at))
        FROM runs_acknowledgement a JOIN runs_weightversion v ON v.id = a.weight_version_id
            WHERE v.version > 0"""
    ),
    "step_interval": (
        """SELECT percentile_cont(.5) WITHIN GROUP (ORDER BY gap)
        FROM (SELECT extract(epoch
            FROM committed_at - lag(committed_at) OVER (ORDER BY number)) AS gap
              FROM runs_trainstep) steps"""
    ),
}


def main() -> None:
    options = parse_options()
    with tempfile.TemporaryDirectory(prefix="rftweb-bench-") as var:
        policy = build_policy(options, Path(var))
        bare = last_json(
            ["bare_loop.py", "--plan", PLAN, "--policy", policy, "--steps", options.steps]
        )["results"][0]
        stack = last_json(
            [
                "stack_loop.py",
                "--plan",
                PLAN,
                "--policy",
                policy,
                "--steps",
                options.steps,
                "--var",
                var,
                "--port",
                options.port,
            ]
        )
        stations = where_the_seconds_go(Path(var))
    figures = {
        "run": PLAN.stem,
        "parameters": int(options.parameters or 0),
        "steps": options.steps,
        "stack_s": stack["seconds"],
        "bare_s": bare["total_s"],
        "stack_over_bare": round(stack["seconds"] / bare["total_s"], 3),
        "stack_processor_s": stack["processor_s"],
        "bare_processor_s": bare["processor_s"],
        "processor_over_bare": round(stack["processor_s"] / bare["processor_s"], 3),
        "interval_over_bare": round(stations["step_interval"] * options.steps / bare["total_s"], 3),
        "reward_last_stack": stack["reward_last"],
        "reward_last_bare": bare["reward_last"],
        **{f"{name}_s": value for name, value in stations.items()},
        "processor_by_role": stack["by_role"],
    }
    for name, value in figures.items():
        print(f"{name:22} {value}")
    print(json.dumps(figures))


def build_policy(options: argparse.Namespace, var: Path) -> Path:
    """Return the folder of the policy; it is built in a process that frees the GPU's memory."""
    if not options.parameters:
        return Path(
            last_json(["-m", "workers.policies.build", "sort", "--out", var / "policies"])["folder"]
        )
    last_json(["sized_policy.py", var / "policy", "--parameters", options.parameters])
    return var / "policy"


def last_json(command: list[object]) -> dict:
    """Return the last line of a Python program's output as JSON; its progress goes to our output.

    The program is a script of this folder, or -m and a module.
    """
    program = command if command[0] == "-m" else [ROOT / "bench" / command[0], *command[1:]]
    process = subprocess.run(
        [sys.executable, *map(str, program)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(process.stdout.splitlines()[-1])


def where_the_seconds_go(var: Path) -> dict[str, float]:
    with running(var) as (database, _), psycopg.connect(database) as connection:
        return {
            name: round(connection.execute(query).fetchone()[0] or 0.0, 4)
            for name, query in STATIONS.items()
        }


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument(
        "--parameters", type=float, help="train an untrained policy of about this size"
    )
    parser.add_argument("--port", type=int, default=8321)
    return parser.parse_args()


if __name__ == "__main__":
    main()
