"""Look-ups of data that operators need beyond their group; operators never use the database."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from apps.feedback.models import Guess
from apps.pipelines import evaluation_sets
from apps.pipelines.data_juicer.asking import filtered
from apps.pipelines.deciding import Case
from apps.pipelines.episode_actions import load_actions
from apps.pipelines.models import OwnExpert
from apps.pipelines.operators import find_operator
from apps.pipelines.operators.contract import EXPERIENCES, GROUPS, Imitated, OperatorOptions
from apps.pipelines.reached_goals import find_reached_tasks
from apps.pipelines.recent import recent
from apps.rollouts.turns import all_said_by_policy
from apps.runs.pipeline import OperatorChoice, Stage


def count_guesses(
    cases: Sequence[Case], options: Sequence[OperatorOptions]
) -> list[tuple[int, int] | None]:
    """Return, for each group, (right guesses, tries) of its task; None where nobody tried."""
    return guesses_at([case.group.task_id for case in cases])


def guesses_at(tasks: Sequence[int]) -> list[tuple[int, int] | None]:
    """Return (right guesses, tries) of each task by the policy that guesses it best.

    None untried.
    """
    rows = Guess.objects.filter(task__in=set(tasks), tries__gt=0)
    best_guesses: dict[int, tuple[int, int]] = {}
    for task, right, tries in rows.values_list("task_id", "right", "tries"):
        best_guesses[task] = max(
            best_guesses.get(task, (0, tries)),
            (right, tries),
            key=lambda guess: (guess[0] / guess[1], guess[1]),
        )
    return [best_guesses.get(task) for task in tasks]


def imitated(cases: Sequence[Case], options: Sequence[OperatorOptions]) -> list[Imitated]:
    """Return, for each group, the answers to its task that already are expert rows of the run.

    Answers of these groups themselves are not among them.
    """
    run = cases[0].group.run_id
    groups = [case.group.pk for case in cases]
    rows = OwnExpert.objects.filter(
        run=run, task__in={case.group.task_id for case in cases}
    ).exclude(rollout__group__in=groups)
    answers: dict[int, dict[int, str]] = defaultdict(dict)
    for task, number, text, turns in rows.values_list(
        "task_id", "number", "rollout__text", "rollout__turns"
    ):
        answers[task][number] = all_said_by_policy(text, turns)
    return [Imitated(case.group.task_id, answers[case.group.task_id]) for case in cases]


# Field of a Sample → a function that returns it for each group of one run, in order, given the
# options of all operators that need it.
Answer = Callable[[Sequence[Case], Sequence[Any]], list[Any]]
ANSWERS: Mapping[str, Answer] = {
    "acted": load_actions,
    "also_in": evaluation_sets.also_in,
    "filtered": filtered,
    "guessed": count_guesses,
    "imitated": imitated,
    "reached": find_reached_tasks,
    "recent": recent,
}


def answer_operators(pipeline: Sequence[OperatorChoice], cases: Sequence[Case]) -> list[Case]:
    """Return the groups of one run with the data that this pipeline's operators need.

    Nothing is looked up where no operator needs any.
    """
    options_by_question: dict[str, list[OperatorOptions]] = defaultdict(list)
    for name, options in list_operator_questions(pipeline, (GROUPS, EXPERIENCES)):
        options_by_question[name].append(options)
    columns = {
        name: ANSWERS[name](cases, options)
        for name, options in options_by_question.items()
        if cases
    }
    return [
        replace(case, operator_data={name: values[at] for name, values in columns.items()})
        for at, case in enumerate(cases)
    ]


def list_operator_questions(
    pipeline: Sequence[OperatorChoice], stages: Sequence[Stage]
) -> Iterator[tuple[str, OperatorOptions]]:
    """Yield the fields that operators of these stages need, with the options of each operator."""
    for choice in pipeline:
        try:
            operator = find_operator(choice.operator)
            options = operator.read_options(choice.options)
        except (LookupError, ValidationError):  # reported by name when the operator is applied
            continue
        if (choice.stage or operator.stages[0]) in stages:
            yield from ((name, options) for name in operator.asks)
