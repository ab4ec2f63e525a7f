"""Reading of a judge's reply: reasoning first, then one JSON object at the end.

Anything else is unreadable.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence

from apps.accounts import strict_json
from apps.rewards.judging.asking import Reply
from apps.rewards.scorers.verdict import Verdict

REASONING_SHOWN = 2_000  # characters kept in the details
MAX_OPENINGS = 200  # of objects that are tried, from the end


class Unreadable(ValueError):
    """Raised for a reply without a valid verdict; names the problem."""


def last_object(text: str) -> tuple[dict, str]:
    """Return the JSON object at the end of the text, and the text before it. Raises Unreadable.

    Only a closing fence may follow it.
    """
    body = text.rstrip().removesuffix("```").rstrip()
    if not body.endswith("}"):
        raise Unreadable("the reply does not end with a JSON object")
    place = len(body)
    for _ in range(MAX_OPENINGS):
        place = body.rfind("{", 0, place)
        if place < 0:
            break
        try:
            document = strict_json.decode_json(body[place:])
        except strict_json.NotStrictJson:
            continue
        if isinstance(document, dict):
            return document, body[:place].rstrip().removesuffix("```json").removesuffix(
                "```"
            ).rstrip()
    raise Unreadable("the reply does not end with a readable JSON object")


def parse_verdict(reply: Reply) -> tuple[dict, str]:
    """Return a reply's verdict and its reasoning. Raises Unreadable, also where none came."""
    if reply.text is None:
        raise Unreadable(reply.reason)
    return last_object(reply.text)


def average_verdicts(
    replies: Sequence[Reply], vote: Callable[[dict], float], details: dict
) -> Verdict:
    """Return the mean verdict of the votes, with the first reasoning and the cost.

    `vote` reads each reply, and may raise Unreadable.
    """
    votes = []
    failures = []
    reasoning = ""
    for reply in replies:
        try:
            document, explanation = parse_verdict(reply)
            votes.append(vote(document))
        except Unreadable as why:
            failures.append(str(why))
            continue
        reasoning = reasoning or explanation
    return mean_verdict(
        votes,
        failures,
        {**details, "reasoning": reasoning[:REASONING_SHOWN], **judging_cost(replies)},
    )


def read_number(document: Mapping, name: str, low: float, high: float) -> float:
    """Return a number of the verdict. Raises Unreadable."""
    value = document.get(name)
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not math.isfinite(value)
        or not low <= value <= high
    ):
        raise Unreadable(
            f"{name} must be a number from {low:g} to {high:g}, not {json.dumps(value)[:40]}"
        )
    return float(value)


def mean_verdict(votes: Sequence[float], failures: Sequence[str], details: dict) -> Verdict:
    """Return the mean of the votes that could be read.

    More than half must be, or there is no value.
    """
    rounded = [round(vote, 4) for vote in votes]
    details = {"votes": rounded, "unreadable": list(failures), **details}
    if len(votes) <= len(failures):
        return Verdict(None, f"the judge gave no verdict: {failures[0]}"[:300], details)
    value = math.fsum(votes) / len(votes)
    spread = f", from {min(votes):.2g} to {max(votes):.2g}" if len(votes) > 1 else ""
    return Verdict(value, f"the judge gives {value:.2g}{spread}", details)


def position_details(places: Sequence[int], among: int) -> dict:
    """Return details: the answer's position (from 1) in each vote, among how many shown."""
    return {"places": list(places), "among": among}


def judging_cost(replies: Sequence[Reply]) -> dict:
    """Return details of the cost: tokens in and out, and the numbers of new and cached replies."""
    new = [reply for reply in replies if not reply.is_cached]
    return {
        "tokens_in": sum(reply.tokens_in for reply in new),
        "tokens_out": sum(reply.tokens_out for reply in new),
        "new_replies": len(new),
        "cached_replies": len(replies) - len(new),
    }
