"""Rewards short replies and penalizes long ones within a group (length reward of Kimi k1.5).

A wrong answer gains nothing by being short.
"""

from collections.abc import Sequence

from pydantic import Field

from apps.rewards.length import length_rewards
from apps.rewards.scorers.contract import RolloutView, ScorerOptions, TaskView
from apps.rewards.scorers.verdict import Verdict

RANGE = (-0.5, 0.5)


class Options(ScorerOptions):
    correctness_scorer: str = Field(
        "",
        description=(
            "Scorer of the run that determines which answers are correct. If empty, all "
            "other scorers."
        ),
    )
    correct_threshold: float = Field(
        1.0, allow_inf_nan=False, description="Lowest reward of a correct answer."
    )


def score_group(rollouts: Sequence[RolloutView], task: TaskView, options: Options) -> list[Verdict]:
    """Return the length rewards of Kimi k1.5, section 2.3.3, over the group's lengths in tokens.

    They are NULL if a length, or which answers are right, is not known.
    """
    lengths = [rollout.tokens for rollout in rollouts if rollout.tokens is not None]
    if len(lengths) < len(rollouts):
        return [Verdict(None, "the lengths of the group's answers are unknown")] * len(rollouts)
    judged = [_is_right(rollout, options) for rollout in rollouts]
    right = [is_right for is_right in judged if is_right is not None]
    if len(right) < len(judged):
        by = options.correctness_scorer or "the other scorers"
        return [Verdict(None, f"{by} did not score all answers of the group")] * len(rollouts)
    values = length_rewards(lengths, right)
    return [_length_verdict(*parts) for parts in zip(values, rollouts, right, strict=True)]


def _is_right(rollout: RolloutView, options: Options) -> bool | None:
    values = (
        [rollout.values.get(options.correctness_scorer)]
        if options.correctness_scorer
        else list(rollout.values.values())
    )
    known_values = [value for value in values if value is not None]
    if not known_values or len(known_values) < len(values):
        return None
    return all(value >= options.correct_threshold for value in known_values)


def _length_verdict(value: float, rollout: RolloutView, right: bool) -> Verdict:
    what = "a right answer" if right else "a wrong answer"
    return Verdict(
        value,
        f"{what} with {rollout.tokens} tokens, compared with its group",
        {"tokens": rollout.tokens, "right": right},
    )
