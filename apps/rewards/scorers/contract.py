"""What a scorer is given and what it says: the contract that every module of this package keeps (docs/rewards.md)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ConfigDict

from apps.rewards.scorers.verdict import Verdict
from apps.tasksets.rows import TaskRow

NO_OPTIONS: dict[str, Any] = {}


class ScorerOptions(BaseModel):
    """Typed options of a scorer; a subclass named `Options` in its module has the fields, each with its default and reason."""

    model_config = ConfigDict(frozen=True, extra="forbid")


@dataclass(frozen=True)
class TaskView:
    """What was asked: the chat messages, and what the taskset keeps for scorers alone."""

    prompt: Sequence[Mapping[str, Any]] = ()
    answer: Mapping[str, Any] = field(default_factory=dict)
    domain: str = ""
    meta: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class RolloutView:
    """What the policy left.

    `turns`: its replies one by one, where there are several; `tokens`: the completion's length, None where it is not known;
    `stop_reason`: "stop", or what cut it: "length", "repetition", "time"; `values`: what the run's other scorers said of it, for
    those that judge whole groups.
    """

    text: str
    turns: Sequence[str] = ()
    tokens: int | None = None
    stop_reason: str = ""
    values: Mapping[str, float | None] = field(default_factory=dict)

    @property
    def replies(self) -> Sequence[str]:
        return self.turns or (self.text,)


@dataclass(frozen=True)
class Scorer:
    """One module of the package, read.

    `low` … `high`: the range of its values; `version` rises when the same text may get another value; `seconds`: how long one
    question may take; `of_group`: whether it judges the rollouts of a group together; `asks`: whether it asks a model, with `ask`
    for its questions and `read` for their answers: about everything, or with a `call` too, about what that leaves undecided.
    """

    name: str
    summary: str
    call: Any
    options: type[ScorerOptions]
    low: float
    high: float
    version: int
    seconds: float
    of_group: bool
    asks: bool = False
    ask: Any = None
    read: Any = None

    @property
    def only_asks(self) -> bool:
        return self.asks and self.call is None

    def judge_options(self, options: Mapping[str, Any]) -> Any:
        """Whom it asks, a `JudgeOptions`: its options themselves, or their `judge`; None where it asks nobody."""
        read = self.read_options(options)
        return read if self.only_asks else getattr(read, "judge", None)

    def read_options(self, options: Mapping[str, Any]) -> ScorerOptions:
        """Raises pydantic's ValidationError, which names the field."""
        return self.options.model_validate(dict(options))

    def judge(self, rollouts: Sequence[RolloutView], task: TaskView, options: Mapping[str, Any] = NO_OPTIONS) -> list[Verdict]:
        """A verdict for each; what is no number of the scorer's range is none, and says so."""
        if self.only_asks:
            raise TypeError(f"{self.name} asks a model: its questions go by workers.judging")
        read = self.read_options(options)
        said = self.call(rollouts, task, read) if self.of_group else [self.call(rollout, task, read) for rollout in rollouts]
        return self.held(said, rollouts)

    def of(self, text: str, task: TaskRow) -> Verdict:
        """What it says of one text, with its options as they are unless told."""
        return self.judge([RolloutView(text)], TaskView(task.prompt, task.answer, task.domain, task.meta))[0]

    def held(self, said: list[Verdict], rollouts: Sequence[RolloutView]) -> list[Verdict]:
        """What was said, one for each rollout and within the range, or why it cannot count."""
        if len(said) != len(rollouts):
            return [Verdict(None, f"the scorer gave {len(said)} verdicts for {len(rollouts)} rollouts")] * len(rollouts)
        return [self._within(verdict) for verdict in said]

    def _within(self, verdict: Verdict) -> Verdict:
        value = verdict.value
        if value is None or (math.isfinite(value) and self.low <= value <= self.high):
            return verdict
        return Verdict(None, f"the scorer gave {value}, outside its range {self.low:g} to {self.high:g}", verdict.details)
