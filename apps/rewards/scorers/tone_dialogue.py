"""Scores each reply of a support dialogue with the tone scorer.

Each should be polite, about its own object, and in proper sentences.
"""

from apps.rewards.scorers import tone
from apps.rewards.scorers.contract import RolloutView, ScorerOptions, TaskView
from apps.rewards.scorers.verdict import Verdict


def score(rollout: RolloutView, task: TaskView, options: ScorerOptions) -> Verdict:
    """Return the mean over the dialogue's replies, one for each of `answer["objects"]`.

    A reply that never came is worth 0.
    """
    expected = task.answer.get("objects")
    if (
        not isinstance(expected, list)
        or not expected
        or not all(isinstance(name, str) for name in expected)
    ):
        return Verdict(None, "the task does not name the topic")
    verdicts = [
        tone.judge_tone(reply, name) for reply, name in zip(rollout.replies, expected, strict=False)
    ]
    missing = len(expected) - len(verdicts)
    values = [*(_value(verdict) for verdict in verdicts), *[0.0] * missing]
    worst = f"truncated before reply {len(verdicts) + 1}" if missing else _worst(verdicts)
    details = {
        "replies": [
            {"value": verdict.value, "reason": verdict.reason, **verdict.details}
            for verdict in verdicts
        ]
    }
    return Verdict(round(sum(values) / len(values), 4), worst, details)


def _worst(verdicts: list[Verdict]) -> str:
    number, verdict = min(enumerate(verdicts, start=1), key=lambda pair: _value(pair[1]))
    return f"reply {number}: {verdict.reason}" if _value(verdict) < 1 else verdict.reason


def _value(verdict: Verdict) -> float:
    """Return the value, which every reply gets."""
    assert verdict.value is not None
    return verdict.value
