"""Requirements of a selection by difficulty on the taskset, checked before the run starts."""

from collections.abc import Iterator, Sequence

from apps.runs.config import RunConfig
from apps.runs.selection import ByDifficulty, Mixture, Pools
from apps.tasksets.models import DifficultyScale, Taskset
from apps.tasksets.scales import find_scale, scale_by_domain

DOMAINS_SHOWN = 20


def find_scale_problems(plan: RunConfig, tasksets: Sequence[Taskset]) -> dict[str, str]:
    """Return what the selection lacks, by dotted field; empty if the run can be made.

    A scale of the tasks' meta is made here, once for each taskset.
    """
    return next(filter(None, (_of_one(plan, taskset) for taskset in tasksets)), {})


def _of_one(plan: RunConfig, taskset: Taskset) -> dict[str, str]:
    if isinstance(plan.selection, Mixture):
        return dict(_of_parts(plan.selection, scale_by_domain(taskset)))
    if not isinstance(plan.selection, ByDifficulty):
        return {}
    try:
        scale = find_scale(taskset, plan.selection.scale)
    except ValueError as wrong:
        return {"selection.scale": str(wrong)}
    return dict(_of_pools(plan.selection, scale)) if isinstance(plan.selection, Pools) else {}


def pool_ends(rule: Pools, scale: DifficultyScale, size: int) -> list[int]:
    """Return for each pool the place after its last task."""
    return [*(scale.up_to(end) for end in rule.ends), size]


def _of_parts(rule: Mixture, scale: DifficultyScale) -> Iterator[tuple[str, str]]:
    """Yield the parts whose domain no task has."""
    for n, part in enumerate(rule.parts):
        if part.domain not in scale.bands:
            domains = ", ".join(repr(name) for name in list(scale.bands)[:DOMAINS_SHOWN])
            yield (
                f"selection.parts.{n}.domain",
                f"no task has the domain {part.domain!r}; there are {domains}",
            )


def _of_pools(rule: Pools, scale: DifficultyScale) -> Iterator[tuple[str, str]]:
    """Yield the pools with a share of the draws but without tasks."""
    first = 0
    for n, (pool, end) in enumerate(
        zip(rule.pools, pool_ends(rule, scale, scale.taskset.size), strict=True)
    ):
        if pool.share and end == first:
            yield (
                f"selection.pools.{n}",
                (
                    f"no task of {scale.taskset.slug!r} is in this band of {rule.scale!r}: change "
                    "`max_value`, or set its share to 0"
                ),
            )
        first = end
