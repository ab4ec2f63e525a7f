"""Results of data-juicer's filters for answers and tasks, and validation of the filters by name."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from django.conf import settings

from apps.accounts.public_text import public_text
from apps.pipelines.data_juicer.process import CHARACTERS, FILTERS, NoAnswer
from apps.pipelines.deciding import Case
from apps.pipelines.operators import find_operator
from apps.pipelines.operators.contract import Filtered
from apps.rollouts.models import Group
from apps.rollouts.turns import all_said_by_policy
from apps.runs.pipeline import OperatorChoice
from apps.tasksets.models import Task
from apps.tasksets.rows import TaskRow
from apps.tasksets.taskset_overlap import said_in

ASK = "filtered"
# A sample text for the validation of a filter.
TRIED = (
    "The quick brown fox jumps over the lazy dog.\nTwice.",
    "",
)

Results = dict[str, dict[str, Filtered]]  # by filter with its arguments, then by text


def filtered(cases: Sequence[Case], options: Sequence[Any]) -> list[Results]:
    """Return, for each group, the result of each filter for its rollouts' texts.

    Each group is asked for alone, and fails alone.
    """
    keep = _leases_of(cases)
    return [
        _ask_filters(
            [all_said_by_policy(rollout.text, rollout.turns) for rollout in case.rollouts],
            options,
            keep,
        )
        for case in cases
    ]


def tasks_filtered(
    project: int, tasks: Sequence[Task | TaskRow], options: Sequence[Any]
) -> list[Results]:
    """Return, for each task, the result of each filter for the text of its user messages."""
    reply = _ask_filters(
        [said_in(task.prompt, task.follow_ups) for task in tasks], options, lambda: None
    )
    return [reply for _ in tasks]


def _leases_of(cases: Sequence[Case]) -> Callable[[], object]:
    """Return a function that renews the leases of the claimed groups while a filter works."""
    claims = [case.group.claimed for case in cases if case.group.lease_owner]
    return lambda: Group.objects.renew(claims, settings.LEASE_SECONDS)


def _ask_filters(
    texts: Sequence[str], options: Sequence[Any], meanwhile: Callable[[], object]
) -> Results:
    results: Results = {}
    for option in options:
        if option.key not in results:
            results[option.key] = {}
            for some in _at_once(dict.fromkeys(texts)):
                results[option.key] |= zip(some, _answers(option, some, meanwhile), strict=True)
    return results


def _at_once(texts: Mapping[str, None]) -> Iterator[list[str]]:
    """Yield batches of texts up to a number of characters; a longer text comes alone."""
    some: list[str] = []
    size = 0
    for text in texts:
        if some and size + len(text) > CHARACTERS:
            yield some
            some = []
            size = 0
        some.append(text)
        size += len(text)
    if some:
        yield some


def _answers(option: Any, texts: list[str], meanwhile: Callable[[], object]) -> list[Filtered]:
    try:
        reply = FILTERS.ask(option.op, option.args, texts, meanwhile)
    except NoAnswer as why:
        return [Filtered(failed=str(why))] * len(texts)
    if failed := reply.error or "; ".join(f"{arg}: {why}" for arg, why in reply.wrong.items()):
        return [Filtered(failed=public_text(failed))] * len(texts)
    return [Filtered(is_kept, stats) for is_kept, stats in reply.results or ()]


# -- before a run is made, or its pipeline changed


def find_data_juicer_problems(pipeline: Sequence[OperatorChoice]) -> dict[str, str]:
    """Return why named filters cannot be used, by dotted field: `2.options.args.min_len`."""
    problems: dict[str, str] = {}
    for place, choice in enumerate(pipeline):
        operator = find_operator(choice.operator)
        if ASK in operator.asks:
            problems |= {
                f"{place}.{field}": why
                for field, why in _problems(operator.read_options(choice.options)).items()
            }
    return problems


def _problems(option: Any) -> dict[str, str]:
    try:
        reply = FILTERS.ask(option.op, option.args, TRIED)
    except NoAnswer as why:
        return {"operator": str(why)}
    if reply.error:
        error = public_text(reply.error)
        what = (
            f"{option.op} does not work with these arguments, as models and the network are "
            f"not available: {error}"
        )
        return {"options.args": what}
    return {f"options.args.{arg}": why for arg, why in reply.wrong.items()}
