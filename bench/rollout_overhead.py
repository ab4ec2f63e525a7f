"""Overhead of the explorer's rows and live stream: its throughput over the bare engine's.

    python bench/rollout_overhead.py [--concurrent 64] [--tokens 128] [--rounds 3] [--parameters
    20e6]

Engine, policy, prompts and number in flight are the same; bare and explored rounds alternate in one
run. The explored rounds write groups, rollouts and payloads to PostgreSQL and stream every token
through Redis.
"""

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from bench.installation import installation  # noqa: E402

GROUP = 8
PROMPT_ROOM = 128  # tokens


def main() -> None:
    options = parse_options()
    with installation() as var:
        rounds = compare_overhead(options, var)
    bare, explored = (
        statistics.median(row[name] for row in rounds) for name in ("bare", "explored")
    )
    print(f"{'round':>6} {'bare tok/s':>11} {'explored tok/s':>15} {'ratio':>6}")
    for number, row in enumerate(rounds):
        print(
            f"{number:>6} {row['bare']:>11.0f} {row['explored']:>15.0f}"
            f" {row['explored'] / row['bare']:>6.3f}"
        )
    ratio = statistics.median(row["explored"] / row["bare"] for row in rounds)
    print(
        json.dumps(
            {
                "concurrent": options.concurrent,
                "parameters": int(options.parameters),
                "bare_tokens_per_s": round(bare),
                "explored_tokens_per_s": round(explored),
                "explored_over_bare": round(ratio, 3),
            }
        )
    )


def compare_overhead(options: argparse.Namespace, var: Path) -> list[dict[str, float]]:
    from apps.runs.models import Worker
    from workers.explorer.loop import ExplorerLoop

    run = create_overhead_run(options, var)
    explorer = ExplorerLoop(
        Worker.objects.create(key="bench", role="explorer", host="bench", pid=os.getpid())
    )
    explorer._look_for_work()  # loads the run and takes its first groups
    session = explorer.sessions[run.pk]
    serve_until_idle(explorer)
    prompts = [
        session.chat_tokenizer.prompt_ids(task.prompt)
        for task in run.taskset.tasks.all()[: options.concurrent]
    ]
    rounds = []
    for _ in range(options.rounds):
        rounds.append(
            {
                "bare": bare_round(session, prompts, options),
                "explored": explored_round(explorer, run, options),
            }
        )
    explorer.stop()
    return rounds


def create_overhead_run(options: argparse.Namespace, var: Path):
    """Create a run with long answers: the policy rarely samples the stop token."""
    import torch

    from apps.accounts.models import Project
    from apps.policies.registering import register_policy
    from apps.runs.models import Run
    from apps.runs.parsing import parse_config
    from apps.tasksets.importing import generate
    from workers.policies.tiny import build_sized

    dtype = torch.bfloat16 if torch.cuda.is_available() else torch.float32
    build_sized(
        var / "policy",
        options.parameters,
        "tone",
        context=PROMPT_ROOM + options.tokens,
        dtype=dtype,
    )
    project = Project.objects.create(slug="bench", title="Bench")
    register_policy(project, "policy", var / "policy", "built for a measurement", "Policy")
    generate(project, "tone", "tone", 500, 0)
    plan = parse_config(
        {
            "policy": "policy",
            "taskset": "tone",
            "steps": 1,
            "group_size": GROUP,
            "groups_per_step": options.concurrent // GROUP,
            "max_staleness": 0,
            "sampling": {"max_tokens": options.tokens},
            "rewards": [{"scorer": "tone"}],
        }
    )
    run = Run.create(project=project, slug="bench", title="Bench", plan=plan)
    run.start()
    return run


def bare_round(session, prompts: list[tuple[int, ...]], options: argparse.Namespace) -> float:
    """Return the tokens per second of the engine alone."""
    from workers.engines.interface import Request, Sampling

    sampling = Sampling(options.tokens, 1.0, session.chat_tokenizer.stop_token_ids)
    began = time.perf_counter()
    tokens = 0
    unfinished = len(prompts)
    session.engine.submit(
        [Request(f"bare-{began}-{n}", ids, sampling) for n, ids in enumerate(prompts)]
    )
    while unfinished:
        for delta in session.engine.drain(0.05):
            tokens += len(delta.token_ids)
            unfinished -= delta.stop_reason is not None
    return tokens / (time.perf_counter() - began)


def explored_round(explorer, run, options: argparse.Namespace) -> float:
    """Return the tokens per second with groups, rows and the live stream.

    Another step's groups are opened and sampled.
    """
    from django.db.models import F, Sum

    from apps.rollouts.models import Rollout
    from apps.runs.models import Run

    last = Rollout.objects.filter(run=run).order_by("-pk").values_list("pk", flat=True).first()
    Run.objects.filter(pk=run.pk).update(
        planned_steps=F("planned_steps") + 1,
        groups_dropped=F("groups_dropped") + options.concurrent // GROUP,
    )
    explorer.looked_at = 0.0
    began = time.perf_counter()
    serve_until_idle(explorer)
    seconds = time.perf_counter() - began
    return (
        Rollout.objects.filter(run=run, pk__gt=last).aggregate(n=Sum("completion_tokens"))["n"]
        / seconds
    )


def serve_until_idle(explorer) -> None:
    """Serve until nothing is in flight."""
    explorer.serve()
    while any(session.rollouts for session in explorer.sessions.values()):
        explorer.serve()


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--concurrent", type=int, default=64, help=f"rollouts in flight, a multiple of {GROUP}"
    )
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--parameters", type=float, default=20e6)
    options = parser.parse_args()
    if options.concurrent % GROUP:
        parser.error(f"--concurrent: a multiple of {GROUP}")
    return options


if __name__ == "__main__":
    main()
