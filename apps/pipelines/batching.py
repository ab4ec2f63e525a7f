"""Operators over the batch of an update: what it takes as a whole, after reading chose it and before the optimizer sees it.

What is left out stays in the update's record with its reason, and counts as trained without a loss: given back it would be chosen,
and left out, by the next update again. The rows' order is the recorded one, so that the same rows give the same update.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from django.db.models import QuerySet

from apps.buffer.credit import Credit
from apps.buffer.models import Experience, Treated
from apps.pipelines.applying import OperatorFailed, Pass, apply, stands_at
from apps.pipelines.models import count
from apps.pipelines.operators.contract import BATCH, Sample
from apps.rewards.combining import full_reward
from apps.rollouts.turns import all_said_by_policy
from apps.runs.config import RunConfig
from apps.runs.models import Run
from apps.runs.pipeline import OperatorChoice


@dataclass(frozen=True)
class Batch:
    """What operators made of a batch, and their turns. `treated`: by id of the experience."""

    samples: Sequence[Sample]
    treated: Treated
    passes: Sequence[Pass] = field(default_factory=list)


def treat(run: Run, version: int, taken: QuerySet[Experience], credits: Mapping[int, Credit]) -> Treated:
    """What the run's operators make of these experiences, in their order; counted, in the transaction that plans the update.

    `version`: the trainer's. `credits`: what each counts, where that is not its own advantage. Raises OperatorFailed.
    """
    plan = run.settings
    if not stands_at(plan.pipeline, BATCH):
        return Treated(credits)
    batch = treated(plan, plan.pipeline, list(taken.select_related("rollout", "group__task")), version, credits)
    count(run.pk, batch.passes, {})
    return batch.treated


def treated(
    plan: RunConfig, pipeline: Sequence[OperatorChoice], rows: Sequence[Experience], version: int, credits: Mapping[int, Credit]
) -> Batch:
    """The same of loaded experiences, with nothing written."""
    ids = {row.rollout_id: row.pk for row in rows}
    samples = [_sample(plan, row, version, credits.get(row.pk, Credit(row.advantage))) for row in rows]
    outcome = apply(pipeline, BATCH, samples)
    left_out = {ids[cut.sample.rollout]: f"{one.operator}: {cut.reason}" for one in outcome.passes for cut in one.cuts}
    found, before = dict(credits), {sample.rollout: sample for sample in samples}
    for sample in outcome.samples:
        _require_allowed(before[sample.rollout], sample)
        if sample.advantage != before[sample.rollout].advantage:
            if found.get(ids[sample.rollout], Credit(0.0)).tokens is not None:
                raise OperatorFailed("an operator changed an advantage that is not the same for all tokens")
            found[ids[sample.rollout]] = Credit(sample.advantage)
    return Batch(samples, Treated(found, left_out), outcome.passes)


def _require_allowed(before: Sample, after: Sample) -> None:
    if after.reward != before.reward or after.silent:
        raise OperatorFailed("an operator on the batch changed a reward, or made a row silent: its advantages are made already")


def _sample(plan: RunConfig, row: Experience, version: int, credit: Credit) -> Sample:
    rollout, task = row.rollout, row.group.task
    return Sample(
        rollout.pk, row.group_id, all_said_by_policy(rollout.text, rollout.turns), row.reward,
        full_reward(plan, task.kind), tokens=rollout.completion_tokens, stop_reason=rollout.stop_reason,
        age=max(0, version - row.weight_version), domain=task.domain, prompt=task.question, meta=task.meta,
        advantage=credit.advantage,
    )  # fmt: skip
