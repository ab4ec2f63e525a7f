"""What a rater would see of a run: an item as it would be held, over replies the run has, or over words that stand for them."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import QuerySet

from apps.accounts.models import User
from apps.feedback.claiming import USUAL_LEASE_S, Held, Member
from apps.feedback.showing import Shown, shown_to
from apps.rollouts.models import Group, Rollout
from apps.runs.models import Run
from apps.runs.people import COMPARES, People
from apps.tasksets.models import Task

STAND_INS = (
    "The first reply will stand here, as the policy writes it.",
    "The second reply will stand here.",
    "The third reply will stand here. It may be longer than the others: a policy that is paid for words writes many.",
    "The fourth reply will stand here.",
)
MOST_COMPARED = 8


@dataclass(frozen=True)
class Preview:
    """An item for the rating page's own template, and in words where its replies are from and what happens around it."""

    shown: Shown
    source: str
    sentence: str


def preview_of(user: User, run: Run, plan: People) -> Preview:
    """The newest whole group of the run in the plan's form; before there is one, the taskset's first task with stand-ins."""
    group, wanted = _example(run), _wanted(run, plan)
    if group is None:
        task = run.tasksets[0].tasks.order_by("index").first()
        replies = [Rollout(pk=n, text=text, state=Rollout.State.FINISHED) for n, text in enumerate(STAND_INS[:wanted], start=1)]
        source = "the taskset's first task; replies come once the run has written some"
        return Preview(shown_to(user, _held(run, plan, task, None, replies)), source, sentence_of(plan))
    replies = list(_finished(group).select_related("group__task").order_by("sample_index")[:wanted])
    return Preview(shown_to(user, held_over(run, plan, replies)), f"group {group.draw_index} of this run", sentence_of(plan))


def held_over(run: Run, plan: People, rollouts: Sequence[Rollout]) -> Held:
    """An item over these rollouts of one group as somebody would hold it, in the plan's form."""
    return _held(run, plan, rollouts[0].group.task, rollouts[0].group, rollouts)


def sentence_of(plan: People) -> str:
    """How long it is theirs, and what happens when nobody decides."""
    lease = f"{plan.lease_s:g} s" if plan.lease_s else "three times the median decision"
    if not plan.per_group:
        return "Nobody is asked: no reply of a group waits for a person."
    ends = {"machine_only": "goes on with the machine's rewards", "drop": "is dropped"}.get(
        plan.at_deadline, "is filled in by the rater model"
    )
    people = "one person decides" if plan.overlap == 1 else f"{plan.overlap} people decide"
    return f"An item is held for {lease}; {people} it. After {plan.deadline_s:g} s without an answer its group {ends}."


def _wanted(run: Run, plan: People) -> int:
    """How many replies one decision of this form looks at."""
    if plan.form not in COMPARES:
        return 1
    return 2 if plan.form == "pairwise" else min(run.settings.group_size, plan.per_group or MOST_COMPARED, MOST_COMPARED)


def _example(run: Run) -> Group | None:
    whole = run.groups.exclude(state__in=[Group.State.SAMPLING, Group.State.DROPPED]).select_related("task")
    return next((group for group in whole.order_by("-pk")[:5] if _finished(group).count() > 1), None)


def _finished(group: Group) -> QuerySet[Rollout]:
    return group.rollouts.filter(state=Rollout.State.FINISHED, origin=Rollout.Origin.POLICY)


def _held(run: Run, plan: People, task: Task, group: Group | None, rollouts: Sequence[Rollout]) -> Held:
    return Held(
        slot_id=0, item_id=0, fence=0, version=1, lease_s=plan.lease_s or USUAL_LEASE_S, form=plan.form, run_id=run.pk,
        run_slug=run.slug, run_title=run.title, project_slug=run.project.slug, group_id=group.pk if group else 0,
        draw_index=group.draw_index if group else 0, people=plan, prompt=task.prompt, task_id=task.pk,
        deadline_in_s=plan.deadline_s, members=tuple(Member(rollout.pk, rollout.text, rollout) for rollout in rollouts),
    )  # fmt: skip
