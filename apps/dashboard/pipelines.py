"""Content of a run's pipeline page: its text, counts, newest removals, and all operators."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from apps.buffer.models import StepItem
from apps.pipelines.checking import find_pipeline_problems
from apps.pipelines.models import CutRollout, OperatorCount
from apps.pipelines.operators import FAMILIES, Operator, find_operator, operator_names
from apps.pipelines.operators.describing import Option, list_operator_options
from apps.rollouts.excluded_tasks import LeftOut, quarantined
from apps.runs.changing import changed
from apps.runs.config import ConfigError
from apps.runs.models import Run
from apps.runs.parsing import as_yaml, load_yaml
from apps.runs.pipeline import OperatorChoice

NEWEST = 10
FAMILY_WORDS = {"clean": "Clean", "filter": "Filter", "shape": "Shape", "synthesize": "Synthesize"}


@dataclass(frozen=True)
class PipelineForm:
    """The pipeline as text and parsed; `pipeline` is None if there are `problems` by field."""

    text: str
    seen: str
    pipeline: tuple[OperatorChoice, ...] | None
    problems: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class PipelineStage:
    """One operator of the pipeline, with the rows it got, kept and made so far."""

    number: int
    stage: str
    operator: str
    options: str
    given: int
    kept: int
    made: int

    @property
    def left_out(self) -> int:
        return self.given - self.kept


@dataclass(frozen=True)
class Quarantine:
    """The newest quarantined tasks, their count, and the failures that lead there."""

    newest: Sequence[LeftOut]
    count: int
    attempts: int


def load_pipeline_form(run: Run) -> PipelineForm:
    plan = run.settings
    written = [_short(choice) for choice in plan.pipeline]
    return PipelineForm(as_yaml(written) if written else "", digest_pipeline(run), plan.pipeline)


def read_pipeline_form(run: Run, text: str, seen_digest: str) -> PipelineForm:
    """Return the posted text, validated as the run would; nothing is written."""
    try:
        data = load_yaml(text)
        if not isinstance(data, list | None):
            raise ConfigError(
                {"pipeline": "must be a list: each operator begins with `- operator:`"}
            )
        plan = changed(
            run.settings, {"pipeline": data or []}, has_begun=run.state != Run.State.CREATED
        )
    except ConfigError as error:
        return PipelineForm(text, seen_digest, None, error.problems)
    if problems := find_pipeline_problems(plan, run.project):
        return PipelineForm(text, seen_digest, None, problems)
    return PipelineForm(text, seen_digest, plan.pipeline)


def digest_pipeline(run: Run) -> str:
    """Return a digest of the present pipeline, to notice a change since the text was opened."""
    return hashlib.sha256(
        json.dumps(run.config.get("pipeline", []), sort_keys=True).encode()
    ).hexdigest()[:16]


def list_pipeline_stages(run: Run) -> list[PipelineStage]:
    counts = {(row.place, row.operator): row for row in OperatorCount.objects.filter(run=run)}
    stages = []
    for place, choice in enumerate(run.settings.pipeline):
        count = counts.get((place, choice.operator), OperatorCount())
        description = (_stage_of(choice), choice.operator, _options_in_words(choice.options))
        stages.append(PipelineStage(place + 1, *description, count.given, count.kept, count.made))
    return stages


def _stage_of(choice: OperatorChoice) -> str:
    """Return the stage in the choice, else the operator's own; "" for an unknown operator."""
    try:
        return choice.stage or find_operator(choice.operator).stages[0]
    except LookupError:
        return ""


def newest_cuts(run: Run) -> list[CutRollout]:
    return list(
        CutRollout.objects.filter(run=run).select_related("rollout").order_by("-pk")[:NEWEST]
    )


def load_quarantine(run: Run) -> Quarantine:
    excluded = quarantined(run)
    return Quarantine(list(excluded[:NEWEST]), excluded.count(), run.settings.task_attempts)


def newest_of_updates(run: Run) -> list[StepItem]:
    """Return rows that operators left out of the loss of steps, the newest."""
    items = (
        StepItem.objects.filter(step__run=run)
        .exclude(left_out="")
        .select_related("step", "experience__rollout")
    )
    return list(items.order_by("-pk")[:NEWEST])


def newest_tasks(run: Run) -> list[LeftOut]:
    """Return tasks that the run no longer samples, except those in quarantine.

    See `load_quarantine` for these.
    """
    return list(
        run.left_out.filter(failures=0)
        .select_related("task__taskset__project", "by")
        .order_by("-pk")[:NEWEST]
    )


def catalogue() -> list[tuple[str, list[tuple[Operator, list[Option]]]]]:
    """Return all operators with their options, by family."""
    operators = [find_operator(name) for name in operator_names()]
    return [
        (
            FAMILY_WORDS[family],
            [
                (operator, list_operator_options(operator))
                for operator in operators
                if operator.family == family
            ],
        )
        for family in FAMILIES
    ]


def _short(choice: OperatorChoice) -> dict[str, Any]:
    """Return an operator's choice without defaults, as a person would write it."""
    return {
        name: value
        for name, value in choice.model_dump(mode="json").items()
        if value not in (None, {})
    }


def _options_in_words(options: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name} {json.dumps(value, ensure_ascii=False)}" for name, value in options.items()
    )
