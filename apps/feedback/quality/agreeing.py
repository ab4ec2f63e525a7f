"""Agreement between people, by each measure of each form, corrected for chance."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np

from apps.feedback.forms import BUILT_IN
from apps.feedback.quality.decisions import Decision
from apps.feedback.rater_quality import category
from apps.statistics.agreement import (
    Level,
    cohen_kappa,
    count_values,
    fleiss_kappa,
    krippendorff_alpha,
    percent_agreement,
)
from apps.statistics.intervals import bootstrap_interval
from apps.statistics.statistic import Statistic, undefined

DRAWS = 400
RELIABLE = 0.8
# K. Krippendorff, Content Analysis (2018), chapter 12: where conclusions begin to hold.
TENTATIVE = 0.667
PAIRS = 12  # the most pairs of raters shown
NO_ORDER = undefined("not defined for unordered values")


class Measure(NamedTuple):
    """One quantity that a form measures.

    Ordered values are on a scale; others are only equal or not. A tuple, because one is made and
    looked up for every decision.
    """

    form: str
    words: str
    is_ordered: bool


@dataclass(frozen=True)
class Agreement:
    """The agreement on one measure.

    `headline` is the alpha that fits it, with its bootstrap interval over units.
    """

    measure: Measure
    percent: Statistic
    fleiss: Statistic
    nominal: Statistic
    ordinal: Statistic
    interval: Statistic
    bounds: tuple[float, float] | None

    @property
    def headline(self) -> Statistic:
        return self.ordinal if self.measure.is_ordered else self.nominal

    @property
    def verdict(self) -> str:
        """Return good, fair or poor; "" if it is unknown."""
        alpha = self.headline.value
        if alpha is None:
            return ""
        return "good" if alpha >= RELIABLE else "fair" if alpha >= TENTATIVE else "poor"


@dataclass(frozen=True)
class Pair:
    """The agreement of two people on the units that both decided."""

    names: tuple[str, str]
    kappa: Statistic


Value = tuple[Measure, tuple, float]


def list_measured_values(decision: Decision) -> Iterator[Value]:
    """Yield (measure, unit, value) for each measure of the decision's form; none for texts."""
    form = decision.form
    answer = decision.answer
    unit = decision.unit
    match form:
        case "thumbs":
            yield Measure(form, "thumbs", False), unit, float(answer["up"])
        case "stars":
            yield Measure(form, "stars", True), unit, float(answer["stars"])
        case "pairwise":
            yield (
                Measure(form, "which of two", False),
                unit,
                float(category(form, answer, decision.shown)),
            )
            if "preference" in answer:
                way = 1 if list(decision.shown) == list(unit) else -1
                yield (
                    Measure(form, "strength of preference", True),
                    unit,
                    float(way * answer[("preference")]),
                )
        case "ranking":
            for rollout, rank in answer["ranks"].items():
                yield Measure(form, "rank", True), (*unit, int(rollout)), float(rank)
        case "best_worst":
            for end in ("best", "worst"):
                yield Measure(form, end, False), unit, float(unit.index(answer[end]))
        case "rubric":
            for name, value in answer["scales"].items():
                yield Measure(form, name, True), unit, float(value)
        case "turns":
            yield from _of_turns(decision)
        case _ if form not in BUILT_IN:
            for name, value in answer.items():
                if type(value) in (int, float):
                    yield Measure(form, name, True), unit, float(value)


def _of_turns(decision: Decision) -> Iterator[Value]:
    if "marks" in decision.answer:
        for turn, mark in decision.answer["marks"].items():
            yield Measure("turns", "marks on turns", True), (*decision.unit, int(turn)), float(mark)
    else:
        first = decision.answer["first_error"]
        yield (
            Measure("turns", "first error", False),
            decision.unit,
            -1.0 if first is None else float(first),
        )


ValuesByRater = dict[Measure, dict[tuple, dict[int, float]]]  # measure → unit → rater → value


def _last_values(decisions: Iterable[Decision]) -> ValuesByRater:
    """Return each rater's last value for each unit; the decisions come newest first."""
    values: ValuesByRater = defaultdict(lambda: defaultdict(dict))
    for decision in decisions:
        for measure, unit, value in list_measured_values(decision):
            values[measure][unit].setdefault(decision.rater, value)
    return values


def agreements(decisions: Sequence[Decision]) -> list[Agreement]:
    """Return the agreement on each decided measure, those with most double decisions first.

    Known answers are left out.
    """
    by_measure = _last_values(decision for decision in decisions if not decision.has_known_answer)
    agreements = [_agreement(measure, units) for measure, units in by_measure.items()]
    return sorted(
        agreements,
        key=lambda agreement: (
            -agreement.percent.units,
            agreement.measure.form,
            agreement.measure.is_ordered,
            agreement.measure.words,
        ),
    )


def _agreement(measure: Measure, units: dict[tuple, dict[int, float]]) -> Agreement:
    twice = [list(values.values()) for values in units.values() if len(values) > 1]
    places = [place for place, values in enumerate(twice) for _ in values]
    counts, kinds = count_values(places, [value for values in twice for value in values])
    return Agreement(
        measure,
        percent_agreement(counts),
        fleiss_kappa(counts),
        krippendorff_alpha(counts, kinds, "nominal"),
        krippendorff_alpha(counts, kinds, "ordinal") if measure.is_ordered else NO_ORDER,
        krippendorff_alpha(counts, kinds, "interval") if measure.is_ordered else NO_ORDER,
        _bounds(counts, kinds, "ordinal" if measure.is_ordered else "nominal"),
    )


def _bounds(counts: np.ndarray, kinds: np.ndarray, level: Level) -> tuple[float, float] | None:
    """Return the bootstrap interval of alpha over units.

    Equal units are counted instead of listed, since there are few different ones.
    """
    if len(counts) < 2:
        return None
    alike, kind = np.unique(counts, axis=0, return_inverse=True)

    def alpha(rows: np.ndarray) -> float | None:
        return krippendorff_alpha(
            alike, kinds, level, np.bincount(kind[rows], minlength=len(alike)).astype(float)
        ).value

    return bootstrap_interval(alpha, len(counts), draws=DRAWS)


def list_agreement_pairs(decisions: Sequence[Decision], measure: Measure) -> list[Pair]:
    """Return the agreement of each two people on this measure, those with most in common first.

    It is Cohen's kappa, with squared distances on a scale.
    """
    names = {decision.rater: decision.name for decision in decisions}
    units = _last_values(decision for decision in decisions if not decision.has_known_answer)[
        measure
    ]
    kinds = {
        value: place
        for place, value in enumerate(
            sorted({v for values in units.values() for v in values.values()})
        )
    }
    common: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for values in units.values():
        for rater, other_rater in combinations(sorted(values), 2):
            common[rater, other_rater].append((kinds[values[rater]], kinds[values[other_rater]]))
    largest_pairs = sorted(common.items(), key=lambda row: (-len(row[1]), names[row[0][0]]))[:PAIRS]
    weights = _squares(list(kinds)) if measure.is_ordered else None
    return [
        Pair(
            (names[rater], names[other_rater]),
            cohen_kappa(
                [a for a, _ in value_pairs], [b for _, b in value_pairs], len(kinds), weights
            ),
        )
        for (rater, other_rater), value_pairs in largest_pairs
    ]


def _squares(kinds: list[float]) -> np.ndarray:
    return np.subtract.outer(np.array(kinds), np.array(kinds)) ** 2


@dataclass(frozen=True)
class RepeatAgreement:
    """The consistency of a person who was asked twice about the same rollouts."""

    same: int
    of: int

    @property
    def share(self) -> float | None:
        return self.same / self.of if self.of else None


def measure_repeat_agreement(decisions: Sequence[Decision]) -> RepeatAgreement:
    answers: dict[tuple, list[float]] = defaultdict(list)
    for decision in decisions:
        for measure, unit, value in list_measured_values(decision):
            answers[decision.rater, measure, unit].append(value)
    twice = [values for values in answers.values() if len(values) > 1]
    return RepeatAgreement(sum(values[0] == values[1] for values in twice), len(twice))
