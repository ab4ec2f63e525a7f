"""Answers in letters of other scripts than those asked for."""

from collections.abc import Sequence

from pydantic import Field

from apps.pipelines.operators.contract import GROUPS, TASKS, OperatorOptions, Sample, Sifted, sift
from apps.rewards.scorers import RolloutView, TaskView
from apps.rewards.scorers.language import Options as Scripts
from apps.rewards.scorers.language import score

FAMILY = "clean"
STAGES = (GROUPS, TASKS)


class Options(OperatorOptions):
    scripts: tuple[str, ...] = Field(("latin",), min_length=1, description="Of Unicode: latin, cyrillic, cjk, arabic, …")
    at_least: float = Field(0.9, ge=0, le=1, description="Least share of its letters that must be of them.")


def apply(samples: Sequence[Sample], options: Options) -> Sifted:
    """The share is what the scorer `language` pays."""
    scripts = Scripts(scripts=options.scripts)
    return sift(samples, lambda sample: _why_not(sample, scripts, options.at_least))


def _why_not(sample: Sample, scripts: Scripts, at_least: float) -> str:
    said = score(RolloutView(sample.text), TaskView(), scripts)
    return said.reason if said.value < at_least else ""
