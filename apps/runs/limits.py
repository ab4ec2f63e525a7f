"""Limits of the answers to a task in a run: the task's own, never more than the run allows."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from apps.runs.config import RunConfig
from apps.tasksets.limits import KEY, BadLimits, Limits, limits_in
from apps.tasksets.models import Taskset


def read_limits(plan: RunConfig, meta: Mapping[str, Any]) -> Limits:
    """Return the limits of a task with this meta. Raises BadLimits."""
    return limits_in(meta).within(Limits(plan.sampling.max_tokens, plan.sampling.time_s))


def find_limit_problems(plan: RunConfig, tasksets: Sequence[Taskset]) -> dict[str, str]:
    """Return, by dotted field, the first task of each set whose limits cannot be kept.

    Tasks never change, so this is checked once.
    """
    if not plan.samples or plan.serve:
        return {}
    problems = {}
    for taskset in tasksets:
        having = taskset.tasks.filter(**{f"meta__{KEY}__isnull": False}).order_by("index")
        if wrong := next(
            _wrong(plan, having.values_list("index", "meta").iterator(chunk_size=1000)), ""
        ):
            problems[f"tasksets.{taskset.slug}" if plan.tasksets else "taskset"] = wrong
    return problems


def _wrong(plan: RunConfig, rows: Iterable[tuple[int, dict[str, Any]]]) -> Iterator[str]:
    for index, meta in rows:
        try:
            task_limits = limits_in(meta)
        except BadLimits as why:
            yield f"task {index:,}: {why}"
        else:
            if task_limits.time_s is not None and plan.environment is not None:
                yield (
                    f"task {index:,}: meta.{KEY}.time_s limits a reply, but an environment needs "
                    "complete replies; it has its own limits, turn_s and episode_s. Use a taskset "
                    "without time_s, or remove `environment`"
                )
