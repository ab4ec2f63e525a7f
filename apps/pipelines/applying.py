"""The application of a pipeline to samples: each operator's input, output and cuts. Pure."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from apps.accounts.public_text import public_text
from apps.pipelines.operators import Operator, find_operator
from apps.pipelines.operators.contract import Made, Sample, Sifted, repeated
from apps.runs.pipeline import OperatorChoice, Stage


class OperatorFailed(Exception):
    """An error for an operator that raised or broke its contract.

    The message names it and says how.
    """


@dataclass(frozen=True)
class RemovedSample:
    """A sample that an operator removed, and the reason."""

    sample: Sample
    reason: str


@dataclass(frozen=True)
class OperatorResult:
    """The result of one operator.

    `place` is its number in the pipeline, from 0; `silenced` holds the kept samples that it made
    silent; `made` holds the rows that it would add.
    """

    place: int
    operator: str
    given: list[Sample]
    kept: list[Sample]
    cuts: list[RemovedSample]
    silenced: list[RemovedSample]
    made: list[Made] = field(default_factory=list)

    def of(self, group: int) -> "OperatorResult":
        """Return the part of this result that concerns one group."""
        return OperatorResult(
            self.place,
            self.operator,
            [sample for sample in self.given if sample.group == group],
            [sample for sample in self.kept if sample.group == group],
            [cut for cut in self.cuts if cut.sample.group == group],
            [cut for cut in self.silenced if cut.sample.group == group],
            [row for row in self.made if row.of.group == group],
        )


@dataclass
class Outcome:
    """The samples that remain, and the result of each operator in order."""

    samples: list[Sample]
    passes: list[OperatorResult] = field(default_factory=list)


def apply(pipeline: Sequence[OperatorChoice], stage: Stage, samples: Sequence[Sample]) -> Outcome:
    """Return the samples after all operators of this stage, applied in the pipeline's order.

    Raises OperatorFailed.
    """
    outcome = Outcome(list(samples))
    for place, operator, choice in _of_stage(pipeline, stage):
        sifted = _called(operator, choice, outcome.samples)
        cuts = _left_out(operator, outcome.samples, sifted)
        loud = {sample.rollout for sample in outcome.samples if not sample.silent}
        silenced = [
            RemovedSample(sample, sample.silent)
            for sample in sifted.kept
            if sample.silent and sample.rollout in loud
        ]
        outcome.passes.append(
            OperatorResult(
                place,
                operator.name,
                outcome.samples,
                sifted.kept,
                cuts,
                silenced,
                list(sifted.made),
            )
        )
        outcome.samples = sifted.kept
    return outcome


def stands_at(pipeline: Sequence[OperatorChoice], stage: Stage) -> bool:
    """Tell whether any operator works at this stage. Raises OperatorFailed."""
    return any(True for _ in _of_stage(pipeline, stage))


def _of_stage(
    pipeline: Sequence[OperatorChoice], stage: Stage
) -> Iterator[tuple[int, Operator, OperatorChoice]]:
    for place, choice in enumerate(pipeline):
        try:
            operator = find_operator(choice.operator)
        except LookupError as missing:  # the operator existed when the pipeline was saved
            raise OperatorFailed(str(missing)) from None
        if (choice.stage or operator.stages[0]) == stage:
            yield place, operator, choice


def _called(operator: Operator, choice: OperatorChoice, samples: list[Sample]) -> Sifted:
    if not samples:
        return Sifted([])
    try:
        # A copy: an operator that changes its list would lose samples without a reason.
        return operator.call(list(samples), operator.read_options(choice.options))
    except Exception as error:  # operators may be anybody's code: the group waits, the run goes on
        what = f"{operator.name}: {type(error).__name__}: {public_text(error)}"
        raise OperatorFailed(what) from error


def _left_out(operator: Operator, samples: list[Sample], sifted: Sifted) -> list[RemovedSample]:
    """Return the samples that the operator removed. Raises OperatorFailed for a broken contract."""
    if operator.is_plugin:
        _require_sifted(operator, sifted)
    given_ids = {sample.rollout for sample in samples}
    kept_ids = {sample.rollout for sample in sifted.kept}
    if strangers := kept_ids - given_ids:
        raise OperatorFailed(f"{operator.name}: returned unknown rollouts: {sorted(strangers)[:5]}")
    parents = {
        parent.rollout for row in sifted.made for parent in (row.of, row.over) if parent is not None
    }
    if unknown := parents - given_ids:
        raise OperatorFailed(
            f"{operator.name}: made rows from unknown rollouts: {sorted(unknown)[:5]}"
        )
    if twice := repeated(sifted.kept):
        raise OperatorFailed(f"{operator.name}: returned rollouts more than once: {twice[:5]}")
    if wrong := [sample.rollout for sample in sifted.kept if not math.isfinite(sample.reward)]:
        raise OperatorFailed(
            f"{operator.name}: the reward of rollout {wrong[0]} is not a finite number"
        )
    cuts = [
        RemovedSample(sample, sifted.reasons.get(sample.rollout, ""))
        for sample in samples
        if sample.rollout not in kept_ids
    ]
    if silent := [cut.sample.rollout for cut in cuts if not cut.reason]:
        raise OperatorFailed(f"{operator.name}: dropped rollout {silent[0]} without a reason")
    return cuts


def _require_sifted(operator: Operator, sifted: object) -> None:
    """Raise OperatorFailed for a plugin's result whose parts are of wrong types, or new rows."""
    if not isinstance(sifted, Sifted):
        raise OperatorFailed(f"{operator.name}: returned {type(sifted).__name__}, not Sifted")
    if not all(isinstance(sample, Sample) for sample in sifted.kept):
        raise OperatorFailed(f"{operator.name}: kept an object that is not a Sample")
    if not all(isinstance(sample.reward, int | float) for sample in sifted.kept):
        raise OperatorFailed(f"{operator.name}: a reward is not a number")
    if not all(isinstance(why, str) for why in sifted.reasons.values()):
        raise OperatorFailed(f"{operator.name}: a reason is not text")
    if sifted.made:
        raise OperatorFailed(f"{operator.name}: made rows, but plugin operators cannot make rows")
