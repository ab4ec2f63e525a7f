"""Demonstrations as expert rollouts of a run, which steps can mix with sampled ones."""

from collections.abc import Sequence

from django.db.models import Count, QuerySet
from django.db.models.functions import Now

from apps.accounts.locking import retrying
from apps.buffer.models import Experience
from apps.feedback.models import Demonstration, ExpertAnswer
from apps.rollouts.models import Group, Rollout, RolloutPayload
from apps.rollouts.payload import Tokens, pack
from apps.runs.models import Run

Spelt = tuple[Demonstration, Tokens]


def list_unadmitted_demonstrations(run: Run) -> QuerySet[Demonstration]:
    """Return demonstrations of the run's tasks that are not in its buffer yet, oldest first."""
    of_tasks = Demonstration.objects.filter(
        project=run.project_id, task__taskset__in=run.taskset_ids
    )
    return of_tasks.exclude(expert_answers__run=run).order_by("pk")


@retrying
def admit_demonstrations(run: Run, fence: int, spelt: Sequence[Spelt]) -> int:
    """Add these demonstrations to the run's buffer; adding one again changes nothing.

    Returns the number of new ones. An expert's tokens have no behaviour logprob: the payload holds
    0.0, and no loss reads it. Raises StaleFence.
    """
    with run.fenced(fence) as locked:
        fresh = {demonstration.pk for demonstration in list_unadmitted_demonstrations(locked)}
        spelt = [
            (demonstration, tokens) for demonstration, tokens in spelt if demonstration.pk in fresh
        ]
        groups = find_expert_groups(locked, {_task(demonstration) for demonstration, _ in spelt})
        places = dict(
            Rollout.objects.filter(group__in=groups.values())
            .values_list("group")
            .annotate(n=Count("pk"))
        )
        rollouts = []
        for demonstration, tokens in spelt:
            group = groups[_task(demonstration)]
            place = places.get(group.pk, 0)
            places[group.pk] = place + 1
            rollouts.append(_rollout(group, place, demonstration.answer, tokens))
        Rollout.objects.bulk_create(rollouts)
        pairs = list(zip(rollouts, spelt, strict=True))
        RolloutPayload.objects.bulk_create(
            RolloutPayload(rollout=rollout, data=pack(tokens)) for rollout, (_, tokens) in pairs
        )
        ExpertAnswer.objects.bulk_create(
            ExpertAnswer(demonstration=d, run=locked, rollout=rollout) for rollout, (d, _) in pairs
        )
        Experience.objects.bulk_create(expert_experience(rollout) for rollout in rollouts)
    return len(rollouts)


def _task(demonstration: Demonstration) -> int:
    """Return the id of the task, which every demonstration that a run takes has."""
    assert demonstration.task_id is not None
    return demonstration.task_id


def find_expert_groups(run: Run, tasks: set[int]) -> dict[int, Group]:
    """Return the expert group of each of these tasks, creating missing ones.

    The caller holds the lock on the run's row.
    """
    existing = {
        group.task_id: group for group in run.groups.filter(draw_index=None, task__in=tasks)
    }
    missing = [
        Group(
            run=run,
            task_id=task,
            size=0,
            state=Group.State.ADMITTED,
            opened_version=0,
            sampled_at=Now(),
            closed_at=Now(),
        )
        for task in sorted(tasks - existing.keys())
    ]
    return existing | {group.task_id: group for group in Group.objects.bulk_create(missing)}


def _rollout(group: Group, place: int, text: str, tokens: Tokens) -> Rollout:
    return Rollout(
        run_id=group.run_id,
        group=group,
        sample_index=place,
        origin=Rollout.Origin.EXPERT,
        state=Rollout.State.FINISHED,
        text=text,
        stop_reason="stop",
        prompt_tokens=len(tokens.prompt_ids),
        completion_tokens=len(tokens.completion_ids),
        finished_at=Now(),
    )


def expert_experience(rollout: Rollout) -> Experience:
    """Return an unsaved experience of an expert's rollout, without reward or advantage."""
    return Experience(
        run_id=rollout.run_id,
        group_id=rollout.group_id,
        rollout=rollout,
        kind=Experience.Kind.EXPERT,
        reward=None,
        advantage=0.0,
        weight_version=0,
    )
