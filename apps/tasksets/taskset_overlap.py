"""Overlap of two stored tasksets: the users' texts, task against task."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from apps.tasksets.messages import content_text
from apps.tasksets.models import Taskset
from apps.tasksets.overlap import THRESHOLD, OverlapIndex, Pair

ROWS_AT_ONCE = 1_000
LISTED = 10_000  # pairs that are held; the rest are counted


@dataclass
class Overlap:
    """Overlap of two sets: `exact` and `near` count each checked task once.

    `pairs` are the first found.
    """

    tasks: int = 0
    others: int = 0
    exact: int = 0
    near: int = 0
    count: int = 0
    pairs: list[Pair] = field(default_factory=list)

    @property
    def share(self) -> float:
        """Return the share of the checked tasks that the other set has, exactly or nearly."""
        return (self.exact + self.near) / self.tasks if self.tasks else 0.0


def measure_overlap(
    checked: Taskset,
    other: Taskset,
    threshold: float = THRESHOLD,
    tell: Callable[[Pair], object] = lambda pair: None,
    progress: Callable[[int], None] = lambda task_count: None,
) -> Overlap:
    """Measure how much of `checked` is in `other`. Raises TooMuch.

    `tell` is called with every pair, `progress` with the number of tasks of both sets read so far.
    """
    overlap = Overlap(checked.size, other.size)
    exact: set[int] = set()
    near: set[int] = set()
    index = OverlapIndex(
        _with_progress(iterate_texts(checked), lambda task_count: progress(task_count))
    )
    for place, text in enumerate(
        _with_progress(iterate_texts(other), lambda task_count: progress(checked.size + task_count))
    ):
        for pair in index.meets(place, text, threshold):
            tell(pair)
            overlap.count += 1
            if len(overlap.pairs) < LISTED:
                overlap.pairs.append(pair)
            tasks = exact if pair.is_exact else near
            tasks.add(pair.checked)
    overlap.exact = len(exact)
    overlap.near = len(near - exact)
    return overlap


def iterate_texts(taskset: Taskset) -> Iterator[str]:
    """Yield the user's text in each task, in the order of the set.

    System messages and model answers are left out: they do not identify a task.
    """
    for prompt, follow_ups in iterate_prompts(taskset):
        yield said_in(prompt, follow_ups)


def said_in(prompt: Sequence[dict], follow_ups: Sequence[str]) -> str:
    """Return the user's messages in a task as one text."""
    texts = [content_text(message["content"]) for message in prompt if message["role"] == "user"]
    return "\n".join([*texts, *follow_ups])


def iterate_prompts(taskset: Taskset) -> Iterator[tuple[list, list]]:
    """Yield (prompt, follow-ups) of the set's tasks by index, each batch by a query of its own."""
    for first in range(0, taskset.size, ROWS_AT_ONCE):
        batch = taskset.tasks.filter(index__gte=first, index__lt=first + ROWS_AT_ONCE).order_by(
            "index"
        )
        yield from batch.values_list("prompt", "follow_ups")


def _with_progress(texts: Iterator[str], progress: Callable[[int], None]) -> Iterator[str]:
    for text_count, text in enumerate(texts, start=1):
        yield text
        if not text_count % ROWS_AT_ONCE:
            progress(text_count)
