"""The form for an order of all replies: `{"ranks": {"<rollout>": 1 (best) …}}`.

Equal ranks are ties. Canonical ranks have no gap: 1, 1, 2. A rollout is worth (k − r) / (k − 1),
where r is its rank among the k shown, and ties share the mean of their places: untied, the best is
worth 1 and the worst 0.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from apps.feedback.forms.form import Answer, Form, Question
from apps.feedback.forms.words import required, whole
from apps.runs.people import People

MANY = 64  # rollouts that a group can hold


class Ranking(Form):
    name = "ranking"
    asks = "Rank the replies, best first"
    summary = "all replies of a group in order"
    fields = frozenset({"ranks"})
    min_rollouts = 2
    max_rollouts = MANY

    def read(self, raw: Mapping[str, Any], question: Question, problems: dict[str, str]) -> Answer:
        right = "an object with a rank for each rollout shown"
        if not required(raw, "ranks", problems, right):
            return {}
        if not isinstance(raw["ranks"], dict):
            problems["ranks"] = f"must be {right}"
            return {}
        return {"ranks": _without_gaps(_ranks(raw["ranks"], question.shown, problems))}

    def values(self, answer: Answer, shown: Sequence[int], people: People) -> dict[int, float]:
        ranks = answer["ranks"]
        count = len(shown)
        places = mean_places(ranks.values())
        return {rollout: (count - places[ranks[str(rollout)]]) / (count - 1) for rollout in shown}


def mean_places(ranks: Sequence[int]) -> dict[int, float]:
    """Return, for each rank, the mean of the places (from 1) of those that share it."""
    places = {}
    before = 0
    for rank, sharing in sorted(Counter(ranks).items()):
        places[rank] = before + (sharing + 1) / 2
        before += sharing
    return places


def _ranks(
    raw: Mapping[str, Any], shown: Sequence[int], problems: dict[str, str]
) -> dict[str, int]:
    expected = {str(rollout) for rollout in shown}
    for foreign in sorted(str(key)[:40] for key in raw.keys() - expected)[:10]:
        problems[f"ranks.{foreign}"] = "is not one of the rollouts shown"
    for unranked in sorted(expected - raw.keys()):
        problems[f"ranks.{unranked}"] = "has no rank; rank every rollout shown"
    return {
        key: whole(raw[key], f"ranks.{key}", problems, 1, len(shown))
        for key in map(str, shown)
        if key in raw
    }


def _without_gaps(ranks: dict[str, int]) -> dict[str, int]:
    dense = {rank: place for place, rank in enumerate(sorted(set(ranks.values())), start=1)}
    return {key: dense[rank] for key, rank in ranks.items()}
