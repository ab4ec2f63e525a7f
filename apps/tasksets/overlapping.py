"""The overlap of two stored tasksets: what their users say, task against task."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from apps.tasksets.messages import text_of
from apps.tasksets.models import Taskset
from apps.tasksets.overlap import THRESHOLD, Checked, Pair

ROWS_AT_ONCE = 1_000
LISTED = 10_000  # pairs that are held; the rest are counted


@dataclass
class Overlap:
    """Tasks of the checked set that the other one has: `exact` and `near` count each task once. `pairs` are the first found."""

    tasks: int = 0
    others: int = 0
    exact: int = 0
    near: int = 0
    count: int = 0
    pairs: list[Pair] = field(default_factory=list)

    @property
    def share(self) -> float:
        """Of the checked tasks, those that the other set has in either way."""
        return (self.exact + self.near) / self.tasks if self.tasks else 0.0


def compare(
    checked: Taskset,
    other: Taskset,
    threshold: float = THRESHOLD,
    tell: Callable[[Pair], object] = lambda pair: None,
    progress: Callable[[int], None] = lambda done: None,
) -> Overlap:
    """How much of `checked` is in `other`; `tell` hears every pair, `progress` how many tasks of both were read. Raises TooMuch."""
    found, exact, near = Overlap(checked.size, other.size), set(), set()
    held = Checked(_told(texts_of(checked), lambda done: progress(done)))
    for place, text in enumerate(_told(texts_of(other), lambda done: progress(checked.size + done))):
        for pair in held.meets(place, text, threshold):
            tell(pair)
            found.count += 1
            found.pairs += [pair] if len(found.pairs) < LISTED else []
            (exact if pair.is_exact else near).add(pair.checked)
    found.exact, found.near = len(exact), len(near - exact)
    return found


def texts_of(taskset: Taskset) -> Iterator[str]:
    """What the user says in each task, in the order of the set; system messages and model answers say nothing of the task."""
    for prompt, follow_ups in prompts_of(taskset):
        yield said_in(prompt, follow_ups)


def said_in(prompt: Sequence[dict], follow_ups: Sequence[str]) -> str:
    """What the user says in a task, as one text."""
    said = [text_of(message["content"]) for message in prompt if message["role"] == "user"]
    return "\n".join([*said, *follow_ups])


def prompts_of(taskset: Taskset) -> Iterator[tuple[list, list]]:
    """(prompt, follow-ups) of its tasks by index, each batch a query of its own."""
    for first in range(0, taskset.size, ROWS_AT_ONCE):
        some = taskset.tasks.filter(index__gte=first, index__lt=first + ROWS_AT_ONCE).order_by("index")
        yield from some.values_list("prompt", "follow_ups")


def _told(texts: Iterator[str], progress: Callable[[int], None]) -> Iterator[str]:
    for done, text in enumerate(texts, start=1):
        yield text
        if not done % ROWS_AT_ONCE:
            progress(done)
