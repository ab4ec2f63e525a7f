"""Hold the scorers: each a module, found by its name, that gives verdicts.

Ours are the modules of this package; others' come from plugins (apps.plugins).

A module with a `score(rollout, task, options) -> Verdict` is a scorer; with `score_group(rollouts,
task, options) -> list[Verdict]` it judges the rollouts of a group together, after the others; with
`ask` and `read` it asks a language model (judge.py), and `OF_GROUP` says whether about whole
groups; with both it asks about what `score` left undecided (short_answer.py). Its docstring says
what it pays. It may set `Options` (typed options), `RANGE` of its values (0 to 1 unless told),
`VERSION` (1) and `SECONDS` (5) of processor time, and define `prepare(task)`, which loads large
libraries before that time is counted. docs/rewards.md shows how to add one. What several share is
kept outside of this package. Model output is hostile: a scorer never raises on it, whatever it is.
"""

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from types import ModuleType

from apps.plugins.guarded_calls import guarded
from apps.plugins.kinds import Kind
from apps.plugins.registry import REGISTRY
from apps.rewards.scorers.contract import RolloutView, Scorer, ScorerOptions, TaskView
from apps.rewards.scorers.plugins import require_usable_scorer
from apps.rewards.scorers.verdict import Verdict

__all__ = [
    "RolloutView",
    "Scorer",
    "ScorerOptions",
    "TaskView",
    "Verdict",
    "find_scorer",
    "read_scorer",
    "scorer_names",
]

ABOUT_SCORERS = ("contract", "plugins", "verdict")  # the package's modules that are none
SECONDS = 5.0
KIND = "scorer"


def scorer_names() -> tuple[str, ...]:
    """Return the names of all scorers, sorted: built-in ones, and plugins that can be used.

    No built-in one is imported: some load large libraries.
    """
    return REGISTRY.names(KIND)


def find_scorer(name: str) -> Scorer:
    """Return the scorer of that name; raises LookupError naming the nearest one."""
    return REGISTRY.find(KIND, name)


def read_scorer(module: ModuleType) -> Scorer:
    """Return the scorer that a module defines."""
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
        load=getattr(module, "prepare", None),
    )


def read_scorer_plugin(module: ModuleType, name: str) -> Scorer:
    """Return the scorer of somebody else's module. Raises Refused."""
    require_usable_scorer(module)
    scorer = read_scorer(module)
    return replace(scorer, name=name, call=guarded(scorer.call), is_plugin=True)


@cache
def built_in_scorers() -> Mapping[str, Callable[[], Scorer]]:
    """Return the scorers of this package by name, each with what loads it."""
    modules = (module.name for module in pkgutil.iter_modules(__path__))
    return {name: partial(_load, name) for name in modules if name not in ABOUT_SCORERS}


def _load(name: str) -> Scorer:
    return read_scorer(importlib.import_module(f"{__name__}.{name}"))


REGISTRY.register(
    Kind(
        name=KIND,
        group="rftweb.scorers",
        functions=("score", "score_group", "ask"),
        built_in=built_in_scorers,
        read=read_scorer_plugin,
        version=lambda scorer: scorer.version,
    )
)
