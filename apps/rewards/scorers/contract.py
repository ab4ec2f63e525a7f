"""Contract of all scorers of this package: their inputs and outputs (docs/rewards.md)."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ConfigDict

from apps.accounts import strict_json
from apps.plugins.contract import validated
from apps.rewards.scorers.verdict import Verdict
from apps.tasksets.rows import TaskRow

MAX_REASON_LENGTH = 300
NO_OPTIONS: dict[str, Any] = {}


class ScorerOptions(BaseModel):
    """Typed options of a scorer; a subclass named `Options` in its module has the fields, each
    with its default and reason.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")


@dataclass(frozen=True)
class TaskView:
    """Task as scorers see it: the chat messages, and what the taskset keeps for scorers alone."""

    prompt: Sequence[Mapping[str, Any]] = ()
    answer: Mapping[str, Any] = field(default_factory=dict)
    domain: str = ""
    meta: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class RolloutView:
    """Rollout as scorers see it.

    `turns`: its replies one by one, if there are several; `tokens`: the completion's length, None
    if it is not known; `stop_reason`: "stop", or what cut it: "length", "repetition", "time";
    `values`: the values of the run's other scorers, for those that judge whole groups.
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
    """Scorer that a module defines.

    `low` … `high`: the range of its values; `version` rises when the same text may get another
    value; `seconds`: how long one question may take; `of_group`: whether it judges the rollouts of
    a group together; `asks`: whether it asks a model, with `ask` for its questions and `read` for
    their answers: about everything, or with a `call` too, about what that leaves undecided.
    `is_plugin`: others wrote it, so that its errors become verdicts without a value.
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
    load: Any = None
    is_plugin: bool = False

    def prepare(self, task: TaskView, options: Mapping[str, Any] = NO_OPTIONS) -> None:
        """Load what the judgement of this task needs, before its time is counted."""
        if self.load is not None:
            self.load(task)

    @property
    def only_asks(self) -> bool:
        return self.asks and self.call is None

    def judge_options(self, options: Mapping[str, Any]) -> Any:
        """Return the `JudgeOptions`: the options themselves, or their `judge`.

        Return None if the scorer asks no judge.
        """
        read = self.read_options(options)
        return read if self.only_asks else getattr(read, "judge", None)

    def read_options(self, options: Mapping[str, Any]) -> ScorerOptions:
        """Validate the scorer's options.

        Raises pydantic's ValidationError, which names the field.
        """
        return validated(self.options, options)

    def judge(
        self,
        rollouts: Sequence[RolloutView],
        task: TaskView,
        options: Mapping[str, Any] = NO_OPTIONS,
    ) -> list[Verdict]:
        """Return a verdict for each rollout.

        A value outside the scorer's range, or an error of a plugin, becomes a verdict without value
        and with the reason.
        """
        if self.only_asks:
            raise TypeError(f"{self.name} asks a model: use workers.judge_models")
        read = self.read_options(options)
        if not self.is_plugin:
            return self.check_verdicts(self.called(rollouts, task, read), rollouts)
        try:
            verdicts = self.called(rollouts, task, read)
            return self.check_verdicts([require_verdict(verdict) for verdict in verdicts], rollouts)
        except Exception as error:  # a plugin's code failed, so there is no judgement
            failed = Verdict(None, f"{type(error).__name__}: {error}"[:MAX_REASON_LENGTH])
            return [failed] * len(rollouts)

    def called(
        self, rollouts: Sequence[RolloutView], task: TaskView, options: ScorerOptions
    ) -> list[Verdict]:
        """Return the verdicts of the scorer's own code, unchecked."""
        if self.of_group:
            return self.call(rollouts, task, options)
        return [self.call(rollout, task, options) for rollout in rollouts]

    def of(self, text: str, task: TaskRow) -> Verdict:
        """Judge one text with the scorer's default options."""
        return self.judge(
            [RolloutView(text)], TaskView(task.prompt, task.answer, task.domain, task.meta)
        )[0]

    def check_verdicts(
        self, verdicts: list[Verdict], rollouts: Sequence[RolloutView]
    ) -> list[Verdict]:
        """Return one verdict for each rollout; outside the range, a reason without a value."""
        if len(verdicts) != len(rollouts):
            return [
                Verdict(
                    None, f"the scorer gave {len(verdicts)} verdicts for {len(rollouts)} rollouts"
                )
            ] * len(rollouts)
        return [self._check_range(verdict) for verdict in verdicts]

    def _check_range(self, verdict: Verdict) -> Verdict:
        value = verdict.value
        if value is None or (math.isfinite(value) and self.low <= value <= self.high):
            return verdict
        return Verdict(
            None,
            f"the scorer gave {value}, outside its range {self.low:g} to {self.high:g}",
            verdict.details,
        )


def require_verdict(verdict: Any) -> Verdict:
    """Return the verdict if it can be stored. Raises TypeError and ValueError in words."""
    if not isinstance(verdict, Verdict):
        raise TypeError(f"the scorer gave {type(verdict).__name__}, not a Verdict")
    if verdict.value is not None and type(verdict.value) not in (int, float):
        raise TypeError(f"the value is {type(verdict.value).__name__}, not a number or None")
    if not isinstance(verdict.reason, str):
        raise TypeError(f"the reason is {type(verdict.reason).__name__}, not text")
    if verdict.value is None and not verdict.reason:
        raise ValueError("there is no value and no reason")
    if not isinstance(verdict.details, dict):
        raise TypeError(f"the details are {type(verdict.details).__name__}, not a dict")
    try:
        strict_json.decode_json(json.dumps([verdict.reason, verdict.details], allow_nan=False))
    except (TypeError, ValueError) as error:
        raise ValueError(f"the reason or the details cannot be stored: {error}") from None
    return verdict
