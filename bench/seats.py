"""What runs that wait cost those that have work, where seats are fewer than runs.

    python bench/seats.py [--seconds 40] [--rounds 2] [--seats 2] [--memory-mb N] [--parameters 1e6]

Twelve runs: three train, one serves callers, eight wait for people. Trainer, explorer, scorer and
refiner are the production ones, each in a process of its own; `--seats` is both
RFTWEB_TRAINERS_PER_WORKER and RFTWEB_ENGINES_PER_WORKER, `--memory-mb` RFTWEB_RESIDENT_MEMORY_MB.

In each round, in this order, nothing else differing:

- `quiet`: the served run alone. A caller asks, waits for the answer, and asks again.
- `alone`: the served run and the three that train, nobody else.
- `among`: all twelve.

`steps_per_s` is of the three together; `call_ms` the median from a question to its answer, as rows.
`engines` and `trainers` are built a minute, all runs together; `most_often` is the most that those
of any one run were built within 60 s of each other. The last line on standard output is JSON.
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

TRAIN, WAIT = 3, 8
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
        runs = furnish(var, options)
        found, built = measured(runs, options)
    report(found, built, options)


def furnish(var: Path, options: argparse.Namespace) -> dict[str, list]:
    """The runs, by what they do."""
    from apps.accounts.models import Project, User
    from apps.policies.registering import register
    from apps.tasksets.importing import generate
    from workers.policies.tiny import build_sized

    build_sized(var / "policy", options.parameters, "sort")
    project = Project.objects.create(slug="bench", title="Bench")
    User.objects.create_user("caller")
    register(project, "policy", var / "policy", "built for a measurement", "Policy")
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
    made = {
        "train": [begin(project, f"train-{n}", training) for n in range(TRAIN)],
        "serve": [begin(project, "serve", serving)],
        "wait": [begin(project, f"wait-{n}", training | people) for n in range(WAIT)],
    }
    for run in made["wait"]:
        stand_with_people(run)
    return made


def begin(project, slug: str, plan: dict):
    from apps.runs.config import parse
    from apps.runs.models import Run

    run = Run.create(project=project, slug=slug, title=slug, plan=parse(plan))
    run.start()
    return run


def stand_with_people(run) -> None:
    """All groups that it may open have been sampled and scored, and wait for a person."""
    from apps.rollouts.models import Group

    opened = Group.open(run, "bench", 60, 1000, 0)
    held = Group.objects.filter(pk__in=[group.pk for group in opened])
    held.update(state=Group.State.WAITING, lease_owner="", lease_until=None)


# -- processes ------------------------------------------------------------------------------------


def explore(pipe) -> None:
    setup()
    from workers.explorer.seat import Seat
    from workers.explorer.station import Explorer

    built = noted(Seat, "take")
    live("explore", Explorer(worker("explorer")).serve, pipe, built)


def train(pipe) -> None:
    setup()
    from workers.trainer.desk import Desk
    from workers.trainer.station import Trainer

    built = noted(Desk, "open")
    live("train", Trainer(worker("trainer")).serve, pipe, built)


def judge(pipe) -> None:
    setup()
    from apps.environments.judging import send_on
    from apps.rollouts.models import Group
    from workers import refiner, scorer

    swept_at = 0.0

    def serve() -> bool:
        """As the sweep does: a lease that ran out must not stop a run for ever."""
        nonlocal swept_at
        if time.monotonic() - swept_at > SWEEP_S:
            swept_at = time.monotonic()
            Group.objects.release_expired()
            send_on()
        return any([scorer.serve(), refiner.serve()])

    live("score", serve, pipe, [])


def setup() -> None:
    import django

    django.setup()


def worker(role: str):
    from apps.runs.models import Worker

    return Worker.objects.create(key=f"bench-{role}", role=role, host="bench", pid=os.getpid())


def noted(kind: type, name: str) -> list[tuple[int, float]]:
    """From now on each call of this method is noted: of which run, and when."""
    calls: list[tuple[int, float]] = []
    real = getattr(kind, name)

    def note(*given):
        run = given[0] if hasattr(given[0], "slug") else given[0].run
        calls.append((run.pk, time.time()))
        return real(*given)

    setattr(kind, name, note)
    return calls


def live(station: str, serve: Callable[[], bool], pipe, built: list) -> None:
    """Until something comes through the pipe; then what was built goes back."""
    from apps.streaming import bells
    from workers.slices import IDLE_SECONDS

    while not pipe.poll():
        if not serve():
            bells.wait(station, IDLE_SECONDS)
    pipe.send(built)


# -- measuring ------------------------------------------------------------------------------------


def measured(runs: dict[str, list], options: argparse.Namespace) -> tuple[dict, list]:
    """By scene the figures of each round; and what was built: (scene, kind, run, when)."""
    spawn = multiprocessing.get_context("spawn")
    pipes, children = [], []
    for work in (explore, train, judge):
        here, there = spawn.Pipe()
        children.append(spawn.Process(target=work, args=(there,), daemon=True))
        children[-1].start()
        pipes.append(here)
    found, spans = defaultdict(list), []
    try:
        switch(runs, "among")
        warm(runs)
        for _ in range(options.rounds):
            for scene in SCENES:
                switch(runs, scene)
                began = time.time()
                found[scene].append(watched(runs, options.seconds))
                spans.append((scene, began, time.time()))
        return found, built_in(spans, pipes)
    finally:
        for child in children:
            child.kill()


def warm(runs: dict[str, list]) -> None:
    """Every run that has work has made an update, or answered a call."""
    ends = time.monotonic() + WARM_S
    call(runs["serve"][0], WARM_S)
    while min(steps(runs["train"])) < 2:
        if time.monotonic() > ends:
            raise SystemExit(f"not within {WARM_S:.0f} s: each run's second update")
        time.sleep(0.1)


def switch(runs: dict[str, list], scene: str) -> None:
    """Only the runs of this scene are live."""
    wanted = {"quiet": ["serve"], "alone": ["serve", "train"], "among": ["serve", "train", "wait"]}
    for kind, some in runs.items():
        for run in some:
            run.refresh_from_db()
            if run.is_live and kind not in wanted[scene]:
                run.pause()
            elif not run.is_live and kind in wanted[scene]:
                run.resume()


def watched(runs: dict[str, list], seconds: float) -> dict[str, float]:
    """Steps a second, and the median of the calls that were asked one after the other meanwhile."""
    began, before, took = time.monotonic(), sum(steps(runs["train"])), []
    while time.monotonic() - began < seconds:
        took.append(call(runs["serve"][0], seconds + WARM_S))
        time.sleep(0.2)
    made = sum(steps(runs["train"])) - before
    return {
        "steps_per_s": made / (time.monotonic() - began),
        "call_ms": 1000 * statistics.median(took),
        "worst_call_ms": 1000 * max(took),
        "calls": len(took),
    }


def steps(runs: Iterable) -> list[int]:
    from apps.runs.models import Run

    return list(Run.objects.filter(pk__in=[run.pk for run in runs]).values_list("step", flat=True))


def call(run, patience: float) -> float:
    """Seconds from a caller's question to its answer."""
    from apps.accounts.models import User
    from apps.environments.choosing import find
    from apps.environments.models import Episode
    from apps.environments.opening import open_for_agent
    from apps.environments.playing import observe
    from apps.tasksets.rows import TaskRow, user_message

    said, client = user_message("12"), User.objects.get()
    began = time.monotonic()
    opened = open_for_agent(find(run.project, "agent"), client, "", run, TaskRow(said))
    episode = observe(opened.pk, 0, said)
    while not episode.seen.filter(answered_at__isnull=False).exists():
        if time.monotonic() - began > patience:
            raise SystemExit(
                f"a call was not answered in {patience:.0f} s: {Episode.objects.get(pk=episode.pk)}"
            )
        time.sleep(0.005)
    return time.monotonic() - began


def built_in(spans: list, pipes: list) -> list[tuple[str, str, int, float]]:
    """What was built while something was measured."""
    found = []
    for kind, pipe in zip(("engines", "trainers", "judges"), pipes, strict=True):
        pipe.send("enough")
        for run, when in pipe.recv():
            scene = next(
                (scene for scene, first, last in spans if first <= when <= last), "between"
            )
            found.append((scene, kind, run, when))
    return found


# -- the report -----------------------------------------------------------------------------------


def report(found: dict, built: list, options: argparse.Namespace) -> None:
    rows = {scene: row_of(scene, some, built, options) for scene, some in found.items()}
    print(" " * 8 + "".join(f"{name:>14}" for name in SHOWN))
    for scene, row in rows.items():
        print(
            f"{scene:8}" + "".join(f"{row[name]:>14.{places}f}" for name, places in SHOWN.items())
        )
    alone, among = rows["alone"], rows["among"]
    ratios = {
        "throughput_ratio": among["steps_per_s"] / alone["steps_per_s"],
        "call_ratio": among["call_ms"] / alone["call_ms"],
        "call_ratio_to_quiet": among["call_ms"] / rows["quiet"]["call_ms"],
    }
    facts = {"parameters": int(options.parameters), "seats": options.seats}
    facts["memory_mb"] = options.memory_mb
    ratios = {name: round(ratio, 3) for name, ratio in ratios.items()}
    print(json.dumps({**facts, **ratios, "most_often": among["most_often"], "aims": AIMS, **rows}))


def row_of(
    scene: str, rounds: list[dict], built: list, options: argparse.Namespace
) -> dict[str, float]:
    minutes = options.seconds * options.rounds / 60
    here = [one for one in built if one[0] == scene]
    row = {name: statistics.median(each[name] for each in rounds) for name in rounds[0]}
    row["worst_call_ms"] = max(each["worst_call_ms"] for each in rounds)
    counted = {
        kind: sum(one[1] == kind for one in here) / minutes for kind in ("engines", "trainers")
    }
    times = defaultdict(list)
    for _, kind, run, when in here:
        times[kind, run].append(when)
    return {name: round(value, 3) for name, value in {**row, **counted}.items()} | {
        "most_often": most_often(times.values())
    }


def most_often(times: Iterable[list[float]]) -> int:
    """The most that one run's were built within a minute."""
    most = 0
    for some in times:
        for first in some:
            most = max(most, sum(first <= when < first + BUILD_WINDOW_S for when in some))
    return most


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=40.0, help="of each scene")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seats", type=int, default=2)
    parser.add_argument(
        "--memory-mb", type=int, help="of models beyond the seats; a quarter of the machine's"
    )
    parser.add_argument("--parameters", type=float, default=1e6)
    return parser.parse_args()


if __name__ == "__main__":
    main()
