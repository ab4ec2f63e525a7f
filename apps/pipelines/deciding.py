"""Decisions on judged groups: apply the run's pipeline, compute advantages; nothing is written.

Groups of a run are decided together, for an operator may compare them; when an operator fails, each
is decided alone, so that one bad group does not delay the others.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from apps.pipelines.applying import OperatorFailed, OperatorResult, apply
from apps.pipelines.crediting import JudgedRollout, of_group
from apps.pipelines.operators.contract import EXPERIENCES, GROUPS, Made, Sample, group_samples
from apps.rewards.combining import Judgement, combined, full_reward, machine_reward, peoples_word
from apps.rewards.length import length_rewards
from apps.rollouts.models import Group, Rollout
from apps.rollouts.turns import USER, all_said_by_policy, stretches
from apps.runs.algorithms.advantages import Scaled
from apps.runs.config import RunConfig
from apps.runs.pipeline import Stage

ROUNDING = 1e-6
ANSWER_ONLY = "answered but not trained on: max_staleness left no room when it was opened"


@dataclass(frozen=True)
class Case:
    """A judged group with the data needed to decide on it.

    `version` is the newest published version, from which ages are counted. `operator_data` holds
    the data looked up for operators, by the field of a Sample.
    """

    group: Group
    rollouts: Sequence[Rollout]
    judgements: dict[int, list[Judgement]]
    version: int
    operator_data: Mapping[str, Any] = field(default_factory=dict)

    def judgements_of(self, rollout: int) -> list[Judgement]:
        return self.judgements.get(rollout, [])

    def first_version(self, rollout: int) -> int:
        """Return the version that sampled the rollout's first token."""
        version = next(
            candidate.first_version for candidate in self.rollouts if candidate.pk == rollout
        )
        assert version is not None  # the rollout is finished
        return version


@dataclass
class Decision:
    """The decision on one group: `dropped` or `failed` with a reason, or the samples to learn from.

    Each sample has its advantage. `rewards` are the rollouts' rewards before any operator.
    """

    case: Case
    rewards: list[float] = field(default_factory=list)
    learned: list[Sample] = field(default_factory=list)
    dropped: str = ""
    failed: str = ""
    passes: list[OperatorResult] = field(default_factory=list)

    @property
    def is_admitted(self) -> bool:
        return not (self.dropped or self.failed)

    @property
    def made(self) -> list[tuple[OperatorResult, Made]]:
        """Return the rows that operators add.

        Rows within the group count only if made from answers that are learned from, over answers
        that no operator removed. Standalone rows count whatever happens to their answers.
        """
        learned = {sample.rollout for sample in self.learned}
        removed = {
            cut.sample.rollout for result in self.passes for cut in (*result.cuts, *result.silenced)
        }
        rows = [
            (result, row)
            for result in self.passes
            for row in result.made
            if row.stands_apart or row.of.rollout in learned
        ]
        return [
            (result, row)
            for result, row in rows
            if row.over is None or row.over.rollout not in removed
        ]


def decide_groups(plan: RunConfig, cases: Sequence[Case]) -> list[Decision]:
    """Return the decisions on these groups of one run, in their order."""
    try:
        return _decided(plan, cases)
    except OperatorFailed as failure:
        if len(cases) == 1:
            return [Decision(cases[0], failed=str(failure))]
        return [decision for case in cases for decision in decide_groups(plan, [case])]


def _decided(plan: RunConfig, cases: Sequence[Case]) -> list[Decision]:
    decisions = {case.group.pk: Decision(case) for case in cases}
    samples = {pk: build_samples(plan, decision.case) for pk, decision in decisions.items()}
    for pk, decision in decisions.items():
        decision.rewards = [sample.reward for sample in samples[pk]]
        decision.dropped = _why_drop(plan, decision.case, samples[pk])
    remaining = _apply_to_groups(plan, GROUPS, decisions, samples)
    for pk, decision in decisions.items():
        remaining[pk] = [] if decision.dropped else _credited(plan, decision, remaining[pk])
    for pk, learned in _apply_to_groups(plan, EXPERIENCES, decisions, remaining).items():
        decision = decisions[pk]
        decision.dropped = decision.dropped or _why_too_few(plan, learned)
        decision.learned = [] if decision.dropped else learned
    return list(decisions.values())


def _apply_to_groups(
    plan: RunConfig, stage: Stage, decisions: dict[int, Decision], samples: dict[int, list[Sample]]
) -> dict[int, list[Sample]]:
    """Apply the operators of this stage to the groups that are not dropped yet.

    A group that loses all its samples is dropped.
    """
    going = {pk: members for pk, members in samples.items() if not decisions[pk].dropped}
    outcome = apply(
        plan.pipeline, stage, [sample for members in going.values() for sample in members]
    )
    after = group_samples(outcome.samples)
    for pk in going:
        group_results = [result.of(pk) for result in outcome.passes]
        decisions[pk].passes += [result for result in group_results if result.given]
        if pk not in after and group_results:
            decisions[pk].dropped = _commonest(group_results)
    return {pk: after.get(pk, []) for pk in samples}


def _commonest(passes: Sequence[OperatorResult]) -> str:
    """Return the operator and reason that removed most of a group's samples."""
    reasons = Counter(
        f"{result.operator}: {cut.reason}" for result in passes for cut in result.cuts
    )
    return reasons.most_common(1)[0][0]


def _credited(plan: RunConfig, decision: Decision, samples: list[Sample]) -> list[Sample]:
    """Return the samples with their advantages.

    None, and drop the group, if none can be learned from.
    """
    case = decision.case
    min_rewards = plan.algorithm.advantage.min_rewards
    if len(samples) < min_rewards:
        decision.dropped = (
            f"the pipeline kept {len(samples)} of {plan.group_size} rollouts; a group needs "
            f"at least {min_rewards}"
        )
        return []
    advantages = of_group(
        plan,
        [
            _values_of_sample(plan, case, sample)
            for sample in _with_length(plan, case.group, samples)
        ],
    )
    if advantages is None:
        decision.dropped = _nothing_to_learn(plan)
        return []
    credited = [
        replace(sample, advantage=advantage)
        for sample, advantage in zip(samples, advantages, strict=True)
    ]
    loud = [
        sample
        for sample in credited
        if not sample.silent and (sample.advantage or plan.algorithm.advantage.name != "best")
    ]
    if not loud:
        decision.dropped = next(
            f"all rollouts are used only in the baseline: {sample.silent}"
            for sample in credited
            if sample.silent
        )
    return loud


# -- samples


def build_samples(plan: RunConfig, case: Case) -> list[Sample]:
    """Return the group's rollouts that have a reward, as samples."""
    task, full = case.group.task, full_reward(plan, case.group.task.kind)
    compares_each_scorer = plan.algorithm.advantage.name == "gdpo"
    samples = []
    for rollout in case.rollouts:
        judgements = case.judgements_of(rollout.pk)
        reward = combined(judgements, plan, task.kind)
        if reward is None or not math.isfinite(reward):
            continue
        if compares_each_scorer and machine_reward(judgements, plan.judges_of(task.kind)) is None:
            continue  # a person's rating has no parts in its place
        samples.append(
            Sample(
                rollout.pk,
                case.group.pk,
                all_said_by_policy(rollout.text, rollout.turns),
                reward,
                full,
                {
                    judgement.scorer: judgement.value
                    for judgement in judgements
                    if not judgement.is_human
                },
                peoples_word(judgements),
                rollout.completion_tokens,
                rollout.stop_reason,
                max(0, case.version - (rollout.first_version or 0)),
                task.domain,
                task.question,
                task.meta,
                is_dialogue=any(turn["role"] == USER for turn in rollout.turns),
                **case.operator_data,
            )
        )
    return samples


def _values_of_sample(plan: RunConfig, case: Case, sample: Sample) -> JudgedRollout:
    """Return the values from which a sample's advantage is computed.

    A scorer without a value for the rollout has no part in its reward or its advantage.
    """
    turns = 1
    if plan.algorithm.advantage.name == "step_wise_grpo":
        rollout = next(rollout for rollout in case.rollouts if rollout.pk == sample.rollout)
        turns = len(stretches(rollout.tokens.action_mask))
    by_scorer = {name: value for name, value in sample.by_scorer.items() if value is not None}
    return JudgedRollout(sample.reward, by_scorer, turns)


def _with_length(plan: RunConfig, group: Group, samples: list[Sample]) -> list[Sample]:
    """Return the samples with the length penalty added to their rewards once it has begun.

    The stored rewards are not changed.
    """
    penalty = plan.length_penalty
    if penalty is None or _draw_of(plan, group) // plan.groups_per_step < penalty.from_step:
        return samples
    full = full_reward(plan, group.task.kind) - ROUNDING
    lengths = length_rewards(
        [sample.tokens for sample in samples], [sample.reward >= full for sample in samples]
    )
    return [
        replace(sample, reward=sample.reward + penalty.weight * extra)
        for sample, extra in zip(samples, lengths, strict=True)
    ]


def _draw_of(plan: RunConfig, group: Group) -> int:
    """Return the group's draw number in the run that sampled it."""
    draw = (
        group.draw_index
        if plan.replay is None
        else group.recorded.values_list("of__draw_index", flat=True).get()
    )
    assert draw is not None  # as of every group with a size
    return draw


# -- reasons


def _why_drop(plan: RunConfig, case: Case, samples: list[Sample]) -> str:
    group = case.group
    if group.answer_only:
        return ANSWER_ONLY
    if plan.serve and not samples:
        return _why_worthless(plan, case)
    min_rewards = plan.algorithm.advantage.min_rewards
    if len(samples) < min_rewards:
        return (
            f"{len(samples)} of {plan.group_size} rollouts have a reward; a group needs at "
            f"least {min_rewards}"
        )
    is_rated = any(
        judgement.is_human for sample in samples for judgement in case.judgements_of(sample.rollout)
    )
    if (
        plan.people.asks_about(group.task.domain)
        and plan.people.at_deadline == "drop"
        and not is_rated
    ):
        return "nobody rated it before the deadline"
    return ""


def _why_worthless(plan: RunConfig, case: Case) -> str:
    """Return why the single answer to a caller's question has no reward."""
    if not case.rollouts:
        return "it got no reply"
    judgements = case.judgements_of(case.rollouts[0].pk)
    place = plan.environment.name if plan.environment else ""
    without_value = [
        judgement
        for judgement in judgements
        if judgement.scorer == place and judgement.value is None
    ]
    return "no feedback came in time" if without_value else "a scorer gave it no reward"


def _why_too_few(plan: RunConfig, learned: Sequence[Sample]) -> str:
    """Return why these samples are too few to be compared with each other when the batch is fixed.

    One sample alone would get its reward as its advantage, without a baseline.
    """
    advantage = plan.algorithm.advantage
    if not advantage.compares_late or len(learned) >= advantage.min_rewards:
        return ""
    return (
        f"{len(learned)} of {plan.group_size} rollouts are left to learn from, and "
        f"`{advantage.name}` compares only these; a group needs at least {advantage.min_rewards}"
    )


def _nothing_to_learn(plan: RunConfig) -> str:
    advantage = plan.algorithm.advantage
    if advantage.name == "best":
        return f"no rollout has a reward of {advantage.min_reward:g} or more"
    if advantage.name == "plugin":
        return f"{advantage.plugin}: nothing can be learned from these rewards"
    assert isinstance(advantage, Scaled)  # no other drops groups
    return f"the standard deviation of the rewards is not above {advantage.std_threshold:g}"
