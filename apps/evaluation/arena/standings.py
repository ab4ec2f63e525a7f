"""Standings of an arena's contestants: strengths with intervals, results, and raters' agreement.

For each person and pair the newest vote counts. A tie, and "both are bad", is half a win for each.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import log

import numpy as np
from django.db import connection

from apps.evaluation.models import STANDING, Arena, Contestant, Pairing
from apps.statistics.agreement import krippendorff_alpha, percent_agreement
from apps.statistics.elo import SCALE
from apps.statistics.intervals import Z95, wilson
from apps.statistics.plackett_luce import NoStrengths, fit_bradley_terry
from apps.statistics.statistic import Statistic

POINTS = SCALE / log(10)  # points per unit of a natural logarithm


@dataclass(frozen=True)
class Score:
    """The numbers of wins, ties and losses; `bad` of the ties were votes that both are bad."""

    won: int = 0
    tied: int = 0
    lost: int = 0
    bad: int = 0

    def __add__(self, other: "Score") -> "Score":
        return Score(
            self.won + other.won,
            self.tied + other.tied,
            self.lost + other.lost,
            self.bad + other.bad,
        )

    @property
    def turned(self) -> "Score":
        return Score(self.lost, self.tied, self.won, self.bad)

    @property
    def of(self) -> int:
        return self.won + self.tied + self.lost

    @property
    def share(self) -> float | None:
        return (self.won + self.tied / 2) / self.of if self.of else None

    @property
    def interval(self) -> tuple[float, float] | None:
        return wilson(self.won + self.tied / 2, self.of)


@dataclass(frozen=True)
class Strength:
    """The strength of a contestant.

    `points`, `low`, `high` are 400 times the decadic logarithm of the odds against the field's
    mean, with its 95 % interval. `chance` is the probability of winning against another contestant,
    each counting alike.
    """

    points: float
    low: float
    high: float
    chance: float


@dataclass(frozen=True)
class Standing:
    contestant: Contestant
    score: Score
    strength: Strength | None
    why: str  # why it has no strength


@dataclass(frozen=True)
class Standings:
    """Standings of an arena; `rows` begin with the strongest.

    `against` is {(contestant, other): score}, by ids; `domains` is {domain: {contestant: score}}.
    """

    rows: list[Standing]
    against: dict[tuple[int, int], Score]
    domains: dict[str, dict[int, Score]]
    votes: int
    left: Score  # the left side's score, over votes that chose one
    raters: int
    agreement: Statistic
    alpha: Statistic
    twice: int  # pairs that two people or more judged

    @property
    def has_strengths(self) -> bool:
        return any(row.strength for row in self.rows)


@dataclass
class Tally:
    """The votes of an arena, added up; the keys are as in Standings."""

    against: dict[tuple[int, int], Score] = field(default_factory=lambda: defaultdict(Score))
    domains: dict[str, dict[int, Score]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(Score))
    )
    left: Score = Score()

    def add(self, pair: tuple[int, int], domain: str, score: Score, first_on_left: bool) -> None:
        """Add votes on a pair of contestants of one domain; `score` is the first one's."""
        first, second = pair
        self.against[first, second] += score
        self.against[second, first] += score.turned
        self.domains[domain][first] += score
        self.domains[domain][second] += score.turned
        left_score = score if first_on_left else score.turned
        self.left += Score(left_score.won, 0, left_score.lost)

    def by_contestant(self) -> dict[int, Score]:
        """Return each contestant's score against all others; none for those without a vote."""
        scores: dict[int, Score] = defaultdict(Score)
        for (contestant, _), score in self.against.items():
            scores[contestant] += score
        return scores


def compute_standings(arena: Arena) -> Standings:
    """Compute the standings: three statements, and one Bradley-Terry fit."""
    contestants = list(
        arena.contestants.select_related(
            "run__evaluates__run", "run__policy", "run__project"
        ).order_by("place")
    )
    pairings = Pairing.objects.filter(arena=arena).values_list("pk", "first", "second")
    ends = {pk: (first, second) for pk, first, second in pairings}
    votes, repeated_pairs, raters = _count_votes(arena)
    tally = Tally()
    for pairing, domain, choice, first_on_left, count in votes:
        tally.add(ends[pairing], domain, _score(choice, count), first_on_left)
    agreement, alpha, repeated_count = _agreement(repeated_pairs)
    return Standings(
        _ranked(contestants, tally),
        dict(tally.against),
        {domain: dict(scores) for domain, scores in tally.domains.items()},
        sum(count for *_, count in votes),
        tally.left,
        raters,
        agreement,
        alpha,
        repeated_count,
    )


def _ranked(contestants: Sequence[Contestant], tally: Tally) -> list[Standing]:
    """Return the contestants' standings, the strongest first."""
    scores = tally.by_contestant()
    strengths, why = fit_strengths(build_win_matrix(contestants, tally.against))
    rows = [
        Standing(contestant, scores.get(contestant.pk, Score()), strength, reason)
        for contestant, strength, reason in zip(contestants, strengths, why, strict=True)
    ]
    return sorted(rows, key=_rank)


def _rank(row: Standing) -> tuple[float, float, int]:
    points = row.strength.points if row.strength else 0.0
    return -points, -(row.score.share or 0.0), row.contestant.place


def build_win_matrix(
    contestants: Sequence[Contestant], against: dict[tuple[int, int], Score]
) -> np.ndarray:
    """Return the matrix (k, k) of how often row beat column; a tie is half a win for each."""
    none = Score()
    scores = [
        [against.get((contestant.pk, opponent.pk), none) for opponent in contestants]
        for contestant in contestants
    ]
    return np.array([[score.won + score.tied / 2 for score in row] for row in scores])


def fit_strengths(wins: np.ndarray) -> tuple[list[Strength | None], list[str]]:
    """Return each contestant's strength and empty texts.

    Without a finite fit the strengths are None, and the texts say why ("" for a contestant that is
    not the cause).
    """
    try:
        fitted = fit_bradley_terry(wins)
    except NoStrengths:
        return [None] * len(wins), _why(wins)
    chances = 1 / (1 + np.exp(fitted.scores[None, :] - fitted.scores[:, None]))
    np.fill_diagonal(chances, 0.0)
    field = chances.sum(1) / (len(wins) - 1)
    middle = POINTS * fitted.scores
    half = POINTS * Z95 * fitted.errors
    strengths: list[Strength | None] = [
        Strength(*map(float, row))
        for row in zip(middle, middle - half, middle + half, field, strict=True)
    ]
    return strengths, [""] * len(wins)


def _why(wins: np.ndarray) -> list[str]:
    """Return, for each contestant, why strengths are not finite.

    They are finite if every contestant has beaten every other one in some number of steps; a tie is
    half a win both ways.
    """
    reach = (wins > 0) | np.eye(len(wins), dtype=bool)
    for _ in range(len(wins)):
        reach = (reach.astype(int) @ reach) > 0
    return [_why_no_strength(n, wins, reach) for n in range(len(wins))]


def _why_no_strength(n: int, wins: np.ndarray, reach: np.ndarray) -> str:
    if not wins[n].any() and not wins[:, n].any():
        return "no votes yet"
    if not wins[:, n].any():
        return "won every time: the strength is unknown until it loses or ties once"
    if not wins[n].any():
        return "lost every time: the strength is unknown until it wins or ties once"
    is_unconnected = ~(reach[n] & reach[:, n])
    if not is_unconnected.any():
        return ""
    if not (reach[n] | reach[:, n]).all():
        return "not yet compared with all contestants, directly or indirectly"
    ahead = (reach[n] & ~reach[:, n]).any()
    behind = (reach[:, n] & ~reach[n]).any()
    if ahead and behind:
        return "won every time against some contestants and lost every time against the others"
    return f"it and similar contestants {'won' if ahead else 'lost'} every time against the others"


def _score(choice: str, count: int) -> Score:
    """Return these votes as a score of the pairing's first contestant."""
    if choice in ("first", "second"):
        return Score(won=count) if choice == "first" else Score(lost=count)
    return Score(tied=count, bad=count if choice == "bad" else 0)


def _agreement(rows: Sequence[list]) -> tuple[Statistic, Statistic, int]:
    """Return raters' agreement on pairs that several people judged: first, second, or neither.

    The metrics are the share of equal pairs of votes, and Krippendorff's alpha.
    """
    counts = np.array([row[:3] for row in rows], dtype=float).reshape(-1, 3)
    times = np.array([row[3] for row in rows], dtype=int)
    repeated_counts = np.repeat(counts, times, axis=0)
    return (
        percent_agreement(repeated_counts),
        krippendorff_alpha(counts, [0, 1, 2], "nominal", times.astype(float)),
        int(times.sum()),
    )


# Counts of votes by pairing, domain and side; of pairs of votes on one pair; and of voters.
COUNTED = f"""
    WITH standing AS MATERIALIZED ({STANDING})
    SELECT
        (SELECT coalesce(json_agg(json_build_array(pairing_id, domain, choice, first_on_left,
            votes)), '[]') FROM (
            SELECT s.pairing_id, t.domain, s.choice, s.first_on_left, count(*) AS votes
            FROM standing s JOIN tasksets_task t ON t.id = s.task_id GROUP BY 1, 2, 3, 4
                ORDER BY 1, 2, 3, 4) counted),
        (SELECT coalesce(json_agg(json_build_array(one, other, neither, pairs)), '[]') FROM (
            SELECT one, other, neither, count(*) AS pairs FROM (
                SELECT count(*) FILTER (WHERE choice = 'first') AS one,
                    count(*) FILTER (WHERE choice = 'second') AS other,
                    count(*) FILTER (WHERE choice IN ('tie', 'bad')) AS neither
                FROM standing GROUP BY pairing_id, task_id, sample_index HAVING count(*) > 1) judged
            GROUP BY 1, 2, 3 ORDER BY 1, 2, 3) met),
        (SELECT count(DISTINCT rater_id) FROM standing)"""


def _count_votes(arena: Arena) -> tuple[list[list], list[list], int]:
    with connection.cursor() as cursor:
        cursor.execute(COUNTED, {"arena": arena.pk})
        return cursor.fetchone()
