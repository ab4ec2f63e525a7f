"""Whether scorers find in tasks what they judge by. Each says so itself: asked about an empty answer, it gives no number."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from apps.accounts.models import Project
from apps.rewards import scorers
from apps.rewards.scorers import RolloutView, TaskView
from apps.runs.config import RunConfig
from apps.tasksets.models import Task, Taskset

LOOKED_AT = 8  # tasks of a set, from its first to its last
NO_WORD = RolloutView("", tokens=0, stop_reason="stop")


@dataclass(frozen=True)
class Unread:
    """`tasks` of the `of` that were looked at tell this scorer nothing to judge by; `why`: its words about the first of them."""

    taskset: str
    scorer: str
    tasks: int
    of: int
    why: str


def looked_at(taskset: Taskset) -> list[Task]:
    """A few tasks from all over the set; one query."""
    places = {n * taskset.size // LOOKED_AT for n in range(LOOKED_AT)}
    return list(taskset.tasks.filter(index__in=places).order_by("index").only("index", "prompt", "answer", "meta", "domain"))


def reads(scorer: str, tasks: Sequence[Task]) -> bool:
    """Whether it can judge answers to each of them."""
    return bool(tasks) and not any(why_unread(scorer, task) for task in tasks)


def unread_of(plan: RunConfig, project: Project) -> Iterator[Unread]:
    """What would get no reward from a scorer of this run, although that is asked; a query for each taskset, and one."""
    if not plan.samples:
        return
    for taskset in project.tasksets.filter(slug__in=[name for name in plan.taskset_names if name]).order_by("slug"):
        tasks = looked_at(taskset)
        for choice in plan.rewards:
            asked = [task for task in tasks if choice in plan.scorers_of(task.kind)]
            if found := [why for task in asked if (why := why_unread(choice.scorer, task))]:
                yield Unread(taskset.slug, choice.scorer, len(found), len(asked), found[0])


def why_unread(scorer: str, task: Task) -> str:
    """Why it cannot judge any answer to this task, in its own words; "" where it can, or asks a model or other answers first.

    Its options are left as they are unless told: none of them says where in a task the right answer stands.
    """
    if scorer not in scorers.names():
        return ""
    found = scorers.find(scorer)
    if found.only_asks or found.of_group:
        return ""
    try:
        verdict = found.judge([NO_WORD], TaskView(task.prompt, task.answer, task.domain, task.meta))[0]
    except ValidationError:  # it has options that must be given
        return ""
    return verdict.reason if verdict.value is None and not verdict.undecided else ""
