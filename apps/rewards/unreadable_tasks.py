"""Check whether scorers find in tasks what they judge by.

Each says so itself: asked about an empty answer, it gives no number.
"""

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
class UnreadableTasks:
    """Scorer that cannot judge `tasks` of the `of` that were looked at.

    `why`: its reason for the first of them.
    """

    taskset: str
    scorer: str
    tasks: int
    of: int
    why: str


def choose_sample_tasks(taskset: Taskset) -> list[Task]:
    """Return a few tasks from all over the set; one query."""
    places = {n * taskset.size // LOOKED_AT for n in range(LOOKED_AT)}
    return list(
        taskset.tasks.filter(index__in=places)
        .order_by("index")
        .only("index", "prompt", "answer", "meta", "domain")
    )


def reads(scorer: str, tasks: Sequence[Task]) -> bool:
    """Tell whether the scorer can judge answers to each of these tasks."""
    return bool(tasks) and not any(why_unread(scorer, task) for task in tasks)


def list_unreadable(plan: RunConfig, project: Project) -> Iterator[UnreadableTasks]:
    """Yield the scorers of this run that cannot judge some of its tasks, by taskset.

    It takes a query for each taskset, and one more.
    """
    if not plan.samples:
        return
    for taskset in project.tasksets.filter(
        slug__in=[name for name in plan.taskset_names if name]
    ).order_by("slug"):
        tasks = choose_sample_tasks(taskset)
        for choice in plan.rewards:
            scored = [task for task in tasks if choice in plan.scorers_of(task.kind)]
            if reasons := [why for task in scored if (why := why_unread(choice.scorer, task))]:
                yield UnreadableTasks(
                    taskset.slug, choice.scorer, len(reasons), len(scored), reasons[0]
                )


def why_unread(scorer: str, task: Task) -> str:
    """Return the scorer's reason why it cannot judge any answer to this task; "" if it can.

    Scorers that ask a model or compare several answers are not tried, nor are those of plugins,
    which no time limit would stop here. Options keep their defaults, as none of them says where in
    a task the right answer is.
    """
    if scorer not in scorers.scorer_names():
        return ""
    implementation = scorers.find_scorer(scorer)
    if implementation.only_asks or implementation.of_group or implementation.is_plugin:
        return ""
    try:
        verdict = implementation.judge(
            [NO_WORD], TaskView(task.prompt, task.answer, task.domain, task.meta)
        )[0]
    except ValidationError:  # it has options that must be given
        return ""
    return verdict.reason if verdict.value is None and not verdict.undecided else ""
