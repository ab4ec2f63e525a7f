"""Evaluations: whose weights are asked, and what; such a run samples and judges, and trains nothing."""

import hashlib
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from apps.runs.algorithms.section import Positive, Section, Share
from apps.runs.scorer_choice import ScorerChoice

if TYPE_CHECKING:
    from apps.runs.config import RunConfig

MOST_SCHEDULES = 20
# What is of no use to a run that learns nothing and draws each task once.
LEARNING_FIELDS = (
    "tasksets", "groups_per_step", "max_staleness", "over_rollout", "sync_interval", "task_attempts", "selection", "serve",
    "length_penalty", "pipeline", "reading", "algorithm", "snapshot", "replay", "lora", "tower", "hacking", "optimizer",
    "checkpoints", "evaluations",
)  # fmt: skip
# What evaluations of one set may differ in and still be compared.
NOT_ASKED = {
    **dict.fromkeys(("policy", "steps", "seed", "engine", "precision", "group_attempts"), True),
    **dict.fromkeys(("retention", "alerts", "budget"), True),
    "sampling": {"slice_tokens", "older_segments"}, "evaluation": {"run", "version"},
}  # fmt: skip

Tasks = Annotated[int, Field(ge=1, le=10_000_000)]


class Evaluation(Section):
    """Each task of the taskset is asked once, in the order of the set, `group_size` times beside each other."""

    run: str = Field("", max_length=50, description="Slug of the run whose weights are evaluated; empty takes the policy's own.")
    version: int = Field(0, ge=0, description="The weight version of that run.")
    tasks: Tasks | None = Field(None, description="The first so many tasks of the set; empty takes all.")
    right_from: Share = Field(1.0, description="An answer is right from this share of the full reward: what pass@k counts.")


class Asked(Section):
    """What a version is asked: two evaluations that ask the same can be compared."""

    taskset: str = Field(max_length=50, description="Slug of the taskset whose tasks are asked, each once.")
    samples: int = Field(4, ge=1, le=1024, description="Answers to each task. pass@k is told for k up to this.")
    tasks: Tasks | None = Field(None, description="The first so many tasks of the set; empty takes all.")
    temperature: Positive | None = Field(None, le=5, description="Softmax temperature; empty takes the run's.")
    max_tokens: int | None = Field(None, ge=1, le=131_072, description="Longest answer, in tokens; empty takes the run's.")
    rewards: tuple[ScorerChoice, ...] = Field((), description="Machine scorers and their weights; empty takes the run's.")
    right_from: Share = Field(1.0, description="An answer is right from this share of the full reward: what pass@k counts.")
    people: int = Field(0, ge=0, le=1024, description="Answers to each task that wait for a person; 0 asks nobody.")


class Scheduled(Asked):
    """Version 0 is evaluated too: what a run makes better, or worse, is seen from there."""

    every: int = Field(1, ge=1, le=1_000_000, description="Evaluates one in so many versions, or one after so many updates.")
    unit: Literal["versions", "steps"] = Field("versions", description="What `every` counts: published versions, or updates.")

    @property
    def key(self) -> str:
        """Names it by what it says: its place changes when another one is taken away."""
        return _digest(self.model_dump(mode="json"))

    @property
    def asked(self) -> Asked:
        return Asked(**self.model_dump(exclude={"every", "unit"}))

    def is_due(self, version: int, step: int, step_before: int) -> bool:
        """Whether a version is evaluated: of this update, the one published before it being of `step_before`."""
        if not version:
            return True
        return step // self.every > step_before // self.every if self.unit == "steps" else version % self.every == 0


def set_of(plan: "RunConfig") -> str:
    """The same for all evaluations that ask the same, whatever weights; fields with their defaults count as not there."""
    told = plan.model_dump(mode="json", exclude_defaults=True, exclude=NOT_ASKED)
    return _digest(told)


def _digest(told: dict) -> str:
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]


def refusals_of_evaluation(plan: "RunConfig") -> Iterator[tuple[str, str]]:
    """Knobs that mean nothing to an evaluation, each by field with what to change."""
    if plan.steps:
        yield "steps", f"is {plan.steps}, and an evaluation makes no update: set it to 0"
    if plan.evaluation.version and not plan.evaluation.run:
        yield "evaluation.version", f"is {plan.evaluation.version}: name the run that has it under `evaluation.run`"
    for name in LEARNING_FIELDS:
        if getattr(plan, name) != type(plan).model_fields[name].get_default():
            yield name, "means nothing to an evaluation, which learns nothing and draws each task once: remove it"
    for name in ("rater_model", "schedule"):
        if getattr(plan.people, name) is not None:
            yield f"people.{name}", "is for runs that learn: an evaluation asks people about every group, or nobody; remove it"
