"""Several tasksets as one, for a run over several domains."""

import heapq
from collections.abc import Callable, Iterator, Sequence

from apps.tasksets.models import Taskset
from apps.tasksets.rows import TaskRow
from apps.tasksets.storing import Origin, store_taskset


def join(
    origin: Origin,
    parts: Sequence[Taskset],
    progress: Callable[[int], None] = lambda task_count: None,
) -> Taskset:
    """Return the parts' tasks as a new taskset, each part spread evenly over it.

    The parts stay as they are.

    A task without a domain gets its part's name for one: a run chooses scorers by it. Raises
    ValueError where a part is another project's, IntegrityError when the slug is taken.
    """
    foreign_slugs = [part.slug for part in parts if part.project_id != origin.project.pk]
    if foreign_slugs:
        raise ValueError(f"{', '.join(foreign_slugs)}: belongs to another project")
    spread_rows = heapq.merge(
        *(_with_positions(order, part) for order, part in enumerate(parts)),
        key=lambda positioned: positioned[:2],
    )
    return store_taskset(origin, (row for *_, row in spread_rows), progress=progress)


def _with_positions(order: int, part: Taskset) -> Iterator[tuple[float, int, TaskRow]]:
    """Yield the part's rows, each with the share of the part before its middle."""
    for number, task in enumerate(part.tasks.order_by("index").iterator(chunk_size=500)):
        row = TaskRow(
            task.prompt, task.answer, task.meta, task.follow_ups, domain=task.domain or part.slug
        )
        yield (number + 0.5) / part.size, order, row
