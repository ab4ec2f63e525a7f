"""Cost of waiting runs for working ones, if there are more runs than engines and trainers.

    python bench/seats.py [--seconds 40] [--rounds 2] [--seats 2] [--memory-mb N] [--parameters 1e6]

Twelve runs: three train, one serves callers, eight wait for people. Trainer, explorer, scorer and
refiner are the production ones, each in a process of its own; `--seats` is both
RFTWEB_TRAINERS_PER_WORKER and RFTWEB_ENGINES_PER_WORKER, `--memory-mb` RFTWEB_RESIDENT_MEMORY_MB.

Each round has these scenes in this order, with no other difference:

- `quiet`: the served run alone. A caller asks, waits for the answer, and asks again.
- `alone`: the served run and the three that train.
- `among`: all twelve.

`steps_per_s` is of the three together; `call_ms` the median from a question to its answer, in rows.
`engines` and `trainers` are builds per minute, over all runs; `most_often` is the most builds for
any one run within 60 s. The last line on standard output is JSON.
"""

import argparse
import json
import multiprocessing
import os
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from bench.installation import installation  # noqa: E402

TRAIN = 3
WAIT = 8
WARM_S = 900.0
SCENES = ("quiet", "alone", "among")
BUILD_WINDOW_S = 60.0
SWEEP_S = 5.0
AIMS = {"throughput_ratio": ">= 0.9", "call_ratio": "<= 1.5", "most_often": "<= 1"}
# Columns of the table, and their decimal places.
SHOWN = {
    "steps_per_s": 2,
    "call_ms": 0,
    "worst_call_ms": 0,
    "engines": 1,
    "trainers": 1,
    "most_often": 0,
}


def main() -> None:
    options = parse_options()
    seats = str(options.seats)
    fields = {"RFTWEB_TRAINERS_PER_WORKER": seats, "RFTWEB_ENGINES_PER_WORKER": seats}
    if options.memory_mb is not None:
        fields["RFTWEB_RESIDENT_MEMORY_MB"] = str(options.memory_mb)
    with installation(**fields) as var:
        runs = create_seat_runs(var, options)
        by_scene, built = measure_scenes(runs, options)
    print_seat_table(by_scene, built, options)


def create_seat_runs(var: Path, options: argparse.Namespace) -> dict[str, list]:
    """Create the runs; return them by what they do."""
    from apps.accounts.models import Project, User
    from apps.policies.registering import register_policy
    from apps.tasksets.importing import generate
    from workers.policies.tiny import build_sized

    build_sized(var / "policy", options.parameters, "sort")
    project = Project.objects.create(slug="bench", title="Bench")
    User.objects.create_user("caller")
    register_policy(project, "policy", var / "policy", "built for a measurement", "Policy")
    generate(project, "sort", "sort", 500, 0)
    common = {
        "policy": "policy",
        "engine": "transformers",
        "steps": 100_000,
        "checkpoints": {"every": 50},
    }
    training = {
        **common,
        "taskset": "sort",
        "group_size": 8,
        "sampling": {"max_tokens": 16},
        "rewards": [{"scorer": "sort"}],
    }
    people = {"people": {"per_group": 1, "deadline_s": 86_400}}
    serving = {
        **common,
        "taskset": "asked",
        "environment": {"name": "agent"},
        "rewards": [],
        "serve": {},
        "group_size": 1,
        "algorithm": {"name": "reinforce_plus_plus"},
        "max_staleness": 1000,
        "sampling": {"max_tokens": 16},
    }
    runs = {
        "train": [begin_seat_run(project, f"train-{n}", training) for n in range(TRAIN)],
        "serve": [begin_seat_run(project, "serve", serving)],
        "wait": [begin_seat_run(project, f"wait-{n}", training | people) for n in range(WAIT)],
    }
    for run in runs["wait"]:
        stand_with_people(run)
    return runs


def begin_seat_run(project, slug: str, plan: dict):
    from apps.runs.models import Run
    from apps.runs.parsing import parse_config

    run = Run.create(project=project, slug=slug, title=slug, plan=parse_config(plan))
    run.start()
    return run


def stand_with_people(run) -> None:
    """Bring all groups of the run to the state of waiting for a person."""
    from apps.rollouts.models import Group

    opened = Group.open(run, "bench", 60, 1000, 0)
    groups = Group.objects.filter(pk__in=[group.pk for group in opened])
    groups.update(state=Group.State.WAITING, lease_owner="", lease_until=None)


# -- processes


def run_explorer(pipe) -> None:
    setup()
    from workers.explorer.loop import ExplorerLoop
    from workers.explorer.session import RunSession

    built = noted(RunSession, "take")
    serve_until_told("explore", ExplorerLoop(make_worker("explorer")).serve, pipe, built)


def run_trainer_process(pipe) -> None:
    setup()
    from workers.trainer.loop import TrainerLoop
    from workers.trainer.run_trainer import RunTrainer

    built = noted(RunTrainer, "open")
    serve_until_told("train", TrainerLoop(make_worker("trainer")).serve, pipe, built)


def judge_until_told(pipe) -> None:
    setup()
    from apps.environments.judging import send_on
    from apps.rollouts.models import Group
    from workers import refiner, scorer

    swept_at = 0.0

    def serve() -> bool:
        """Serve scorer and refiner; release expired leases from time to time, as the sweep does."""
        nonlocal swept_at
        if time.monotonic() - swept_at > SWEEP_S:
            swept_at = time.monotonic()
            Group.objects.expire()
            send_on()
        return any([scorer.serve(), refiner.serve()])

    serve_until_told("score", serve, pipe, [])


def setup() -> None:
    import django

    django.setup()


def make_worker(role: str):
    from apps.runs.models import Worker

    return Worker.objects.create(key=f"bench-{role}", role=role, host="bench", pid=os.getpid())


def noted(kind: type, name: str) -> list[tuple[int, float]]:
    """Patch a method so that its calls are recorded with run and time; return the record."""
    calls: list[tuple[int, float]] = []
    real = getattr(kind, name)

    def note(*arguments):
        run = arguments[0] if hasattr(arguments[0], "slug") else arguments[0].run
        calls.append((run.pk, time.time()))
        return real(*arguments)

    setattr(kind, name, note)
    return calls


def serve_until_told(queue: str, serve: Callable[[], bool], pipe, built: list) -> None:
    """Serve until something arrives through the pipe; then send back the builds."""
    from apps.streaming import worker_notifications
    from workers.time_slices import IDLE_SECONDS

    while not pipe.poll():
        if not serve():
            worker_notifications.wait(queue, IDLE_SECONDS)
    pipe.send(built)


# -- measuring


def measure_scenes(runs: dict[str, list], options: argparse.Namespace) -> tuple[dict, list]:
    """Measure every scene; return figures by scene and round, and the builds.

    A build is (scene, kind, run, time).
    """
    spawn = multiprocessing.get_context("spawn")
    pipes = []
    children = []
    for work in (run_explorer, run_trainer_process, judge_until_told):
        parent_end, child_end = spawn.Pipe()
        children.append(spawn.Process(target=work, args=(child_end,), daemon=True))
        children[-1].start()
        pipes.append(parent_end)
    by_scene = defaultdict(list)
    spans = []
    try:
        switch(runs, "among")
        warm_up_runs(runs)
        for _ in range(options.rounds):
            for scene in SCENES:
                switch(runs, scene)
                began = time.time()
                by_scene[scene].append(watch_runs(runs, options.seconds))
                spans.append((scene, began, time.time()))
        return by_scene, list_scene_builds(spans, pipes)
    finally:
        for child in children:
            child.kill()


def warm_up_runs(runs: dict[str, list]) -> None:
    """Run until every run with work has made an update, or answered a call."""
    ends = time.monotonic() + WARM_S
    time_caller(runs["serve"][0], WARM_S)
    while min(steps(runs["train"])) < 2:
        if time.monotonic() > ends:
            raise SystemExit(f"not within {WARM_S:.0f} s: each run's second update")
        time.sleep(0.1)


def switch(runs: dict[str, list], scene: str) -> None:
    """Make only the runs of this scene live."""
    live_kinds = {
        "quiet": ["serve"],
        "alone": ["serve", "train"],
        "among": ["serve", "train", "wait"],
    }
    for kind, some in runs.items():
        for run in some:
            run.refresh_from_db()
            if run.is_live and kind not in live_kinds[scene]:
                run.pause()
            elif not run.is_live and kind in live_kinds[scene]:
                run.resume()


def watch_runs(runs: dict[str, list], seconds: float) -> dict[str, float]:
    """Return the steps per second, and the median of consecutive calls meanwhile."""
    began = time.monotonic()
    before = sum(steps(runs["train"]))
    took = []
    while time.monotonic() - began < seconds:
        took.append(time_caller(runs["serve"][0], seconds + WARM_S))
        time.sleep(0.2)
    committed = sum(steps(runs["train"])) - before
    return {
        "steps_per_s": committed / (time.monotonic() - began),
        "call_ms": 1000 * statistics.median(took),
        "worst_call_ms": 1000 * max(took),
        "calls": len(took),
    }


def steps(runs: Iterable) -> list[int]:
    from apps.runs.models import Run

    return list(Run.objects.filter(pk__in=[run.pk for run in runs]).values_list("step", flat=True))


def time_caller(run, patience: float) -> float:
    """Return the seconds from a caller's question to its answer."""
    from apps.accounts.models import User
    from apps.environments.environment_lookup import find_or_register
    from apps.environments.episode_opening import open_for_agent
    from apps.environments.models import Episode
    from apps.environments.playing import observe
    from apps.tasksets.rows import TaskRow, user_message

    message = user_message("12")
    client = User.objects.get()
    began = time.monotonic()
    opened = open_for_agent(
        find_or_register(run.project, "agent"), client, "", run, TaskRow(message)
    )
    episode = observe(opened.pk, 0, message)
    while not episode.seen.filter(answered_at__isnull=False).exists():
        if time.monotonic() - began > patience:
            raise SystemExit(
                f"a call was not answered in {patience:.0f} s: {Episode.objects.get(pk=episode.pk)}"
            )
        time.sleep(0.005)
    return time.monotonic() - began


def list_scene_builds(spans: list, pipes: list) -> list[tuple[str, str, int, float]]:
    """Return the builds during measurements."""
    builds = []
    for kind, pipe in zip(("engines", "trainers", "judges"), pipes, strict=True):
        pipe.send("enough")
        for run, when in pipe.recv():
            scene = next(
                (scene for scene, first, last in spans if first <= when <= last), "between"
            )
            builds.append((scene, kind, run, when))
    return builds


# -- the report


def print_seat_table(by_scene: dict, built: list, options: argparse.Namespace) -> None:
    rows = {scene: build_scene_row(scene, some, built, options) for scene, some in by_scene.items()}
    print(" " * 8 + "".join(f"{name:>14}" for name in SHOWN))
    for scene, row in rows.items():
        print(
            f"{scene:8}" + "".join(f"{row[name]:>14.{places}f}" for name, places in SHOWN.items())
        )
    alone = rows["alone"]
    among = rows["among"]
    ratios = {
        "throughput_ratio": among["steps_per_s"] / alone["steps_per_s"],
        "call_ratio": among["call_ms"] / alone["call_ms"],
        "call_ratio_to_quiet": among["call_ms"] / rows["quiet"]["call_ms"],
    }
    facts = {"parameters": int(options.parameters), "seats": options.seats}
    facts["memory_mb"] = options.memory_mb
    ratios = {name: round(ratio, 3) for name, ratio in ratios.items()}
    print(json.dumps({**facts, **ratios, "most_often": among["most_often"], "aims": AIMS, **rows}))


def build_scene_row(
    scene: str, rounds: list[dict], built: list, options: argparse.Namespace
) -> dict[str, float]:
    minutes = options.seconds * options.rounds / 60
    scene_builds = [build for build in built if build[0] == scene]
    row = {name: statistics.median(figures[name] for figures in rounds) for name in rounds[0]}
    row["worst_call_ms"] = max(figures["worst_call_ms"] for figures in rounds)
    counted = {
        kind: sum(build[1] == kind for build in scene_builds) / minutes
        for kind in ("engines", "trainers")
    }
    times = defaultdict(list)
    for _, kind, run, when in scene_builds:
        times[kind, run].append(when)
    return {name: round(value, 3) for name, value in {**row, **counted}.items()} | {
        "most_often": most_often(times.values())
    }


def most_often(times: Iterable[list[float]]) -> int:
    """Return the most builds of one run within a minute."""
    maximum = 0
    for some in times:
        for first in some:
            maximum = max(maximum, sum(first <= when < first + BUILD_WINDOW_S for when in some))
    return maximum


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=40.0, help="seconds per scene")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seats", type=int, default=2)
    parser.add_argument(
        "--memory-mb",
        type=int,
        help=("memory for models that do not fit (default: a quarter of the machine's)"),
    )
    parser.add_argument("--parameters", type=float, default=1e6)
    return parser.parse_args()


if __name__ == "__main__":
    main()
