"""Filters replies with letters of scripts other than the expected ones."""

from collections.abc import Sequence

from pydantic import Field, field_validator

from apps.pipelines.operators.contract import GROUPS, TASKS, OperatorOptions, Sample, Sifted, sift
from apps.rewards.scorers import RolloutView, TaskView
from apps.rewards.scorers.language import Options as Scripts
from apps.rewards.scorers.language import require_scripts, score

FAMILY = "clean"
STAGES = (GROUPS, TASKS)


class Options(OperatorOptions):
    scripts: tuple[str, ...] = Field(
        ("latin",), min_length=1, description="Unicode scripts: latin, cyrillic, cjk, arabic, …"
    )
    min_share: float = Field(
        0.9, ge=0, le=1, description="Minimum share of the letters in these scripts."
    )

    @field_validator("scripts")
    @classmethod
    def require_known(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        return require_scripts(names)


def apply(samples: Sequence[Sample], options: Options) -> Sifted:
    """Drop answers with too small a share of the wanted scripts.

    The share is the value of the scorer `language`.
    """
    scripts = Scripts(scripts=options.scripts)
    return sift(samples, lambda sample: _why_not(sample, scripts, options.min_share))


def _why_not(sample: Sample, scripts: Scripts, min_share: float) -> str:
    verdict = score(RolloutView(sample.text), TaskView(), scripts)
    return verdict.reason if verdict.value is not None and verdict.value < min_share else ""
