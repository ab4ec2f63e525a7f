"""Write predicted rewards for every rollout of a judged group, beside people's own."""

from collections.abc import Sequence

import structlog

from apps.feedback.rater_model import heads
from apps.feedback.rater_model.heads import Head, Judge
from apps.feedback.rater_model.learning import LearnerState, learn, predicted
from apps.feedback.rater_model.pausing import pause_if_alarming
from apps.rewards.combining import RATER_MODEL
from apps.rewards.models import Reward
from apps.rollouts.models import Group, Rollout
from apps.runs.models import Run
from apps.tasksets.models import Task

log = structlog.get_logger(__name__)


def write_model_rewards(groups: Sequence[Group], judge: Judge | None = None) -> None:
    """Write the rater model's rewards for all finished rollouts of these groups.

    Runs without a rater model are skipped. `judge` queries a scalar head, if the run has one;
    without it the ridge regression is used. A missing prediction is NULL with the reason. A
    rollout's reward is written once, so that it stays what was trained on. A replay's rewards were
    written when its data was copied, by the models of their time.
    """
    for run in {group.run_id: group.run for group in groups}.values():
        if run.settings.people.rater_model and run.settings.replay is None:
            _fill_run(run, _asked_about(run, groups), judge)


def _asked_about(run: Run, groups: Sequence[Group]) -> list[Group]:
    """Return the run's groups in domains that people judge; the model knows no others."""
    ours = [group for group in groups if group.run_id == run.pk]
    domains = run.settings.people.domains
    if not domains:
        return ours
    judged_tasks = set(
        Task.objects.filter(
            pk__in={group.task_id for group in ours}, domain__in=domains
        ).values_list("pk", flat=True)
    )
    return [group for group in ours if group.task_id in judged_tasks]


def _fill_run(run: Run, groups: list[Group], judge: Judge | None) -> None:
    state = learn(run)
    finished = Rollout.objects.filter(group__in=groups, state=Rollout.State.FINISHED).exclude(
        origin=Rollout.Origin.SYNTHETIC
    )
    rollouts = list(finished.values_list("pk", flat=True))
    rewards = rewards_by(state, run, rollouts)
    if judge and (head := heads.find_newest_head(run)):
        rewards = _by_head(head, judge, run, rewards)
    Reward.objects.bulk_create(rewards, ignore_conflicts=True)
    pause_if_alarming(run)
    log.info(
        "predicted_rewards_stored",
        run=run,
        rater_model=state.number,
        decisions=state.learner.decisions,
        rollouts=len(rollouts),
    )


def rewards_by(state: LearnerState, run: Run, rollouts: Sequence[int]) -> list[Reward]:
    """Return the model's unsaved rewards of these rollouts.

    They are NULL, with the reason, as long as the model is untrained.
    """
    section = run.settings.people.rater_model
    assert section is not None  # the run has a rater model
    if state.learner.decisions < section.min_ratings:
        reason = (
            f"the rater model has learned {state.learner.decisions} ratings; it needs"
            f" {section.min_ratings}"
        )
        return [_missing(rollout, reason) for rollout in rollouts]
    predictions = predicted(run, state, rollouts)
    return [
        _reward(rollout, predictions.get(rollout), state.number, section.pessimism)
        for rollout in rollouts
    ]


def _by_head(head: Head, judge: Judge, run: Run, rewards: list[Reward]) -> list[Reward]:
    """Replace the ridge's values by the head's if it can read the reply.

    Each row says which model its value is from.
    """
    section = run.settings.people.rater_model
    assert section is not None  # the run has a rater model
    pessimism = section.pessimism
    judged = heads.judge_with_head(
        head, judge, [reward.rollout_id for reward in rewards if reward.value is not None]
    )
    return [
        (
            _reward(reward.rollout_id, judged[reward.rollout_id], head.number, pessimism)
            if reward.rollout_id in judged
            else reward
        )
        for reward in rewards
    ]


def _reward(
    rollout: int, prediction: tuple[float, float] | None, number: int, pessimism: float
) -> Reward:
    if prediction is None:
        return _missing(rollout, "its surprise under the base model is unknown")
    mean, deviation = prediction
    return Reward(
        rollout_id=rollout,
        source=Reward.Source.MODEL,
        scorer=RATER_MODEL,
        value=mean - pessimism * deviation,
        uncertainty=deviation,
        details={"rater_model": number, "mean": mean},
    )


def _missing(rollout: int, reason: str) -> Reward:
    return Reward(
        rollout_id=rollout,
        source=Reward.Source.MODEL,
        scorer=RATER_MODEL,
        value=None,
        reason=reason,
    )
