"""Preview of a rating item, over replies of the run or over placeholders."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import QuerySet

from apps.accounts.models import User
from apps.feedback.claiming import USUAL_LEASE_S, HeldItem, Member
from apps.feedback.item_display import ShownItem, show_item
from apps.rollouts.models import Group, Rollout
from apps.runs.models import Run
from apps.runs.people import COMPARES, People
from apps.tasksets.models import Task

STAND_INS = (
    "First sample reply.",
    "Second sample reply.",
    (
        "Third sample reply. It is longer than the others, to show how the page displays replies"
        " of different lengths."
    ),
    "Fourth sample reply.",
)
MAX_COMPARED = 8


@dataclass(frozen=True)
class Preview:
    """An item for the rating page's template, with where its replies are from and what happens."""

    shown: ShownItem
    source: str
    sentence: str


def preview_item(user: User, run: Run, plan: People) -> Preview:
    """Return a preview in the plan's form, over the run's newest complete group.

    Without one, it shows the taskset's first task with placeholders.
    """
    group = _example(run)
    reply_count = _replies_per_decision(run, plan)
    if group is None:
        task = run.tasksets[0].tasks.order_by("index")[0]
        replies = [
            Rollout(pk=n, text=text, state=Rollout.State.FINISHED)
            for n, text in enumerate(STAND_INS[:reply_count], start=1)
        ]
        source = "the first task of the taskset with sample replies"
        return Preview(
            show_item(user, _build_item(run, plan, task, None, replies)),
            source,
            describe_lease(plan),
        )
    replies = list(
        _finished_rollouts(group)
        .select_related("group__task")
        .order_by("sample_index")[:reply_count]
    )
    return Preview(
        show_item(user, held_over(run, plan, replies)),
        f"group {group.draw_index} of this run",
        describe_lease(plan),
    )


def held_over(run: Run, plan: People, rollouts: Sequence[Rollout]) -> HeldItem:
    """Return an item over these rollouts of one group, in the plan's form, as if leased."""
    return _build_item(run, plan, rollouts[0].group.task, rollouts[0].group, rollouts)


def describe_lease(plan: People) -> str:
    """Describe how long an item is leased, and what happens without a decision."""
    lease = f"{plan.lease_s:g} s" if plan.lease_s else "three times the median rating time"
    if not plan.per_group:
        return "This run asks no people."
    ends = {"machine_only": "uses the scorers' rewards", "drop": "is dropped"}.get(
        plan.at_deadline, "uses the rater model's rewards"
    )
    people = "one person rates it" if plan.overlap == 1 else f"{plan.overlap} people rate it"
    return (
        f"An item is reserved for {lease}, and {people}. After {plan.deadline_s:g} s without a"
        f" rating, its group {ends}."
    )


def _replies_per_decision(run: Run, plan: People) -> int:
    """Return how many replies one decision of this form compares."""
    if plan.form not in COMPARES:
        return 1
    return (
        2
        if plan.form == "pairwise"
        else min(run.settings.group_size, plan.per_group or MAX_COMPARED, MAX_COMPARED)
    )


def _example(run: Run) -> Group | None:
    groups = run.groups.exclude(
        state__in=[Group.State.SAMPLING, Group.State.DROPPED]
    ).select_related("task")
    return next(
        (group for group in groups.order_by("-pk")[:5] if _finished_rollouts(group).count() > 1),
        None,
    )


def _finished_rollouts(group: Group) -> QuerySet[Rollout]:
    return group.rollouts.filter(state=Rollout.State.FINISHED, origin=Rollout.Origin.POLICY)


def _build_item(
    run: Run, plan: People, task: Task, group: Group | None, rollouts: Sequence[Rollout]
) -> HeldItem:
    return HeldItem(
        slot_id=0,
        item_id=0,
        fence=0,
        version=1,
        lease_s=plan.lease_s or USUAL_LEASE_S,
        form=plan.form,
        run_id=run.pk,
        run_slug=run.slug,
        run_title=run.title,
        project_slug=run.project.slug,
        group_id=group.pk if group else 0,
        draw_index=group.draw_index if group else 0,
        people=plan,
        prompt=task.prompt,
        task_id=task.pk,
        deadline_in_s=plan.deadline_s,
        members=tuple(Member(rollout.pk, rollout.text, rollout) for rollout in rollouts),
    )
