"""Scorers: pure functions from what was said to a verdict, each a module of this package, found by its name.

A module with a `score(rollout, task, options) -> Verdict` is a scorer; with `score_group(rollouts, task, options) ->
list[Verdict]` it judges the rollouts of a group together, after the others; with `ask` and `read` it asks a language model
(judge.py), and `OF_GROUP` says whether about whole groups; with both it asks about what `score` left undecided (short_answer.py).
Its docstring says what it pays. It may set `Options` (typed options), `RANGE` of its values (0 to 1 unless told), `VERSION` (1) and
`SECONDS` (5). docs/rewards.md shows how to add one. What several share is kept outside of this package. Model output is hostile: a
scorer never raises on it, whatever it is.
"""

import difflib
import importlib
import pkgutil
from functools import cache
from types import ModuleType

from apps.rewards.scorers.contract import RolloutView, Scorer, ScorerOptions, TaskView
from apps.rewards.scorers.verdict import Verdict

__all__ = ["RolloutView", "Scorer", "ScorerOptions", "TaskView", "Verdict", "find", "names", "read"]

ABOUT_SCORERS = ("contract", "verdict")  # the package's modules that are none
SECONDS = 5.0


@cache
def names() -> tuple[str, ...]:
    """Of all scorers, in order of the alphabet. Imports none of them: some load large libraries."""
    return tuple(module.name for module in pkgutil.iter_modules(__path__) if module.name not in ABOUT_SCORERS)


@cache
def find(name: str) -> Scorer:
    """The scorer of that name; raises LookupError naming the nearest one."""
    if name in names():
        return read(importlib.import_module(f"{__name__}.{name}"))
    near = difflib.get_close_matches(name, names(), n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(names())}"
    raise LookupError(f"no scorer {name!r}; {hint}")


def read(module: ModuleType) -> Scorer:
    """What this module says of itself."""
    low, high = getattr(module, "RANGE", (0.0, 1.0))
    return Scorer(
        name=module.__name__.rpartition(".")[2],
        summary=(module.__doc__ or "").strip().splitlines()[0],
        call=getattr(module, "score", None) or getattr(module, "score_group", None),
        options=getattr(module, "Options", ScorerOptions),
        low=low,
        high=high,
        version=getattr(module, "VERSION", 1),
        seconds=getattr(module, "SECONDS", SECONDS),
        of_group=hasattr(module, "score_group") or getattr(module, "OF_GROUP", False),
        asks=hasattr(module, "ask"),
        ask=getattr(module, "ask", None),
        read=getattr(module, "read", None),
    )
