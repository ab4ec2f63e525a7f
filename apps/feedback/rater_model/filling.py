"""Every rollout of a judged group gets the reward that its raters would give it, beside what they gave."""

from collections.abc import Sequence

import structlog

from apps.feedback.rater_model import heads
from apps.feedback.rater_model.heads import Head, Judge
from apps.feedback.rater_model.learning import Known, learn, predicted
from apps.feedback.rater_model.pausing import pause_if_alarming
from apps.rewards.combining import RATER_MODEL
from apps.rewards.models import Reward
from apps.rollouts.models import Group, Rollout
from apps.runs.models import Run
from apps.tasksets.models import Task

log = structlog.get_logger(__name__)


def fill(groups: Sequence[Group], judge: Judge | None = None) -> None:
    """Rewards of the rater model for all finished rollouts of these groups, those of runs that have one.

    `judge` asks a scalar head, where the run has one; who cannot ask leaves it to the ridge.
    What cannot be filled is NULL with the reason. A rollout's reward is written once: what it was trained on stays.
    A replay's were written when its data was copied, by the models of their time.
    """
    for run in {group.run_id: group.run for group in groups}.values():
        if run.settings.people.rater_model and run.settings.replay is None:
            _fill_run(run, _asked_about(run, groups), judge)


def _asked_about(run: Run, groups: Sequence[Group]) -> list[Group]:
    """The run's groups of domains that its people are asked about: for the others it would speak of what it never heard."""
    ours, domains = [group for group in groups if group.run_id == run.pk], run.settings.people.domains
    if not domains:
        return ours
    known = set(Task.objects.filter(pk__in={group.task_id for group in ours}, domain__in=domains).values_list("pk", flat=True))
    return [group for group in ours if group.task_id in known]


def _fill_run(run: Run, groups: list[Group], judge: Judge | None) -> None:
    known = learn(run)
    finished = Rollout.objects.filter(group__in=groups, state=Rollout.State.FINISHED).exclude(origin=Rollout.Origin.SYNTHETIC)
    rollouts = list(finished.values_list("pk", flat=True))
    rewards = rewards_by(known, run, rollouts)
    if judge and (head := heads.newest(run)):
        rewards = _by_head(head, judge, run, rewards)
    Reward.objects.bulk_create(rewards, ignore_conflicts=True)
    pause_if_alarming(run)
    log.info("filled", run=run, rater_model=known.number, decisions=known.learner.decisions, rollouts=len(rollouts))


def rewards_by(known: Known, run: Run, rollouts: Sequence[int]) -> list[Reward]:
    """What the model says of these rollouts, not yet written; NULL with the reason while it knows too little."""
    section = run.settings.people.rater_model
    if known.learner.decisions < section.at_least:
        reason = f"the rater model has learned {known.learner.decisions} decisions; it needs {section.at_least}"
        return [_missing(rollout, reason) for rollout in rollouts]
    found = predicted(run, known, rollouts)
    return [_reward(rollout, found.get(rollout), known.number, section.pessimism) for rollout in rollouts]


def _by_head(head: Head, judge: Judge, run: Run, rewards: list[Reward]) -> list[Reward]:
    """The head's word in the ridge's place, where it can read the reply; each row says whose word it holds."""
    pessimism = run.settings.people.rater_model.pessimism
    found = heads.judged_by(head, judge, [reward.rollout_id for reward in rewards if reward.value is not None])
    return [
        _reward(reward.rollout_id, found[reward.rollout_id], head.number, pessimism) if reward.rollout_id in found else reward
        for reward in rewards
    ]


def _reward(rollout: int, foretold: tuple[float, float] | None, number: int, pessimism: float) -> Reward:
    if foretold is None:
        return _missing(rollout, "its surprise under the base weights is not known")
    mean, deviation = foretold
    return Reward(
        rollout_id=rollout, source=Reward.Source.MODEL, scorer=RATER_MODEL, value=mean - pessimism * deviation,
        uncertainty=deviation, details={"rater_model": number, "mean": mean},
    )  # fmt: skip


def _missing(rollout: int, reason: str) -> Reward:
    return Reward(rollout_id=rollout, source=Reward.Source.MODEL, scorer=RATER_MODEL, value=None, reason=reason)
