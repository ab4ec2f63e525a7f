"""Scorers: pure functions from what was said to a verdict, found by name.

`score(prompt, completion_text, answer) -> Verdict`, where `prompt` is the list of chat messages and
`answer` the task's. Those in `DIALOGUES` take `turns`, the policy's turns one by one, as well.
Model output is hostile: a scorer never raises on it, whatever it is.
"""

import difflib
from collections.abc import Callable, Sequence
from typing import Any

from apps.rewards.scorers import arithmetic, sort, tone, tone_dialogue
from apps.rewards.scorers.verdict import Verdict

__all__ = ["DIALOGUES", "SCORERS", "Score", "Verdict", "find", "judge"]

Score = Callable[..., Verdict]

SCORERS: dict[str, Score] = {
    "arithmetic": arithmetic.score,
    "sort": sort.score,
    "tone": tone.score,
    "tone_dialogue": tone_dialogue.score,
}
DIALOGUES = frozenset({"tone_dialogue"})


def find(name: str) -> Score:
    """The scorer of that name; raises LookupError naming the nearest one."""
    if name in SCORERS:
        return SCORERS[name]
    near = difflib.get_close_matches(name, SCORERS, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(SCORERS)}"
    raise LookupError(f"no scorer {name!r}; {hint}")


def judge(name: str, prompt: list[dict[str, str]], turns: Sequence[str], text: str, answer: dict[str, Any]) -> Verdict:
    """The verdict of the scorer of that name on a rollout of these turns of the policy and this whole text."""
    score = find(name)
    return score(prompt, text, answer, turns) if name in DIALOGUES else score(prompt, text, answer)
