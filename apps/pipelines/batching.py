"""Operators over the batch of a step, applied to the whole batch before the optimiser sees it.

Removed rows stay in the step's record with the reason, and count as trained without a loss:
otherwise the next step would select and remove them again. The rows' order is the recorded one,
so the same rows give the same update.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from django.db.models import QuerySet

from apps.buffer.credit import Credit
from apps.buffer.models import Experience, OperatorChanges
from apps.pipelines.applying import OperatorFailed, OperatorResult, apply, stands_at
from apps.pipelines.models import count
from apps.pipelines.operators.contract import BATCH, Sample
from apps.rewards.combining import full_reward
from apps.rollouts.turns import all_said_by_policy
from apps.runs.config import RunConfig
from apps.runs.models import Run
from apps.runs.pipeline import OperatorChoice


@dataclass(frozen=True)
class Batch:
    """A batch after the operators, and their results. `treated` is keyed by experience id."""

    samples: Sequence[Sample]
    treated: OperatorChanges
    passes: Sequence[OperatorResult] = field(default_factory=list)


def treat(
    run: Run, version: int, experiences: QuerySet[Experience], credits: Mapping[int, Credit]
) -> OperatorChanges:
    """Apply the run's operators to these experiences, and count the results.

    Call it in the transaction that plans the step. `version` is the trainer's. `credits` holds
    the weights that differ from the experience's own advantage. Raises OperatorFailed.
    """
    plan = run.settings
    if not stands_at(plan.pipeline, BATCH):
        return OperatorChanges(credits)
    batch = treated(
        plan,
        plan.pipeline,
        list(experiences.select_related("rollout", "group__task")),
        version,
        credits,
    )
    count(run.pk, batch.passes, {})
    return batch.treated


def treated(
    plan: RunConfig,
    pipeline: Sequence[OperatorChoice],
    rows: Sequence[Experience],
    version: int,
    credits: Mapping[int, Credit],
) -> Batch:
    """Apply the operators to loaded experiences, without writing anything."""
    ids = {row.rollout_id: row.pk for row in rows}
    samples = [
        _sample(plan, row, version, credits.get(row.pk, Credit(row.advantage))) for row in rows
    ]
    outcome = apply(pipeline, BATCH, samples)
    left_out = {
        ids[cut.sample.rollout]: f"{result.operator}: {cut.reason}"
        for result in outcome.passes
        for cut in result.cuts
    }
    new_credits = dict(credits)
    before = {sample.rollout: sample for sample in samples}
    for sample in outcome.samples:
        _require_allowed(before[sample.rollout], sample)
        if sample.advantage != before[sample.rollout].advantage:
            if new_credits.get(ids[sample.rollout], Credit(0.0)).tokens is not None:
                raise OperatorFailed("an operator changed an advantage that differs between tokens")
            new_credits[ids[sample.rollout]] = Credit(sample.known_advantage)
    return Batch(samples, OperatorChanges(new_credits, left_out), outcome.passes)


def _require_allowed(before: Sample, after: Sample) -> None:
    if after.reward != before.reward or after.silent:
        raise OperatorFailed(
            "an operator of the batch stage changed a reward or excluded a rollout from the "
            "loss, but advantages are already computed"
        )


def _sample(plan: RunConfig, row: Experience, version: int, credit: Credit) -> Sample:
    rollout = row.rollout
    task = row.group.task
    assert row.reward is not None  # what was sampled has a reward
    return Sample(
        rollout.pk,
        row.group_id,
        all_said_by_policy(rollout.text, rollout.turns),
        row.reward,
        full_reward(plan, task.kind),
        tokens=rollout.completion_tokens,
        stop_reason=rollout.stop_reason,
        age=max(0, version - row.weight_version),
        domain=task.domain,
        prompt=task.question,
        meta=task.meta,
        advantage=credit.advantage,
    )
