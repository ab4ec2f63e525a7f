"""Overlap of prompts with evaluation sets that a pipeline names, by an index built once per set.

A set that does not grow never changes, so its index is kept under the digest of its content, per
process; the least recently used index is evicted when all together would be too large.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from threading import Lock
from typing import Any

import structlog

from apps.accounts.models import Project
from apps.pipelines.deciding import Case
from apps.pipelines.operators import find_operator
from apps.runs.pipeline import OperatorChoice
from apps.tasksets.messages import list_pictures
from apps.tasksets.models import Task, Taskset
from apps.tasksets.overlap import OverlapIndex, Pair, TooMuch, normalise_words
from apps.tasksets.rows import TaskRow
from apps.tasksets.taskset_overlap import iterate_prompts, said_in

log = structlog.get_logger(__name__)
# Tasks of all sets of a run's pipeline together; their indexes are built while groups wait.
MAX_TASKS = 50_000
MAX_HELD = 5_000_000  # 8-grams in all indexes of a process: 12 bytes and about 3 µs each
ASK = "also_in"


class Index:
    """The texts of one set's tasks, and an index of their 8-grams. Raises TooMuch."""

    def __init__(self, taskset: Taskset) -> None:
        self.pictured: set[int] = set()
        self.checked = OverlapIndex(self._texts(taskset), MAX_HELD)

    def _texts(self, taskset: Taskset) -> Iterator[str]:
        for place, (prompt, follow_ups) in enumerate(iterate_prompts(taskset)):
            if list_pictures(prompt):
                self.pictured.add(place)
            yield _text(prompt, follow_ups)

    @property
    def size(self) -> int:
        return len(self.checked.grams)

    def most_said(self, task: Task | TaskRow) -> Pair | None:
        """Return the task of the set that this one overlaps most, the first of equals.

        None without any.

        For tasks with pictures only the same text with the same pictures counts: many ask the same
        question about different pictures.
        """
        text = _text(task.prompt, task.follow_ups)
        shows = bool(list_pictures(task.prompt))
        if not normalise_words(text):
            return None
        met = self.checked.meets(0, text, threshold=0)
        counted = (
            pair for pair in met if pair.is_exact or not (shows or pair.checked in self.pictured)
        )
        return min(
            counted, key=lambda pair: (not pair.is_exact, -pair.share, pair.checked), default=None
        )


def _text(prompt: Sequence[dict], follow_ups: Sequence[str]) -> str:
    return "\n".join([said_in(prompt, follow_ups), *list_pictures(prompt)])


# Indexes by digest, the most recently used one last.
_held: OrderedDict[str, Index] = OrderedDict()
# Numbers of 8-grams by digest, so that a set that is too large is read once.
_sizes: dict[str, int] = {}
_lock = Lock()


def load_index(taskset: Taskset, room: int) -> Index:
    """Return the set's index, cached or built now. Raises TooMuch above `room` 8-grams."""
    with _lock:
        if taskset.digest not in _held and _sizes.get(taskset.digest, 0) <= room:
            _held[taskset.digest] = _built(taskset)
        while len(_held) > 1 and sum(index.size for index in _held.values()) > MAX_HELD:
            _held.popitem(last=False)
        if _sizes[taskset.digest] > room:
            raise TooMuch(f"has more than {room} 8-grams")
        _held.move_to_end(taskset.digest)
        return _held[taskset.digest]


def _built(taskset: Taskset) -> Index:
    try:
        index = Index(taskset)
    except TooMuch:
        _sizes[taskset.digest] = MAX_HELD + 1
        raise
    _sizes[taskset.digest] = index.size
    return index


def also_in(cases: Sequence[Case], options: Sequence) -> list[dict[str, Pair | None]]:
    """Return, for each group, the most overlapping task of each named set."""
    return tasks_also_in(
        cases[0].group.run.project_id, [case.group.task for case in cases], options
    )


def tasks_also_in(
    project: int, tasks: Sequence[Task | TaskRow], options: Sequence
) -> list[dict[str, Pair | None]]:
    """Return, for each task, the most overlapping task of each named set."""
    names = {name for option in options for name in option.tasksets}
    indexes = dict(_indexes(_sets(project, names).values()))
    return [{name: index.most_said(task) for name, index in indexes.items()} for task in tasks]


def _indexes(tasksets: Iterable[Taskset]) -> Iterator[tuple[str, Index]]:
    """Yield the indexes that fit in memory together.

    For a set that does not fit, an error is logged; its operator finds no index, and its groups
    wait.
    """
    room = MAX_HELD
    for taskset in tasksets:
        try:
            index = load_index(taskset, room)
        except TooMuch as error:
            log.error("evaluation_set_too_large", taskset=taskset.slug, reason=str(error))
        else:
            room -= index.size
            yield taskset.slug, index


def _sets(project: int, names: Iterable[str]) -> dict[str, Taskset]:
    return {
        taskset.slug: taskset
        for taskset in Taskset.objects.filter(
            project=project, slug__in=names, grows=False
        ).order_by("slug")
    }


# -- when a run is made, or its pipeline changed


def find_evaluation_set_problems(
    pipeline: Sequence[OperatorChoice], project: Project, drawn: Collection[str] = ()
) -> dict[str, str]:
    """Return why named sets cannot be compared with, by dotted field below the pipeline.

    `drawn` holds the names of the sets whose tasks are compared with them.
    """
    names_by_field = _named_sets(pipeline)
    tasksets = _sets(project.pk, names_by_field.values())
    problems = {
        field: why
        for field, name in names_by_field.items()
        if (why := _why_not(name, drawn, tasksets))
    }
    size = sum(taskset.size for taskset in tasksets.values())
    if size > MAX_TASKS and not problems:
        field = next(iter(names_by_field)).rpartition(".")[0]
        return {
            field: (
                f"evaluation sets have {size} tasks in total; the maximum for a pipeline is "
                f"{MAX_TASKS}"
            )
        }
    return problems


def _named_sets(pipeline: Sequence[OperatorChoice]) -> Mapping[str, str]:
    set_names: dict[str, str] = {}
    for place, choice in enumerate(pipeline):
        operator = find_operator(choice.operator)
        if ASK in operator.asks:
            options: Any = operator.read_options(choice.options)  # those that ask have `tasksets`
            for at, name in enumerate(options.tasksets):
                set_names[f"{place}.options.tasksets.{at}"] = name
    return set_names


def _why_not(name: str, drawn: Collection[str], tasksets: Mapping[str, Taskset]) -> str:
    if name in drawn:
        return (
            f"{name!r} is the run's own taskset, so all of its groups would be dropped; name test "
            "sets"
        )
    return "" if name in tasksets else f"the project has no taskset {name!r} that cannot grow"
