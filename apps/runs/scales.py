"""What a selection by difficulty needs of the taskset, by field, before the run can draw by it."""

from collections.abc import Iterator, Sequence

from apps.runs.config import RunConfig
from apps.runs.selection import ByDifficulty, Mixture, Pools
from apps.tasksets.models import DifficultyScale, Taskset
from apps.tasksets.scales import domains_of, scale_of

DOMAINS_SHOWN = 20


def problems_of(plan: RunConfig, tasksets: Sequence[Taskset]) -> dict[str, str]:
    """By dotted field; empty when the run can be made. A scale of the tasks' meta is made here, once for each taskset."""
    return next(filter(None, (_of_one(plan, taskset) for taskset in tasksets)), {})


def _of_one(plan: RunConfig, taskset: Taskset) -> dict[str, str]:
    if isinstance(plan.selection, Mixture):
        return dict(_of_parts(plan.selection, domains_of(taskset)))
    if not isinstance(plan.selection, ByDifficulty):
        return {}
    try:
        scale = scale_of(taskset, plan.selection.by)
    except ValueError as wrong:
        return {"selection.by": str(wrong)}
    return dict(_of_pools(plan.selection, scale)) if isinstance(plan.selection, Pools) else {}


def ends_of(rule: Pools, scale: DifficultyScale, size: int) -> list[int]:
    """Of each pool, the place after its last task."""
    return [*(scale.up_to(pool.up_to) for pool in rule.pools[:-1]), size]


def _of_parts(rule: Mixture, scale: DifficultyScale) -> Iterator[tuple[str, str]]:
    """A part's domain is one of the tasks'."""
    for n, part in enumerate(rule.parts):
        if part.domain not in scale.bands:
            known = ", ".join(repr(name) for name in list(scale.bands)[:DOMAINS_SHOWN])
            yield f"selection.parts.{n}.domain", f"no task is of the domain {part.domain!r}; there are {known}"


def _of_pools(rule: Pools, scale: DifficultyScale) -> Iterator[tuple[str, str]]:
    """A pool that shares the draws has something to draw."""
    first = 0
    for n, (pool, end) in enumerate(zip(rule.pools, ends_of(rule, scale, scale.taskset.size), strict=True)):
        if pool.share and end == first:
            yield (
                f"selection.pools.{n}",
                f"no task of {scale.taskset.slug!r} has such a number of {rule.by!r}: move `up_to`, or give it the share 0",
            )
        first = end
