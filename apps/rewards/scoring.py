"""Machine judgement of whole groups: which questions are open, and what becomes of the answers."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from django.db import transaction
from django.db.models.functions import Now

from apps.accounts.models import Project
from apps.rewards import learned
from apps.rewards.models import Reward
from apps.rewards.scorers import SCORERS, Verdict
from apps.rollouts.models import IN_FORCE, Group, Rollout
from apps.rollouts.turns import said_by_policy
from apps.runs.config import ConfigError, RunConfig
from apps.runs.models import after
from apps.tasksets.models import Task


@dataclass(frozen=True)
class Question:
    """One rollout for one scorer, in plain data that can cross to a child process."""

    group_id: int
    rollout_id: int
    scorer: str
    prompt: list[dict]
    text: str
    answer: dict
    turns: list[str] = field(default_factory=list)  # the policy's; none: the text is its only one


def require_known_scorers(plan: RunConfig, project: Project) -> None:
    """Raises ConfigError naming the scorers that do not exist, learned ones among the project's."""
    unknown = {f"rewards.{n}.scorer": why for n, c in enumerate(plan.rewards) if (why := _why_unknown(c.scorer, project))}
    if unknown:
        raise ConfigError(unknown)


def _why_unknown(scorer: str, project: Project) -> str:
    if not learned.is_learned(scorer):
        return "" if scorer in SCORERS else f"no scorer {scorer!r}; known: {', '.join(SCORERS)}, and {learned.PREFIX}RUN"
    try:
        learned.find(project.pk, scorer)
    except LookupError as missing:
        return str(missing)
    return ""


def open_questions(groups: Sequence[Group]) -> list[Question]:
    """What the machine scorers of these groups' runs have not judged yet. Failed rollouts are not asked about."""
    rollouts = Rollout.objects.filter(group__in=groups, state=Rollout.State.FINISHED).exclude(origin=Rollout.Origin.SYNTHETIC)
    known = set(Reward.objects.filter(rollout__in=rollouts, by=None).values_list("rollout_id", "scorer"))
    plans = {group.run_id: group.run.settings for group in groups}
    tasks = Task.objects.in_bulk({group.task_id for group in groups})  # once for each group, not for each of its rollouts
    task_of = {group.pk: tasks[group.task_id] for group in groups}
    return [
        Question(group, pk, choice.scorer, task_of[group].prompt, text, task_of[group].answer, said_by_policy(text, turns))
        for pk, group, run, text, turns in rollouts.values_list("pk", "group_id", "run_id", "text", "turns")
        for choice in plans[run].rewards
        if (pk, choice.scorer) not in known
    ]


@transaction.atomic
def record_verdicts(groups: Sequence[Group], verdicts: Sequence[tuple[Question, Verdict]]) -> list[Group]:
    """Write the verdicts and hand the groups on: to people when the run asks them, else to the refiner.

    Of groups that are no longer ours nothing is written. Returns the groups handed on.
    """
    fences = dict(Group.objects.select_for_update().filter(IN_FORCE, pk__in=[g.pk for g in groups]).values_list("pk", "fence"))
    ours = [group for group in groups if fences.get(group.pk) == group.fence]
    held = {group.pk for group in ours}
    Reward.objects.bulk_create(
        (
            Reward(rollout_id=question.rollout_id, source=_source(question.scorer), scorer=question.scorer, value=verdict.value,
                   reason=(verdict.reason or "no reason given")[:300], details=verdict.details)
            for question, verdict in verdicts
            if question.group_id in held
        ),
        ignore_conflicts=True,
    )  # fmt: skip
    for group in ours:
        hand_on(group)
    return ours


def _source(scorer: str) -> str:
    return Reward.Source.MODEL if learned.is_learned(scorer) else Reward.Source.RULE


def hand_on(group: Group) -> None:
    people = group.run.settings.people
    if people.per_group:
        group.move(Group.State.WAITING, deadline_at=after(people.deadline_s))
    else:
        group.move(Group.State.JUDGED, judged_at=Now())
