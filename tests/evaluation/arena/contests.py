"""Arenas of finished evaluations: versions of a run, each with its own answers to every task."""

import uuid
from collections.abc import Callable, Sequence
from itertools import cycle

from apps.accounts.models import User
from apps.evaluation.arena.asking import arena_progress, next_pairs
from apps.evaluation.arena.making import create_arena
from apps.evaluation.arena.pairs import Pair, first_is_left, name_pair
from apps.evaluation.arena.voting import cast, list_pairings
from apps.evaluation.asking import start_evaluation
from apps.evaluation.models import Arena, Vote
from apps.rewards.models import Reward
from apps.rollouts.evaluation_groups import close_evaluation_groups, complete_measured
from apps.rollouts.models import Group, Rollout
from apps.runs.evaluation import Questions
from apps.runs.models import Run, WeightVersion

TASKS = 4  # of the cast's taskset


def evaluated(
    run: Run, finish: Callable, answers: Sequence[Sequence[str]], samples: int = 2
) -> list[Run]:
    """Create finished evaluations of versions 0, 1 …; `answers[v]` are given in turn to the tasks,
    sample by sample.
    """
    found = []
    for number, texts in enumerate(answers):
        version, is_new = WeightVersion.objects.get_or_create(
            run=run,
            version=number,
            defaults={
                "step": number,
                "folder": f"/weights/{number}",
                "fingerprint": f"{number:016}",
            },
        )
        if is_new:
            version.verify()
            version.publish()
        made, _ = start_evaluation(version, Questions(taskset=run.taskset.slug, samples=samples))
        given = cycle(texts)
        for _ in range(made.taskset.size):
            for rollout in Rollout.objects.filter(
                group__in=finish(made, [next(given) for _ in range(samples)])
            ):
                Reward.record(rollout, Reward.Source.RULE, "sort", 0.5)
        Group.objects.filter(run=made).update(state="judged")
        close_evaluation_groups(
            Group.objects.claim("judged", "refiner", 60, made.taskset.size, made)
        )
        complete_measured()
        made.refresh_from_db()
        found.append(made)
    return found


def contest(
    run: Run, finish: Callable, by: User, contestants: int = 3, samples: int = 2, again: float = 0.0
) -> Arena:
    """Create an arena in which no two answers are equal."""
    answers = [
        [f"answer {n} of v{number}" for n in range(TASKS * samples)]
        for number in range(contestants)
    ]
    runs = evaluated(run, finish, answers, samples)
    return create_arena(run.project, by, "Which is better", [one.pk for one in runs], again)


def asked(user: User, arena: Arena, count: int = 1) -> list[Pair]:
    pairings = list_pairings(arena)
    return next_pairs(user, arena, pairings, arena_progress(user, arena, pairings), count)


def say(user: User, arena: Arena, pair: Pair, choice: str) -> Vote:
    """Vote for the pair; `choice` is the stored value: first, second, tie or bad."""
    said = choice
    if choice in ("first", "second"):
        said = "left" if (choice == "first") == first_is_left(arena, user, pair) else "right"
    return Vote.objects.get(
        pk=cast(user, arena, name_pair(arena, user, pair), said, uuid.uuid4(), 1200).vote
    )


def judge_all(
    user: User, arena: Arena, decide: Callable[[Pair], str], most: int = 1000
) -> list[Pair]:
    """Vote on every pair that this person gets, and return the pairs in order."""
    met = []
    while len(met) < most and (pairs := asked(user, arena)):
        say(user, arena, pairs[0], decide(pairs[0]))
        met += pairs
    return met
