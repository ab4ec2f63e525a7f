"""Guess the tasks of a set with a policy, or estimate the tasks' difficulty.

`python -m workers.guessing TASKSET POLICY` (ids); it loads the policy's model.
"""

import argparse
import os
import sys

ABOUT_GUESSES = {
    "tries": int,
    "max_tokens": int,
    "seed": int,
    "instruction": str,
    "temperature": float,
}


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("taskset", type=int)
    parser.add_argument("policy", type=int)
    parser.add_argument("--run", type=int, help="run whose scorers judge the guesses")
    parser.add_argument(
        "--scorer", action="append", default=[], help="Scorer, with its default options."
    )
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--force", action="store_true")
    parser.add_argument(
        "--scale",
        type=int,
        help="Write difficulties to this scale, with reasoning allowed, instead of guessing.",
    )
    for name, kind in ABOUT_GUESSES.items():
        parser.add_argument(f"--{name}", type=kind)
    return parser.parse_args()


def main() -> int:
    arguments = parse_arguments()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "rftweb.settings")
    import django

    django.setup()
    from apps.feedback.suspicions.guesses import (
        GuessCheck,
        list_correctness_scorers,
        list_unguessed_tasks,
    )
    from apps.policies.models import Policy
    from apps.runs.config import ScorerChoice
    from apps.runs.models import Run
    from apps.tasksets.models import DifficultyScale, Taskset
    from workers.guessing.difficulty import estimate
    from workers.guessing.guesses import guess

    taskset = Taskset.objects.get(pk=arguments.taskset)
    policy = Policy.objects.get(pk=arguments.policy)
    judges = (
        list_correctness_scorers(Run.objects.get(pk=arguments.run).settings)
        if arguments.run
        else [ScorerChoice(scorer=s) for s in arguments.scorer]
    )
    options = {
        name: getattr(arguments, name)
        for name in ABOUT_GUESSES
        if getattr(arguments, name) is not None
    }
    if arguments.scale:
        scale = DifficultyScale.objects.get(pk=arguments.scale)
        check = GuessCheck(judges, thinks=True, **options)
        unjudged = estimate(
            scale,
            policy,
            check,
            arguments.engine,
            arguments.limit,
            lambda count, of: print(f"{count:,} of {of:,}", flush=True),
        )
        print(f"{unjudged:,} tasks could not be sampled or scored")
        return 0
    check = GuessCheck(judges, **options)
    tasks = list_unguessed_tasks(taskset, policy, arguments.force, arguments.limit)
    tally = guess(
        tasks,
        policy,
        check,
        arguments.engine,
        lambda count: print(f"{count:,} of {len(tasks):,} tasks", flush=True),
    )
    summary = (
        f"{tally.checked:,} tasks checked: {tally.easy:,} were guessed correctly in "
        f"{check.tries} tries without reasoning"
    )
    print(f"{summary}, {tally.unjudged:,} could not be sampled or scored")
    return 0


if __name__ == "__main__":
    sys.exit(main())
