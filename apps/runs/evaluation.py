"""Configuration of evaluations, which sample and judge but train nothing."""

import hashlib
import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field
from pydantic.main import IncEx

from apps.runs.algorithms.section import Positive, Section, Share
from apps.runs.scorer_choice import ScorerChoice

MAX_SCHEDULES = 20
# What evaluations of one set may differ in and still be compared.
NOT_ASKED: dict[str, IncEx | bool] = {
    **dict.fromkeys(
        ("policy", "steps", "seed", "engine", "precision", "vllm", "group_attempts"), True
    ),
    **dict.fromkeys(("retention", "alerts", "budget"), True),
    "sampling": {"slice_tokens", "older_segments"},
    "evaluation": {"run", "version"},
}

Tasks = Annotated[int, Field(ge=1, le=10_000_000)]


class Evaluation(Section):
    """Asks each task of the taskset once, in the order of the set, and samples `group_size` replies
    to it.
    """

    run: str = Field(
        "",
        max_length=50,
        description=(
            "Name of the run whose weights are evaluated. If empty, the policy's own weights."
        ),
    )
    version: int = Field(0, ge=0, description="Weight version of that run.")
    tasks: Tasks | None = Field(
        None, description="Number of tasks, from the start of the set. If empty, all tasks."
    )
    correct_threshold: Share = Field(
        1.0,
        description="Share of the full reward from which a reply counts as correct for pass@k.",
    )


class Questions(Section):
    """Questions of an evaluation: two evaluations with the same section can be compared."""

    taskset: str = Field(
        max_length=50, description="Name of the taskset whose tasks are asked once each."
    )
    samples: int = Field(
        4,
        ge=1,
        le=1024,
        description="Number of replies to each task. pass@k is reported for k up to this.",
    )
    tasks: Tasks | None = Field(
        None, description="Number of tasks, from the start of the set. If empty, all tasks."
    )
    temperature: Positive | None = Field(
        None, le=5, description="Softmax temperature. If empty, the run's."
    )
    max_tokens: int | None = Field(
        None,
        ge=1,
        le=131_072,
        description="Maximum length of a reply, in tokens. If empty, the run's.",
    )
    rewards: tuple[ScorerChoice, ...] = Field(
        (), description="Machine scorers and their weights. If empty, the run's."
    )
    correct_threshold: Share = Field(
        1.0,
        description="Share of the full reward from which a reply counts as correct for pass@k.",
    )
    people: int = Field(
        0,
        ge=0,
        le=1024,
        description="Number of replies to each task that wait for a person. 0 asks nobody.",
    )


class Scheduled(Questions):
    """Version 0 is evaluated too, so that you can see whether training improves it."""

    every: int = Field(
        1,
        ge=1,
        le=1_000_000,
        description="Evaluate every nth version, or one version every n steps.",
    )
    unit: Literal["versions", "steps"] = Field(
        "versions", description="What `every` counts: published versions or steps."
    )

    @property
    def key(self) -> str:
        """Return a digest of the section as its name: its place in the list may change."""
        return _digest(self.model_dump(mode="json"))

    @property
    def questions(self) -> Questions:
        return Questions(**self.model_dump(exclude={"every", "unit"}))

    def is_due(self, version: int, step: int, step_before: int) -> bool:
        """Tell whether a version of this step is evaluated.

        `step_before`: the step of the version before it.
        """
        if not version:
            return True
        return (
            step // self.every > step_before // self.every
            if self.unit == "steps"
            else version % self.every == 0
        )


def evaluation_key(plan: BaseModel) -> str:
    """Return a digest that is equal for evaluations with the same questions, of any weights.

    Fields with their defaults are ignored.
    """
    document = plan.model_dump(mode="json", exclude_defaults=True, exclude=NOT_ASKED)
    return _digest(document)


def _digest(document: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()[:16]
