"""What operators ask of a group beyond itself, looked up before they work: they see rows, never the database."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from apps.feedback.models import Guess
from apps.pipelines import evaluation_sets
from apps.pipelines.acted import acted
from apps.pipelines.data_juicer.asking import filtered
from apps.pipelines.deciding import Case
from apps.pipelines.models import OwnExpert
from apps.pipelines.operators import find
from apps.pipelines.operators.contract import EXPERIENCES, GROUPS, Imitated, OperatorOptions
from apps.pipelines.reached import reached
from apps.pipelines.recent import recent
from apps.rollouts.turns import all_said_by_policy
from apps.runs.pipeline import OperatorChoice, Stage


def guessed(cases: Sequence[Case], options: Sequence[OperatorOptions]) -> list[tuple[int, int] | None]:
    """For each group, how often its task was guessed right and of how many tries."""
    return guesses_at([case.group.task_id for case in cases])


def guesses_at(tasks: Sequence[int]) -> list[tuple[int, int] | None]:
    """How often each was guessed right and of how many tries; of several policies the best guesser's."""
    rows = Guess.objects.filter(task__in=set(tasks), tries__gt=0)
    found: dict[int, tuple[int, int]] = {}
    for task, right, tries in rows.values_list("task_id", "right", "tries"):
        found[task] = max(found.get(task, (0, tries)), (right, tries), key=lambda said: (said[0] / said[1], said[1]))
    return [found.get(task) for task in tasks]


def imitated(cases: Sequence[Case], options: Sequence[OperatorOptions]) -> list[Imitated]:
    """For each group its task's answers that are expert rows of the run already, without those of these groups themselves."""
    run, groups = cases[0].group.run_id, [case.group.pk for case in cases]
    rows = OwnExpert.objects.filter(run=run, task__in={case.group.task_id for case in cases}).exclude(rollout__group__in=groups)
    found: dict[int, dict[int, str]] = defaultdict(dict)
    for task, number, text, turns in rows.values_list("task_id", "number", "rollout__text", "rollout__turns"):
        found[task][number] = all_said_by_policy(text, turns)
    return [Imitated(case.group.task_id, found[case.group.task_id]) for case in cases]


# Field of a Sample → what it is for each of the groups of one run, in their order, given the options of all who ask for it.
Answer = Callable[[Sequence[Case], Sequence[Any]], list[Any]]
ANSWERS: Mapping[str, Answer] = {
    "acted": acted, "also_in": evaluation_sets.also_in, "filtered": filtered, "guessed": guessed, "imitated": imitated,
    "reached": reached, "recent": recent,
}  # fmt: skip


def answered(pipeline: Sequence[OperatorChoice], cases: Sequence[Case]) -> list[Case]:
    """The groups of one run with what the operators of this pipeline ask; nothing is looked up where none asks."""
    asked: dict[str, list[OperatorOptions]] = defaultdict(list)
    for name, options in questions(pipeline, (GROUPS, EXPERIENCES)):
        asked[name].append(options)
    columns = {name: ANSWERS[name](cases, options) for name, options in asked.items() if cases}
    return [replace(case, asked={name: values[at] for name, values in columns.items()}) for at, case in enumerate(cases)]


def questions(pipeline: Sequence[OperatorChoice], stages: Collection[Stage]) -> Iterator[tuple[str, OperatorOptions]]:
    """The fields that operators of these stages ask for, with the options of who asks."""
    for choice in pipeline:
        try:
            operator = find(choice.operator)
            options = operator.read_options(choice.options)
        except (LookupError, ValidationError):  # it fails by name when its turn comes
            continue
        if (choice.stage or operator.stages[0]) in stages:
            yield from ((name, options) for name in operator.asks)
