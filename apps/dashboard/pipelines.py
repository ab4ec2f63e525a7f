"""What the page of a run's pipeline shows: its text, what it did so far, the newest that it left out, and all operators."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from apps.buffer.models import StepItem
from apps.pipelines.checking import problems_of
from apps.pipelines.models import CutRollout, OperatorCount
from apps.pipelines.operators import FAMILIES, Operator, find, names
from apps.pipelines.operators.describing import Option, options_of
from apps.rollouts.models import LeftOut
from apps.runs.changing import changed
from apps.runs.config import ConfigError, as_yaml, loaded
from apps.runs.models import Run
from apps.runs.pipeline import OperatorChoice

NEWEST = 10
FAMILY_WORDS = {"clean": "Clean", "filter": "Filter", "shape": "Shape", "synthesize": "Synthesize"}


@dataclass(frozen=True)
class PipelineForm:
    """The pipeline as text, and read. `pipeline` None: see `problems`, by field."""

    text: str
    seen: str
    pipeline: tuple[OperatorChoice, ...] | None
    problems: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Station:
    """One operator of the pipeline as it is, with what it was given and kept so far, and how many rows it made."""

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


def form_of(run: Run) -> PipelineForm:
    plan = run.settings
    written = [_short(choice) for choice in plan.pipeline]
    return PipelineForm(as_yaml(written) if written else "", digest_of(run), plan.pipeline)


def read(run: Run, text: str, seen: str) -> PipelineForm:
    """The text judged as the run would judge it; nothing is written."""
    try:
        said = loaded(text)
        if not isinstance(said, list | None):
            raise ConfigError({"pipeline": "must be a list: each operator begins with `- operator:`"})
        plan = changed(run.settings, {"pipeline": said or []}, has_begun=run.state != Run.State.CREATED)
    except ConfigError as error:
        return PipelineForm(text, seen, None, error.problems)
    if problems := problems_of(plan, run.project):
        return PipelineForm(text, seen, None, problems)
    return PipelineForm(text, seen, plan.pipeline)


def digest_of(run: Run) -> str:
    """Names the pipeline as it stands, so that a text written before somebody else's change is noticed."""
    return hashlib.sha256(json.dumps(run.config.get("pipeline", []), sort_keys=True).encode()).hexdigest()[:16]


def stations_of(run: Run) -> list[Station]:
    counts = {(one.place, one.operator): one for one in OperatorCount.objects.filter(run=run)}
    found = []
    for place, choice in enumerate(run.settings.pipeline):
        count = counts.get((place, choice.operator), OperatorCount())
        told = (_stage_of(choice), choice.operator, _options_in_words(choice.options))
        found.append(Station(place + 1, *told, count.given, count.kept, count.made))
    return found


def _stage_of(choice: OperatorChoice) -> str:
    """The one that was said; of an operator that is not there any more nothing is known."""
    try:
        return choice.stage or find(choice.operator).stages[0]
    except LookupError:
        return ""


def newest_cuts(run: Run) -> list[CutRollout]:
    return list(CutRollout.objects.filter(run=run).select_related("rollout").order_by("-pk")[:NEWEST])


def newest_of_updates(run: Run) -> list[StepItem]:
    """Rows that operators left out of the loss of updates."""
    items = StepItem.objects.filter(step__run=run).exclude(left_out="").select_related("step", "experience__rollout")
    return list(items.order_by("-pk")[:NEWEST])


def newest_tasks(run: Run) -> list[LeftOut]:
    """Tasks that the run draws no more, whoever left them out."""
    return list(run.left_out.select_related("task__taskset__project", "by").order_by("-pk")[:NEWEST])


def catalogue() -> list[tuple[str, list[tuple[Operator, list[Option]]]]]:
    """All operators with their options, by family."""
    found = [find(name) for name in names()]
    return [(FAMILY_WORDS[family], [(one, options_of(one)) for one in found if one.family == family]) for family in FAMILIES]


def _short(choice: OperatorChoice) -> dict[str, Any]:
    """As a person would write it."""
    return {name: value for name, value in choice.model_dump(mode="json").items() if value not in (None, {})}


def _options_in_words(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {json.dumps(value, ensure_ascii=False)}" for name, value in options.items())
