"""Contract of all operators of this package: their inputs and outputs (docs/pipelines.md)."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import BaseModel, ConfigDict

from apps.plugins.contract import validated
from apps.runs.config import RunConfig
from apps.runs.pipeline import Stage
from apps.tasksets.overlap import Pair
from apps.tasksets.rows import TaskRow

TASKS: Final = "tasks"
GROUPS: Final = "groups"
EXPERIENCES: Final = "experiences"
BATCH: Final = "batch"
FAMILIES = ("clean", "filter", "shape", "synthesize")


class OperatorOptions(BaseModel):
    """Typed options of an operator; a subclass named `Options` in its module has the fields, each
    with its default and reason.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")


@dataclass(frozen=True)
class GroupMetrics:
    """Judged group before any operator: domain, mean tokens, and mean success from 0 to 1."""

    domain: str
    tokens: float
    success: float


@dataclass(frozen=True)
class Recent:
    """Numbers of a group, and those of groups decided before it, the newest first."""

    own: GroupMetrics
    before: tuple[GroupMetrics, ...]


@dataclass(frozen=True)
class Imitated:
    """Task, and the policy's answers to it that are expert rows already, by number from 1."""

    task: int
    answers: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Action:
    """Turn of the policy in an environment: its end in tokens, and its reward if known."""

    end: int
    reward: float | None


@dataclass(frozen=True)
class Filtered:
    """Result of a filter of the data-juicer package for a text.

    `stats`: its statistics, by name; `failed`: why there is no result.
    """

    is_kept: bool = False
    stats: Mapping[str, float] = field(default_factory=dict)
    failed: str = ""


@dataclass(frozen=True)
class Sample:
    """Judged rollout, and what operators may know of it.

    On tasks it is a task that nobody has answered: `text` and `prompt` are what the user says,
    `domain` and `meta` its own, `rollout` and `group` its number, and nothing else is known of it
    but what an operator asks for.

    `reward`: what it is compared by; an operator that shapes changes it. `full`: what it would be,
    were everything right. `by_scorer`: what machines said; `by_people`: what people say together,
    None where nobody was heard. `age`: published versions since the oldest that sampled a token of
    it. `advantage`: None before the stage of experiences. `silent`: why nothing is learned from it
    though it counts in the baseline of its group; "" for all others. `is_dialogue`: users spoke
    between its turns, so that its text is no answer to its prompt alone.

    What follows is looked up for operators that name it in `ASKS`. `also_in`: by the name of an
    evaluation set, the task of it of which this one's prompt says most, None where it says nothing
    of any; a set that cannot be read is not among them. `guessed`: how often its task was right
    without thinking, of how many tries; None where nobody tried. `recent`: its group and those
    before it, in metrics. `imitated`: the answers to its task that are expert rows already.
    `reached`: by rollout of its group, the task that asks for what a wrong answer has reached.
    `acted`: by rollout of its group, its actions in order. `scales`: of a task, its numbers on its
    set's scales of difficulty. `filtered`: by filter of data-juicer and by text, what it says.
    """

    rollout: int
    group: int
    text: str
    reward: float
    full: float = 1.0
    by_scorer: Mapping[str, float | None] = field(default_factory=dict)
    by_people: float | None = None
    tokens: int = 0
    stop_reason: str = ""
    age: int = 0
    domain: str = ""
    prompt: str = ""
    meta: Mapping[str, Any] = field(default_factory=dict)
    advantage: float | None = None
    silent: str = ""
    is_dialogue: bool = False
    also_in: Mapping[str, Pair | None] = field(default_factory=dict)
    guessed: tuple[int, int] | None = None
    recent: Recent | None = None
    imitated: Imitated | None = None
    reached: Mapping[int, TaskRow] = field(default_factory=dict)
    acted: Mapping[int, Sequence[Action]] = field(default_factory=dict)
    scales: Mapping[str, float] = field(default_factory=dict)
    filtered: Mapping[str, Mapping[str, Filtered]] = field(default_factory=dict)

    @property
    def known_advantage(self) -> float:
        """Return the advantage; every sample has one from the stage of experiences on."""
        assert self.advantage is not None
        return self.advantage


@dataclass(frozen=True)
class Made:
    """Row that an operator makes of samples, its parents.

    An expert row of one, `number`: which of its task's it is (`Imitated`). Or a pair: `of` is
    better than `over`, by `margin`. Or a rollout of its own, for the expert loss: all of the parent
    as an answer to another `task`, or its first `tokens`.
    """

    of: Sample
    reason: str
    number: int = 0
    over: Sample | None = None
    margin: float | None = None
    task: TaskRow | None = None
    tokens: int | None = None

    @property
    def stands_apart(self) -> bool:
        """Tell whether the row is outside of its parent's group.

        Such a row may come from an answer that is itself not learned from.
        """
        return self.task is not None or self.tokens is not None


@dataclass(frozen=True)
class Sifted:
    """Result of an operator: the samples it keeps, in input order, and why others were dropped.

    `reasons` is by rollout. `made`: rows that it adds; none comes of a sample that is finally not
    learned from.
    """

    kept: list[Sample]
    reasons: Mapping[int, str] = field(default_factory=dict)
    made: Sequence[Made] = ()


@dataclass(frozen=True)
class Operator:
    """Operator that a module defines.

    `stages`: where it may stand, its own first; `family`: what it is listed under; `asks`: fields
    of a Sample that are looked up for it; `why_not`: what of a run's configuration it cannot work
    with, empty where it can. `is_plugin`: others wrote it, so that its errors are put into words.
    """

    name: str
    summary: str
    call: Callable[[Sequence[Sample], Any], Sifted]
    options: type[OperatorOptions]
    stages: tuple[Stage, ...]
    family: str
    asks: tuple[str, ...] = ()
    why_not: Callable[[RunConfig], str] = lambda plan: ""
    version: int = 1
    is_plugin: bool = False

    def read_options(self, options: Mapping[str, Any]) -> OperatorOptions:
        """Raise pydantic's ValidationError, which names the field."""
        return validated(self.options, options)

    def refusal(self, plan: RunConfig) -> str:
        """Return what of the plan it cannot work with; "" where it can."""
        if not self.is_plugin:
            return self.why_not(plan)
        try:
            return str(self.why_not(plan))
        except Exception as error:  # others' code: the run is refused, the page goes on
            return f"{self.name} cannot check the run: {type(error).__name__}: {error}"


def sift(samples: Sequence[Sample], why_not: Callable[[Sample], str]) -> Sifted:
    """Drop the samples for which `why_not` gives a reason; "" keeps one."""
    reasons = {sample.rollout: why_not(sample) for sample in samples}
    rejected = {rollout: why for rollout, why in reasons.items() if why}
    return Sifted([sample for sample in samples if sample.rollout not in rejected], rejected)


def sift_groups(samples: Sequence[Sample], why_not: Callable[[list[Sample]], str]) -> Sifted:
    """Drop the whole groups for which `why_not` gives a reason; "" keeps one."""
    reasons = {number: why_not(members) for number, members in group_samples(samples).items()}
    return sift(samples, lambda sample: reasons[sample.group])


def group_samples(samples: Iterable[Sample]) -> dict[int, list[Sample]]:
    """Return the samples by group, in the order of the first sample of each."""
    groups: dict[int, list[Sample]] = {}
    for sample in samples:
        groups.setdefault(sample.group, []).append(sample)
    return groups


def repeated(samples: Sequence[Sample]) -> list[int]:
    """Return rollouts that are there more than once."""
    return [
        rollout
        for rollout, times in Counter(sample.rollout for sample in samples).items()
        if times > 1
    ]
