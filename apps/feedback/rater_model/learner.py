"""The learner of a rater model: a run's decisions and the fit.

It models that raters differ in bias and in care.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from apps.feedback.rater_model.linear import Decisions, Order, Posterior, fit_posterior
from apps.feedback.rater_model.reading import NUMBERS, ReplyFeatures, Vocabulary

RIDGE = "ridge"  # the model's kind
CARE_COUNTS = 8.0  # pseudo-decisions at the common noise in the estimate of a rater's own
CARE_ROUNDS = 3


@dataclass(frozen=True)
class ValuedReply:
    """A person's value of one reply: 0 worst, 1 best."""

    reply: ReplyFeatures
    value: float
    rater: int


@dataclass(frozen=True)
class ComparedReplies:
    """A person's comparison of several replies, as orders among their positions."""

    replies: tuple[ReplyFeatures, ...]
    orders: tuple[Order, ...]
    rater: int


@dataclass(frozen=True)
class Fitted:
    """The fit after a number of decisions."""

    vocabulary: Vocabulary
    posterior: Posterior
    raters: tuple[int, ...]
    decisions: int

    def predict(
        self, replies: Sequence[ReplyFeatures], rater: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and deviation of this rater's value of each reply.

        An unknown rater, or None, stands for the average of all.
        """
        table, unknown = self.vocabulary.matrix(replies)
        width = len(self.posterior.centre)
        # Raters' columns stay at their mean.
        rows = np.tile(self.posterior.centre, (len(replies), 1))
        rows[:, : table.shape[1]] = table[:, : width - len(self.raters)]
        if rater in self.raters:
            rows[:, width - len(self.raters) :] = [
                known_rater == rater for known_rater in self.raters
            ]
        return self.posterior.predict(rows, unknown)

    def coefficients(self) -> dict[str, object]:
        """Return the weights by the name of their feature, rounded, to be stored and shown."""
        words: dict[str, float] = {}
        weights = self.posterior.weights
        for word, place in self.vocabulary.columns.items():
            if len(NUMBERS) + place < len(weights) - len(self.raters):
                words[word] = round(float(weights[len(NUMBERS) + place]), 5)
        offsets = weights[len(weights) - len(self.raters) :]
        centre = self.posterior.centre[: len(weights) - len(self.raters)]
        return {
            "base": round(float(self.posterior.intercept - centre @ weights[: len(centre)]), 6),
            "numbers": {name: round(float(weights[n]), 5) for n, name in enumerate(NUMBERS)},
            "words": words,
            "raters": {
                str(rater): round(float(offset), 5)
                for rater, offset in zip(self.raters, offsets, strict=True)
            },
            "noise": round(self.posterior.noise, 6),
            "prior": round(self.posterior.prior, 3),
        }


def means_from(coefficients: Mapping[str, Any], replies: Sequence[ReplyFeatures]) -> list[float]:
    """Return a stored fit's prediction of each reply; its uncertainty is not stored.

    Words that shared columns share weights.
    """
    words = coefficients["words"]
    numbers = [coefficients["numbers"][name] for name in NUMBERS]
    return [
        coefficients["base"]
        + sum(weight * number for weight, number in zip(numbers, reply.numbers, strict=True))
        + sum(words.get(word, 0.0) for word in reply.words)
        for reply in replies
    ]


@dataclass
class Learner:
    """A growing set of decisions.

    `fit` is deterministic for the same decisions in the same order.
    """

    vocabulary: Vocabulary = field(default_factory=Vocabulary)
    values: list[ValuedReply] = field(default_factory=list)
    comparisons: list[ComparedReplies] = field(default_factory=list)

    @property
    def decisions(self) -> int:
        return len(self.values) + len(self.comparisons)

    def learn(self, decision: ValuedReply | ComparedReplies) -> None:
        if isinstance(decision, ValuedReply):
            self.values.append(decision)
            self.vocabulary.meet(decision.reply.words)
        else:
            self.comparisons.append(decision)
            for reply in decision.replies:
                self.vocabulary.meet(reply.words)

    def fit(self) -> Fitted:
        raters = tuple(sorted({valued.rater for valued in self.values}))
        table, orders = self._table(raters)
        values = np.array([valued.value for valued in self.values])
        rater_indexes = np.array([raters.index(valued.rater) for valued in self.values], dtype=int)
        care = np.ones(len(values))
        posterior = fit_posterior(Decisions(table, values, orders, care))
        for _ in range(CARE_ROUNDS if len(raters) > 1 else 0):
            care = _care(
                values - posterior.predict(table[: len(values)])[0], rater_indexes, len(raters)
            )
            posterior = fit_posterior(Decisions(table, values, orders, care))
        return Fitted(self.vocabulary, posterior, raters, self.decisions)

    def _table(self, raters: tuple[int, ...]) -> tuple[np.ndarray, list[Order]]:
        """Return rows of the valued replies, then of the compared ones, and the orders among them.

        There is a column for each rater.
        """
        replies = [valued.reply for valued in self.values] + [
            reply for c in self.comparisons for reply in c.replies
        ]
        table, _ = self.vocabulary.matrix(replies)
        offsets = np.zeros((len(replies), len(raters)))
        for n, valued in enumerate(self.values):
            offsets[n, raters.index(valued.rater)] = 1.0
        orders = []
        start = len(self.values)
        for compared in self.comparisons:
            orders += [
                Order(start + o.better, tuple(start + w for w in o.worse), o.weight)
                for o in compared.orders
            ]
            start += len(compared.replies)
        return np.hstack([table, offsets]), orders


def _care(missed: np.ndarray, rater_indexes: np.ndarray, raters: int) -> np.ndarray:
    """Return the weight of each decision: its rater's precision relative to the common one.

    The weight is shrunk towards 1 as long as little is known about the rater.
    """
    common = float((missed**2).mean()) + 1e-6
    sums = np.bincount(rater_indexes, missed**2, minlength=raters)
    counts = np.bincount(rater_indexes, minlength=raters)
    variance = (sums + CARE_COUNTS * common) / (counts + CARE_COUNTS)
    weights = (common / variance)[rater_indexes]
    return weights * len(weights) / weights.sum()
