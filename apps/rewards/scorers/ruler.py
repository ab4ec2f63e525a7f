"""Asks a language model to grade a group's replies together, in another order for each vote."""

import random
from collections.abc import Sequence

from pydantic import Field

from apps.rewards.judging.asking import Ask, JudgeOptions, Reply
from apps.rewards.judging.fencing import RULE, fenced, join_chat
from apps.rewards.judging.verdicts import (
    REASONING_SHOWN,
    Unreadable,
    judging_cost,
    mean_verdict,
    parse_verdict,
    position_details,
    read_number,
)
from apps.rewards.scorers.contract import RolloutView, TaskView
from apps.rewards.scorers.verdict import Verdict

OF_GROUP = True


class Options(JudgeOptions):
    goal: str = Field(
        ("the better it answers what was asked, the higher; equally good answers get equal scores"),
        min_length=1,
        max_length=4000,
        description="Criterion by which answers are compared.",
    )


def ask(rollouts: Sequence[RolloutView], task: TaskView, options: Options) -> list[Ask]:
    """Return whole-group relative scores (RULER).

    Each vote has an order of its own, against a judge's leaning to places.
    """
    system = (
        f"You compare {len(rollouts)} answers of assistants to the same conversation.\n{RULE}\n\n"
        f"Score each from 0 to 1 relative to the others: {options.goal}. "
        "First reason briefly. Then end your reply with one line, a JSON object with the number of"
        " every "
        f'answer: {{"1": <number>, …, "{len(rollouts)}": <number>}}'
    )
    asks = []
    for vote in range(options.votes):
        texts = [fenced("conversation", join_chat(task.prompt))]
        texts += [
            fenced(f"answer {place}", rollouts[n].text)
            for place, n in enumerate(_order(len(rollouts), vote), start=1)
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
    votes: list[list[float]] = [[] for _ in rollouts]
    places: list[list[int]] = [[] for _ in rollouts]
    failures = []
    reasoning = ""
    for vote, reply in enumerate(replies):
        try:
            scores, explanation = _scores(reply, len(rollouts))
        except Unreadable as why:
            failures.append(str(why))
            continue
        reasoning = reasoning or explanation
        for place, n in enumerate(_order(len(rollouts), vote), start=1):
            votes[n].append(scores[place - 1])
            places[n].append(place)
    details = {"reasoning": reasoning[:REASONING_SHOWN], **judging_cost(replies)}
    return [
        mean_verdict(
            rollout_scores, failures, position_details(rollout_places, len(rollouts)) | details
        )
        for rollout_scores, rollout_places in zip(votes, places, strict=True)
    ]


def _order(size: int, vote: int) -> list[int]:
    """Return the order of answers for a vote: unchanged, reversed, then shuffled by its number."""
    order = list(range(size))
    if vote == 1:
        order.reverse()
    elif vote > 1:
        random.Random(vote).shuffle(order)
    return order


def _scores(reply: Reply, size: int) -> tuple[list[float], str]:
    verdict, reasoning = parse_verdict(reply)
    if verdict.keys() != {str(place) for place in range(1, size + 1)}:
        raise Unreadable(f"the verdict must cover exactly the answers 1 to {size}")
    return [read_number(verdict, str(place), 0, 1) for place in range(1, size + 1)], reasoning
