"""Rater models of plugins: their predictions in place of the ridge's.

The ridge is fitted in any case. It selects the replies to ask about, and predicts if the plugin
fails; the stored model then says why.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import structlog

from apps.feedback.rater_model.learner import ComparedReplies, Fitted, Learner, ValuedReply
from apps.feedback.rater_model.reading import ReplyFeatures
from apps.plugins.guarded_calls import guarded
from apps.plugins.kinds import RATER_MODEL
from apps.plugins.registry import REGISTRY
from apps.runs.people import RaterModel

log = structlog.get_logger(__name__)
PLUGIN = "plugin"  # the kind of such a model in a run's configuration
MAX_REASON_LENGTH = 300
Predict = Callable[[Sequence[ReplyFeatures]], Sequence[tuple[float, float]]]


@dataclass(frozen=True)
class FittedPlugin(Fitted):
    """The fit of a plugin beside the ridge's; `predictor` is None if the plugin failed."""

    plugin: str = ""
    version: int = 0
    predictor: Predict | None = None
    failed: str = ""

    def predict(
        self, replies: Sequence[ReplyFeatures], rater: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and deviation of each reply's value, by the plugin for all raters alike."""
        if self.predictor is None or not replies:
            return super().predict(replies, rater)
        try:
            table = _table_of(self.predictor(list(replies)), len(replies))
        except Exception as error:  # others' code
            log.warning("rater_model_failed", plugin=self.plugin, error=f"{error}")
            return super().predict(replies, rater)
        return table[:, 0], table[:, 1]

    def coefficients(self) -> dict[str, object]:
        description = {"name": self.plugin, "version": self.version, "failed": self.failed}
        return {**super().coefficients(), PLUGIN: description}


def fitted_for(section: RaterModel | None, learner: Learner) -> Fitted:
    """Return the fit of the run's rater model to the learner's decisions."""
    ridge = learner.fit()
    if section is None or section.kind != PLUGIN:
        return ridge
    ridge_values = {field.name: getattr(ridge, field.name) for field in fields(ridge)}
    decisions: tuple[ValuedReply | ComparedReplies, ...]
    decisions = (*learner.values, *learner.comparisons)
    try:
        part = REGISTRY.find(RATER_MODEL, section.plugin)
        predictor = guarded(part.call(decisions, part.read_options(section.options)))
        _table_of(predictor(_replies_in(decisions[:1])), len(_replies_in(decisions[:1])))
    except Exception as error:  # others' code, or a plugin that is gone
        why = f"{type(error).__name__}: {error}"[:MAX_REASON_LENGTH]
        log.warning("rater_model_failed", plugin=section.plugin, error=why)
        return FittedPlugin(**ridge_values, plugin=section.plugin, failed=why)
    return FittedPlugin(
        **ridge_values, plugin=section.plugin, version=part.version, predictor=predictor
    )


def _replies_in(decisions: Sequence[ValuedReply | ComparedReplies]) -> list[ReplyFeatures]:
    """Return the replies that the decisions are about."""
    replies: list[ReplyFeatures] = []
    for decision in decisions:
        replies += [decision.reply] if isinstance(decision, ValuedReply) else decision.replies
    return replies


def _table_of(predictions: Any, count: int) -> np.ndarray:
    """Return predictions as (count, 2): mean and deviation. Raises ValueError."""
    rows = [tuple(map(float, row)) for row in predictions]
    if len(rows) != count or any(len(row) != 2 for row in rows):
        raise ValueError(f"predictions must be {count} pairs of mean and deviation")
    is_finite = all(math.isfinite(number) for row in rows for number in row)
    if not is_finite or any(deviation < 0 for _, deviation in rows):
        raise ValueError("a mean or deviation is not a finite number, or a deviation is below 0")
    return np.array(rows, dtype=float).reshape(count, 2)
