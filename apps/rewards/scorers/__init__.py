"""Scorers: pure functions from what was said to a verdict, found by name.

`score(prompt, completion_text, answer) -> Verdict`, where `prompt` is the list of chat messages and
`answer` the task's. Model output is hostile: a scorer never raises on it, whatever it is.
"""

import difflib
from collections.abc import Callable
from typing import Any

from apps.rewards.scorers import arithmetic, sort, tone
from apps.rewards.scorers.verdict import Verdict

__all__ = ["SCORERS", "Score", "Verdict", "find"]

Score = Callable[[list[dict[str, str]], str, dict[str, Any]], Verdict]

SCORERS: dict[str, Score] = {
    "arithmetic": arithmetic.score,
    "sort": sort.score,
    "tone": tone.score,
}


def find(name: str) -> Score:
    """The scorer of that name; raises LookupError naming the nearest one."""
    if name in SCORERS:
        return SCORERS[name]
    near = difflib.get_close_matches(name, SCORERS, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(SCORERS)}"
    raise LookupError(f"no scorer {name!r}; {hint}")
