"""What an operator is given and what it says: the contract that every module of this package keeps (docs/pipelines.md)."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ConfigDict

from apps.runs.config import RunConfig
from apps.runs.pipeline import Stage
from apps.tasksets.overlap import Pair
from apps.tasksets.rows import TaskRow

TASKS, GROUPS, EXPERIENCES, BATCH = "tasks", "groups", "experiences", "batch"


class OperatorOptions(BaseModel):
    """Typed options of an operator; a subclass named `Options` in its module has the fields, each with its default and reason."""

    model_config = ConfigDict(frozen=True, extra="forbid")


@dataclass(frozen=True)
class Figures:
    """A judged group before any operator: its task's domain, its answers' mean tokens, and their mean success from 0 to 1."""

    domain: str
    tokens: float
    success: float


@dataclass(frozen=True)
class Recent:
    """A group's own figures, and those of groups that were decided before it was judged, the newest first."""

    own: Figures
    before: tuple[Figures, ...]


@dataclass(frozen=True)
class Imitated:
    """A task, and its answers by the policy that are expert rows of the run already, by their number, from 1."""

    task: int
    answers: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Action:
    """A turn of the policy in an environment: where it ends in the completion, in tokens, and what it earned, None: not known."""

    end: int
    reward: float | None


@dataclass(frozen=True)
class Filtered:
    """What a filter of the data-juicer package says of a text: its statistics, by name; `failed`: why it says nothing."""

    is_kept: bool = False
    stats: Mapping[str, float] = field(default_factory=dict)
    failed: str = ""


@dataclass(frozen=True)
class Sample:
    """A judged rollout, and what is known of it.

    On tasks it is a task that nobody has answered: `text` and `prompt` are what the user says, `domain` and `meta` its own,
    `rollout` and `group` its number, and nothing else is known of it but what an operator asks for.

    `reward`: what it is compared by; an operator that shapes changes it. `full`: what it would be, were everything right.
    `by_scorer`: what machines said; `by_people`: what people say together, None where nobody was heard. `age`: published versions
    since the oldest that sampled a token of it. `advantage`: None before the stage of experiences. `silent`: why nothing is learned
    from it though it counts in the baseline of its group; "" for all others. `is_dialogue`: users spoke between its turns, so that
    its text is no answer to its prompt alone.

    What follows is looked up for operators that name it in `ASKS`. `also_in`: by the name of an evaluation set, the task of it of
    which this one's prompt says most, None where it says nothing of any; a set that cannot be read is not among them.
    `guessed`: how often its task was right without thinking, of how many tries; None where nobody tried. `recent`: its group and
    those before it, in figures. `imitated`: the answers to its task that are expert rows already. `reached`: by rollout of its
    group, the task that asks for what a wrong answer has reached. `acted`: by rollout of its group, its actions in order.
    `scales`: of a task, its numbers on its set's scales of difficulty. `filtered`: by filter of data-juicer and by text, what
    it says.
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


@dataclass(frozen=True)
class Made:
    """A row that an operator makes of samples, its parents.

    An expert row of one, `number`: which of its task's it is (`Imitated`). Or a pair: `of` is better than `over`, by `margin`.
    Or a rollout of its own, for the expert loss: all of the parent as an answer to another `task`, or its first `tokens`.
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
        """It is no part of its parent's group, and comes of an answer that is not learned from itself, too."""
        return self.task is not None or self.tokens is not None


@dataclass(frozen=True)
class Sifted:
    """What an operator leaves, in the order of its input, and by rollout why each of the others is not among them.

    `made`: rows that it adds; of a sample that is not learned from in the end, none comes.
    """

    kept: list[Sample]
    reasons: Mapping[int, str] = field(default_factory=dict)
    made: Sequence[Made] = ()


@dataclass(frozen=True)
class Operator:
    """One module of the package, read.

    `stages`: where it may stand, its own first; `family`: what it is listed under; `asks`: fields of a Sample that are looked up
    for it; `why_not`: what of a run's configuration it cannot work with, empty where it can.
    """

    name: str
    summary: str
    call: Callable[[Sequence[Sample], Any], Sifted]
    options: type[OperatorOptions]
    stages: tuple[Stage, ...]
    family: str
    asks: tuple[str, ...] = ()
    why_not: Callable[[RunConfig], str] = lambda plan: ""

    def read_options(self, options: Mapping[str, Any]) -> OperatorOptions:
        """Raises pydantic's ValidationError, which names the field."""
        return self.options.model_validate(dict(options))


def sift(samples: Sequence[Sample], why_not: Callable[[Sample], str]) -> Sifted:
    """Without the samples of which `why_not` says a reason; "" keeps one."""
    reasons = {sample.rollout: why_not(sample) for sample in samples}
    left = {rollout: why for rollout, why in reasons.items() if why}
    return Sifted([sample for sample in samples if sample.rollout not in left], left)


def sift_groups(samples: Sequence[Sample], why_not: Callable[[list[Sample]], str]) -> Sifted:
    """Without the groups of which `why_not` says a reason, as wholes; "" keeps one."""
    reasons = {number: why_not(members) for number, members in grouped(samples).items()}
    return sift(samples, lambda sample: reasons[sample.group])


def grouped(samples: Iterable[Sample]) -> dict[int, list[Sample]]:
    """By group, in the order of the first of each."""
    found: dict[int, list[Sample]] = {}
    for sample in samples:
        found.setdefault(sample.group, []).append(sample)
    return found


def repeated(samples: Sequence[Sample]) -> list[int]:
    """Rollouts that are there more than once."""
    return [rollout for rollout, times in Counter(sample.rollout for sample in samples).items() if times > 1]
