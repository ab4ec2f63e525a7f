"""A pipeline at work on samples: operator after operator, what each was given, what it kept, and why it left out the rest. Pure."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from apps.accounts.public_text import public_text
from apps.pipelines.operators import Operator, find
from apps.pipelines.operators.contract import Made, Sample, Sifted, repeated
from apps.runs.pipeline import OperatorChoice, Stage


class OperatorFailed(Exception):
    """An operator broke, or its contract; the message names it and says how."""


@dataclass(frozen=True)
class Cut:
    """A sample that an operator left out."""

    sample: Sample
    reason: str


@dataclass(frozen=True)
class Pass:
    """One operator's turn. `place`: its number in the pipeline, from 0. `silenced`: those of the kept that it made silent.

    `made`: rows that it would add.
    """

    place: int
    operator: str
    given: list[Sample]
    kept: list[Sample]
    cuts: list[Cut]
    silenced: list[Cut]
    made: list[Made] = field(default_factory=list)

    def of(self, group: int) -> "Pass":
        """What of it concerns one group."""
        parts = ([sample for sample in samples if sample.group == group] for samples in (self.given, self.kept))
        cuts = ([cut for cut in cuts if cut.sample.group == group] for cuts in (self.cuts, self.silenced))
        return Pass(self.place, self.operator, *parts, *cuts, [made for made in self.made if made.of.group == group])


@dataclass
class Outcome:
    """What is left of the samples, and each operator's turn in order."""

    samples: list[Sample]
    passes: list[Pass] = field(default_factory=list)


def apply(pipeline: Sequence[OperatorChoice], stage: Stage, samples: Sequence[Sample]) -> Outcome:
    """The samples after all operators of this stage, in the pipeline's order. Raises OperatorFailed."""
    outcome = Outcome(list(samples))
    for place, operator, choice in _of_stage(pipeline, stage):
        sifted = _called(operator, choice, outcome.samples)
        left = _left_out(operator, outcome.samples, sifted)
        loud = {sample.rollout for sample in outcome.samples if not sample.silent}
        silenced = [Cut(sample, sample.silent) for sample in sifted.kept if sample.silent and sample.rollout in loud]
        outcome.passes.append(Pass(place, operator.name, outcome.samples, sifted.kept, left, silenced, list(sifted.made)))
        outcome.samples = sifted.kept
    return outcome


def stands_at(pipeline: Sequence[OperatorChoice], stage: Stage) -> bool:
    """Whether any operator works at this stage. Raises OperatorFailed."""
    return any(True for _ in _of_stage(pipeline, stage))


def _of_stage(pipeline: Sequence[OperatorChoice], stage: Stage) -> Iterator[tuple[int, Operator, OperatorChoice]]:
    for place, choice in enumerate(pipeline):
        try:
            operator = find(choice.operator)
        except LookupError as missing:  # it was there when the pipeline was written
            raise OperatorFailed(str(missing)) from None
        if (choice.stage or operator.stages[0]) == stage:
            yield place, operator, choice


def _called(operator: Operator, choice: OperatorChoice, samples: list[Sample]) -> Sifted:
    if not samples:
        return Sifted([])
    try:
        return operator.call(samples, operator.read_options(choice.options))
    except Exception as error:  # an operator is anybody's code: its group waits, the run goes on
        what = f"{operator.name}: {type(error).__name__}: {public_text(error)}"
        raise OperatorFailed(what) from error


def _left_out(operator: Operator, given: list[Sample], sifted: Sifted) -> list[Cut]:
    """What is missing of the samples. Raises OperatorFailed for what breaks the contract."""
    known, kept = {sample.rollout for sample in given}, {sample.rollout for sample in sifted.kept}
    if strangers := kept - known:
        raise OperatorFailed(f"{operator.name}: gave back rollouts that it was not given: {sorted(strangers)[:5]}")
    parents = {one.rollout for made in sifted.made for one in (made.of, made.over) if one is not None}
    if unknown := parents - known:
        raise OperatorFailed(f"{operator.name}: made rows of rollouts that it was not given: {sorted(unknown)[:5]}")
    if twice := repeated(sifted.kept):
        raise OperatorFailed(f"{operator.name}: gave back rollouts more than once: {twice[:5]}")
    if wrong := [sample.rollout for sample in sifted.kept if not math.isfinite(sample.reward)]:
        raise OperatorFailed(f"{operator.name}: the reward of rollout {wrong[0]} is no finite number any more")
    cuts = [Cut(sample, sifted.reasons.get(sample.rollout, "")) for sample in given if sample.rollout not in kept]
    if silent := [cut.sample.rollout for cut in cuts if not cut.reason]:
        raise OperatorFailed(f"{operator.name}: left out rollout {silent[0]} without a reason")
    return cuts
