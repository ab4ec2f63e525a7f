"""Evaluation sets that a pipeline names: of which of their tasks a prompt says most, from an index that is built once.

A set that does not grow never changes, so its index is kept under the digest of its content, in the process that asked, and the one
that was not asked for longest goes when all together would be too large.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from threading import Lock

import structlog

from apps.accounts.models import Project
from apps.pipelines.deciding import Case
from apps.pipelines.operators import find
from apps.runs.pipeline import OperatorChoice
from apps.tasksets.messages import pictures_of
from apps.tasksets.models import Task, Taskset
from apps.tasksets.overlap import Checked, Pair, TooMuch, normalised
from apps.tasksets.overlapping import prompts_of, said_in
from apps.tasksets.rows import TaskRow

log = structlog.get_logger(__name__)
MOST_TASKS = 50_000  # of the sets of a run's pipeline together: their indexes are built while groups wait
MOST_HELD = 5_000_000  # 8-grams of all indexes of a process: 12 bytes each, and some 3 µs to build
ASK = "also_in"


class Index:
    """The texts of one set's tasks, and which 8-gram is in which. Raises TooMuch."""

    def __init__(self, taskset: Taskset) -> None:
        self.pictured: set[int] = set()
        self.checked = Checked(self._texts(taskset), MOST_HELD)

    def _texts(self, taskset: Taskset) -> Iterator[str]:
        for place, (prompt, follow_ups) in enumerate(prompts_of(taskset)):
            if pictures_of(prompt):
                self.pictured.add(place)
            yield _text(prompt, follow_ups)

    @property
    def size(self) -> int:
        return len(self.checked.grams)

    def most_said(self, task: Task | TaskRow) -> Pair | None:
        """The task of the set of which this one says most, the first of equals; None when it says nothing of any.

        Of tasks that show pictures only the same text with the same pictures counts: many ask the same of different ones.
        """
        text, shows = _text(task.prompt, task.follow_ups), bool(pictures_of(task.prompt))
        if not normalised(text):
            return None
        met = self.checked.meets(0, text, threshold=0)
        counted = (pair for pair in met if pair.is_exact or not (shows or pair.checked in self.pictured))
        return min(counted, key=lambda pair: (not pair.is_exact, -pair.share, pair.checked), default=None)


def _text(prompt: Sequence[dict], follow_ups: Sequence[str]) -> str:
    return "\n".join([said_in(prompt, follow_ups), *pictures_of(prompt)])


_held: OrderedDict[str, Index] = OrderedDict()  # by digest, the one that was asked for last at the end
_sizes: dict[str, int] = {}  # by digest, 8-grams of every set that was read: what is too large is read once
_lock = Lock()


def index_of(taskset: Taskset, room: int) -> Index:
    """From memory, or built now. Raises TooMuch for one of more than `room` 8-grams."""
    with _lock:
        if taskset.digest not in _held and _sizes.get(taskset.digest, 0) <= room:
            _held[taskset.digest] = _built(taskset)
        while len(_held) > 1 and sum(index.size for index in _held.values()) > MOST_HELD:
            _held.popitem(last=False)
        if _sizes[taskset.digest] > room:
            raise TooMuch(f"has more than {room} 8-grams")
        _held.move_to_end(taskset.digest)
        return _held[taskset.digest]


def _built(taskset: Taskset) -> Index:
    try:
        index = Index(taskset)
    except TooMuch:
        _sizes[taskset.digest] = MOST_HELD + 1
        raise
    _sizes[taskset.digest] = index.size
    return index


def also_in(cases: Sequence[Case], options: Sequence) -> list[dict[str, Pair | None]]:
    """For each of these groups of one run, by name of a set, the task of it of which its own says most."""
    return tasks_also_in(cases[0].group.run.project_id, [case.group.task for case in cases], options)


def tasks_also_in(project: int, tasks: Sequence[Task | TaskRow], options: Sequence) -> list[dict[str, Pair | None]]:
    """For each of these tasks the same."""
    names = {name for one in options for name in one.tasksets}
    indexes = dict(_indexes(_sets(project, names).values()))
    return [{name: index.most_said(task) for name, index in indexes.items()} for task in tasks]


def _indexes(tasksets: Iterable[Taskset]) -> Iterator[tuple[str, Index]]:
    """Without a set that memory cannot hold beside those before it: the operator misses it, and its groups wait."""
    room = MOST_HELD
    for taskset in tasksets:
        try:
            index = index_of(taskset, room)
        except TooMuch as error:
            log.error("evaluation_set_too_large", taskset=taskset.slug, reason=str(error))
        else:
            room -= index.size
            yield taskset.slug, index


def _sets(project: int, names: Iterable[str]) -> dict[str, Taskset]:
    return {one.slug: one for one in Taskset.objects.filter(project=project, slug__in=names, grows=False).order_by("slug")}


# -- when a run is made, or its pipeline changed -----------------------------------------------------------------------------


def problems_of(pipeline: Sequence[OperatorChoice], project: Project, drawn: Collection[str] = ()) -> dict[str, str]:
    """Why sets that operators name cannot be compared with, by dotted field below the pipeline.

    `drawn`: names of the sets whose tasks they are compared with.
    """
    named = _named(pipeline)
    found = _sets(project.pk, named.values())
    problems = {field: why for field, name in named.items() if (why := _why_not(name, drawn, found))}
    size = sum(taskset.size for taskset in found.values())
    if size > MOST_TASKS and not problems:
        field = next(iter(named)).rpartition(".")[0]
        return {field: f"evaluation sets of {size} tasks together; {MOST_TASKS} are the most that a pipeline compares with"}
    return problems


def _named(pipeline: Sequence[OperatorChoice]) -> Mapping[str, str]:
    return {
        f"{place}.options.tasksets.{at}": name
        for place, choice in enumerate(pipeline)
        if ASK in (operator := find(choice.operator)).asks
        for at, name in enumerate(operator.read_options(choice.options).tasksets)
    }


def _why_not(name: str, drawn: Collection[str], found: Mapping[str, Taskset]) -> str:
    if name in drawn:
        return f"{name!r} is what the run draws from: all of its groups would be dropped; name sets that it is tested with"
    return "" if name in found else f"the project has no taskset {name!r} that stays as it is"
