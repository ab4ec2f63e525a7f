"""Judges every reply of a support dialogue as the tone scorer does: each polite, about its own object, in proper sentences."""

from collections.abc import Sequence
from typing import Any

from apps.rewards.scorers import tone
from apps.rewards.scorers.verdict import Verdict


def score(
    prompt: list[dict[str, str]], completion_text: str, answer: dict[str, Any], turns: Sequence[str] | None = None
) -> Verdict:
    """Mean over the dialogue's replies, one for each of `answer["objects"]`; a reply that never came is worth 0.

    `turns`: the policy's replies; None where the text is the only one.
    """
    wanted = answer.get("objects")
    if not isinstance(wanted, list) or not wanted or not all(isinstance(name, str) for name in wanted):
        return Verdict(None, "the task does not say what the replies must be about")
    replies = [completion_text] if turns is None else list(turns)
    verdicts = [tone.score(prompt, reply, {"object": name}) for reply, name in zip(replies, wanted, strict=False)]
    missing = len(wanted) - len(verdicts)
    values = [*(verdict.value for verdict in verdicts), *[0.0] * missing]
    worst = f"it was cut before reply {len(verdicts) + 1}" if missing else _worst(verdicts)
    details = {"replies": [{"value": verdict.value, "reason": verdict.reason, **verdict.details} for verdict in verdicts]}
    return Verdict(round(sum(values) / len(values), 4), worst, details)


def _worst(verdicts: list[Verdict]) -> str:
    number, verdict = min(enumerate(verdicts, start=1), key=lambda pair: pair[1].value)
    return f"reply {number}: {verdict.reason}" if verdict.value < 1 else verdict.reason
