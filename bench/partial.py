"""Savings by partial rollouts and over-sampling if a few answers are much longer than others.

    python bench/partial.py [--steps 8] [--short 16] [--times 16] [--one-in 16] [--groups 4 16]
    [--staleness 4] [--over 1.5]

One run of each kind after the other, over the same policy, tasks and lengths: one of every 16
answers, at random, is 16 times as long. The explorer, its engine, the buffer and the plan of each
update are the production ones; rewards are random, and an update only commits its batch and
publishes a version (loaded by the engine, with the same weights): the time of training itself is
not included. Measured from the first commit to the last are seconds per step, and tokens used by
the updates.

- `synchronous`: max_staleness 0, each update waits for the longest answer of its groups. All others
  are compared with it.
- `slices`: likewise, answers set aside after every `--slice` tokens: what partial rollouts cost by
  themselves.
- `asynchronous`: max_staleness alone, so that all it allows is begun.
- `over-rollout`: so many groups more than the next weights need (`--over` times those of an
  update), and no more.
- `both`: over-rollout with answers set aside after every `--slice` tokens.

Each size of an update (`--groups`) is a table: a straggler costs most where a step of the engine
costs the same for any batch, as with few answers on a CPU, or many on a GPU.

`staleness` is the mean over trained rollouts, in versions; `lost` are complete groups that were too
old. `ratio` is tokens per second relative to `synchronous`; `by cpu` likewise, per second of this
process's processor time, which does not depend on the load of the machine. The last line on
standard output is JSON.
"""

import argparse
import json
import os
import sys
import time
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from bench.installation import installation  # noqa: E402

PROMPT_ROOM = 64  # tokens
SEED = 7


def main() -> None:
    options = parse_options()
    with installation() as var:
        project = create_partial_stage(options, var)
        tables = {
            groups: compare_kinds(
                project, argparse.Namespace(**{**vars(options), "groups": groups})
            )
            for groups in options.groups
        }
    ratios = {f"ratio_{groups}": rows["both"]["ratio"] for groups, rows in tables.items()}
    print(
        json.dumps(
            {
                "parameters": int(options.parameters),
                "steps": options.steps,
                **ratios,
                "groups": tables,
            }
        )
    )


def compare_kinds(project, options: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Measure all kinds at this size of an update; print a table and return the figures."""
    rows = {
        name: measure_kind(project, name, plan, options)
        for name, plan in list_partial_kinds(options).items()
    }
    base = rows["synchronous"]
    for row in rows.values():
        row["ratio"] = round(row["tokens_per_s"] / base["tokens_per_s"], 2)
        row["ratio_by_cpu"] = round(row["tokens_per_cpu_s"] / base["tokens_per_cpu_s"], 2)
    title = f"{options.groups} groups"
    print(
        f"{title:14} {'s/step':>8} {'tokens/s':>9} {'tokens/step':>12} {'staleness':>10}"
        f" {'lost':>5} {'ratio':>6} {'by cpu':>7}"
    )
    for name, row in rows.items():
        print(
            f"{name:14} {row['seconds_per_step']:>8.3f} {row['tokens_per_s']:>9.0f}"
            f" {row['tokens_per_step']:>12.0f} {row['staleness']:>10.2f} {row['groups_lost']:>5}"
            f" {row['ratio']:>6.2f} {row['ratio_by_cpu']:>7.2f}"
        )
    return rows


def list_partial_kinds(options: argparse.Namespace) -> dict[str, dict]:
    stale = {"max_staleness": options.staleness}
    slices = {"slice_tokens": options.slice}
    over = {**stale, "over_rollout": round(options.over * options.groups)}
    return {
        "synchronous": {"max_staleness": 0},
        "slices": {"max_staleness": 0, "sampling": slices},
        "asynchronous": stale,
        "over-rollout": over,
        "both": {**over, "sampling": slices},
    }


def create_partial_stage(options: argparse.Namespace, var: Path):
    """Create a project with the policy and its tasks; answers end by their length only."""
    from apps.accounts.models import Project
    from apps.policies.registering import register_policy
    from apps.tasksets.importing import generate
    from workers.explorer.chat_tokenizer import ChatTokenizer
    from workers.policies.tiny import build_sized

    build_sized(
        var / "policy",
        options.parameters,
        "tone",
        context=PROMPT_ROOM + options.short * options.times,
    )
    project = Project.objects.create(slug="bench", title="Bench")
    register_policy(project, "policy", var / "policy", "built for a measurement", "Policy")
    generate(project, "tone", "tone", 500, 0)
    ChatTokenizer.stop_token_ids = ()
    return project


def measure_kind(
    project, name: str, changes: dict, options: argparse.Namespace
) -> dict[str, float]:
    """Drive a run of this kind in this process until it has made the measured updates."""
    from apps.runs.models import Worker
    from workers.explorer.loop import ExplorerLoop

    run = begin_partial_run(project, name, changes, options)
    explorer = ExplorerLoop(
        Worker.objects.create(
            key=f"bench {name} {options.groups}", role="explorer", host="bench", pid=os.getpid()
        )
    )
    commits = []
    while len(commits) < options.steps + 1:
        explorer.serve()
        commits += [(time.perf_counter(), time.process_time())] if update(run) else []
    explorer.stop()
    row = partial_figures(run, commits, options)
    run.stop()
    return row


def begin_partial_run(project, name: str, changes: dict, options: argparse.Namespace):
    from apps.runs.models import Run
    from apps.runs.parsing import parse_config

    long = options.short * options.times
    # Longer than the measurement: a run's last updates wait for everything that was begun.
    plan = {
        "policy": "policy",
        "taskset": "tone",
        "steps": options.steps + 100,
        "group_size": options.size,
        "groups_per_step": options.groups,
        "engine": "transformers",
        "rewards": [{"scorer": "tone"}],
        **changes,
    }
    plan["sampling"] = {"max_tokens": long, **changes.get("sampling", {})}
    run = Run.create(
        project=project, slug=f"{name}-{options.groups}", title=name, plan=parse_config(plan)
    )
    run.start()
    assert run.claim_trainer("bench", 3600)
    tail(options)
    return run


def tail(options: argparse.Namespace) -> None:
    """Patch the explorer so that lengths follow from the group's number and the sample's place."""
    from apps.tasksets.selection.chance import unit
    from workers.explorer.partial import PartialRollouts

    begin_rollout = PartialRollouts.begin

    def begin(of_session, rollout, group, saved, version) -> None:
        first = min(group.rollouts.values_list("pk", flat=True))
        is_long = (
            unit(SEED, "long", group.draw_index, rollout.rollout_id - first) < 1 / options.one_in
        )
        length = options.short * (options.times if is_long else 1)
        rollout.plan = replace(rollout.plan, max_tokens=length, room=length)
        begin_rollout(of_session, rollout, group, saved, version)

    PartialRollouts.begin = begin


def update(run) -> bool:
    """Judge complete groups, and make the next update if its batch is there."""
    from apps.buffer.models import commit_step, plan_step
    from apps.pipelines.refining import refine
    from apps.rewards.scorers import Verdict
    from apps.rewards.scoring import AnsweredQuestion, open_questions, record_verdicts
    from apps.rollouts.models import Group
    from apps.runs.models import WeightVersion

    scored = Group.objects.claim(Group.State.SCORING, "bench", 60, 1000, run)
    if not scored:
        return False
    questions = open_questions(scored)
    record_verdicts(
        scored,
        [
            AnsweredQuestion(q, [Verdict(float(pk % 2), "") for pk in q.rollout_ids])
            for q in questions
        ],
    )
    refine(Group.objects.claim(Group.State.JUDGED, "bench", 60, 1000, run))
    run.refresh_from_db()
    step = plan_step(run, run.fence)
    if step is None:
        return False
    with run.fenced(run.fence) as locked:
        commit_step(locked, step, run.fence)
    base = run.weight_versions.get(version=0)
    version = WeightVersion.objects.create(
        run=run,
        version=step.number,
        parent=base,
        folder=base.folder,
        fingerprint=base.fingerprint,
        step=step.number,
    )
    version.verify()
    version.publish()
    return True


def partial_figures(
    run, commits: list[tuple[float, float]], options: argparse.Namespace
) -> dict[str, float]:
    """Return the figures; `commits` are the updates' times by the clock and in processor time."""
    from django.db.models import Avg, F, Sum

    from apps.buffer.models import StepItem

    seconds, cpu_s = (last - first for first, last in zip(commits[0], commits[-1], strict=True))
    step_items = StepItem.objects.filter(step__run=run, step__number__gt=1)
    totals = step_items.aggregate(
        tokens=Sum("experience__rollout__completion_tokens"),
        staleness=Avg(F("step__version") - F("experience__weight_version")),
    )
    return {
        "seconds_per_step": round(seconds / options.steps, 4),
        "tokens_per_s": round(totals["tokens"] / seconds, 1),
        "tokens_per_cpu_s": round(totals["tokens"] / cpu_s, 1),
        "tokens_per_step": totals["tokens"] / options.steps,
        "staleness": round(totals["staleness"], 2),
        "groups_lost": (
            run.groups.model.objects.filter(run=run, experiences__state="dropped")
            .distinct()
            .count()
        ),
    }


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--short", type=int, default=16, help="tokens of a short answer")
    parser.add_argument(
        "--times",
        type=int,
        default=16,
        help=("length of a long answer, as a multiple of a short one"),
    )
    parser.add_argument("--one-in", type=int, default=16, help="one answer in this many is long")
    parser.add_argument("--slice", type=int, default=128, help="tokens per slice")
    parser.add_argument("--groups", type=int, nargs="+", default=[4, 16], help="groups per update")
    parser.add_argument("--size", type=int, default=4, help="answers per group")
    parser.add_argument("--staleness", type=int, default=4)
    parser.add_argument(
        "--over",
        type=float,
        default=1.5,
        help="groups started beyond those of the next update, as a multiple of an update's groups",
    )
    parser.add_argument("--parameters", type=float, default=1e6)
    return parser.parse_args()


if __name__ == "__main__":
    main()
