"""Asks a language model to compare pairs of a group's replies; rewards the share of wins.

Each pair is asked in both orders.
"""

import itertools
from collections.abc import Sequence

from pydantic import Field

from apps.rewards.judging.asking import Ask, JudgeOptions, Reply
from apps.rewards.judging.fencing import RULE, fenced, join_chat
from apps.rewards.judging.verdicts import (
    Unreadable,
    judging_cost,
    mean_verdict,
    parse_verdict,
    position_details,
)
from apps.rewards.scorers.contract import RolloutView, TaskView
from apps.rewards.scorers.verdict import Verdict

OF_GROUP = True
POINTS = {"A": 1.0, "tie": 0.5, "B": 0.0}  # of the answer that is shown first


class Options(JudgeOptions):
    goal: str = Field(
        "it answers better what was asked",
        min_length=1,
        max_length=4000,
        description="When one is better.",
    )
    opponents: int = Field(
        2,
        ge=1,
        le=64,
        description="Number of other answers of the group that each answer is compared with.",
    )


def ask(rollouts: Sequence[RolloutView], task: TaskView, options: Options) -> list[Ask]:
    """Return each pair in both orders (position swap), as often as there are votes."""
    system = (
        f"You compare two answers of assistants to the same conversation.\n{RULE}\n\nOne is better"
        f" when {options.goal}. First reason briefly. Then end your reply with one line, a JSON"
        ' object: {"better": "A"}, {"better": "B"} or {"better": "tie"}'
    )
    asks = []
    for first, second, vote in _meetings(len(rollouts), options):
        texts = [fenced("conversation", join_chat(task.prompt))]
        texts += [
            fenced(f"answer {name}", rollouts[n].text) for name, n in (("A", first), ("B", second))
        ]
        asks.append(
            Ask(
                [
                    {"role": "system", "content": system},
                    {"role": "user", "content": "\n\n".join(texts)},
                ],
                vote,
            )
        )
    return asks


def read(
    replies: Sequence[Reply], rollouts: Sequence[RolloutView], task: TaskView, options: Options
) -> list[Verdict]:
    won: list[list[float]] = [[] for _ in rollouts]
    places: list[list[int]] = [[] for _ in rollouts]
    failed: list[list[str]] = [[] for _ in rollouts]
    for (first, second, _), reply in zip(_meetings(len(rollouts), options), replies, strict=True):
        try:
            points = _points(reply)
        except Unreadable as why:
            failed[first].append(str(why))
            failed[second].append(str(why))
            continue
        for n, place, share in ((first, 1, points), (second, 2, 1 - points)):
            won[n].append(share)
            places[n].append(place)
    details = [
        position_details(rollout_places, 2) | judging_cost(replies) for rollout_places in places
    ]
    return [
        mean_verdict(*outcome) if any(outcome[:2]) else _no_opponent()
        for outcome in zip(won, failed, details, strict=True)
    ]


def _meetings(size: int, options: Options) -> list[tuple[int, int, int]]:
    """Return (first, second, vote): neighbours on a ring, then those two places away, and so on.

    Each pair in both orders.
    """
    pairs = {
        tuple(sorted((n, (n + away) % size)))
        for away in range(1, options.opponents // 2 + 1)
        for n in range(size)
    }
    if options.opponents % 2 and size % 2 == 0:
        pairs |= {(n, n + size // 2) for n in range(size // 2)}
    elif options.opponents % 2:
        pairs |= {tuple(sorted((n, (n + options.opponents // 2 + 1) % size))) for n in range(size)}
    ordered_pairs = itertools.chain.from_iterable(
        ((a, b), (b, a)) for a, b in sorted(pairs) if a != b
    )
    return [
        (first, second, vote) for first, second in ordered_pairs for vote in range(options.votes)
    ]


def _points(reply: Reply) -> float:
    verdict, _ = parse_verdict(reply)
    better = verdict.get("better")
    if verdict.keys() != {"better"} or better not in POINTS:
        raise Unreadable('the verdict must be {"better": "A"}, "B" or "tie"')
    return POINTS[better]


def _no_opponent() -> Verdict:
    return Verdict(None, "no other answer to compare with")
