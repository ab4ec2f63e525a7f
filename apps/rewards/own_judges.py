"""Whether a run has the scorers that tasks name for themselves (`meta.judged_by`)."""

from collections.abc import Iterable, Iterator
from typing import Any

from django.db.models import QuerySet

from apps.runs.config import RunConfig
from apps.tasksets.judged_by import KEY, BadJudges, named_in
from apps.tasksets.models import Task


def find_own_judge_problems(plan: RunConfig, tasks: QuerySet[Task]) -> dict[str, str]:
    """Return, by dotted field, the first task whose own choice of scorers cannot be used.

    Tasks never change, so this is checked once.
    """
    if plan.algorithm.learns_from_lessons:
        return {}
    having = tasks.filter(**{f"meta__{KEY}__isnull": False}).order_by("taskset__slug", "index")
    rows = having.values_list("taskset__slug", "index", f"meta__{KEY}")
    why = next(_iterate_problems(plan, rows.iterator(chunk_size=1000)), "")
    return {"rewards": why} if why else {}


def _iterate_problems(plan: RunConfig, rows: Iterable[tuple[str, int, Any]]) -> Iterator[str]:
    run_scorers = [choice.scorer for choice in plan.rewards]
    for slug, index, judged_by in rows:
        task = f"task {index:,} of {slug!r}"
        try:
            names = named_in({KEY: judged_by})
        except BadJudges as bad:
            yield f"{task}: {bad}"
            continue
        if unknown := [name for name in names if name not in run_scorers]:
            yield (
                f"{task} names the scorer {unknown[0]!r} (meta.{KEY}), but the run has "
                f"{', '.join(run_scorers) or 'no scorer'}: add it"
            )
        elif names and plan.algorithm.advantage.name == "gdpo":
            yield (
                f"`gdpo` needs a reward from every scorer on every task, but {task} names its own: "
                "choose `algorithm.name: grpo`"
            )
