"""What data-juicer's filters say of the answers of groups, and of tasks; and whether those that a pipeline names can be asked."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from django.conf import settings

from apps.accounts.public_text import public_text
from apps.pipelines.data_juicer.process import CHARACTERS, FILTERS, NoAnswer
from apps.pipelines.deciding import Case
from apps.pipelines.operators import find
from apps.pipelines.operators.contract import Filtered
from apps.rollouts.models import Group
from apps.rollouts.turns import all_said_by_policy
from apps.runs.pipeline import OperatorChoice
from apps.tasksets.models import Task
from apps.tasksets.overlapping import said_in
from apps.tasksets.rows import TaskRow

ASK = "filtered"
TRIED = ("The quick brown fox jumps over the lazy dog.\nTwice.", "")  # what a filter is tried with before a run is made

Said = dict[str, dict[str, Filtered]]  # by filter with its arguments, then by text


def filtered(cases: Sequence[Case], options: Sequence[Any]) -> list[Said]:
    """For each group what each of these filters says of its rollouts' texts; each group is asked for alone, and fails alone."""
    keep = _leases_of(cases)
    return [_said_of([all_said_by_policy(one.text, one.turns) for one in case.rollouts], options, keep) for case in cases]


def tasks_filtered(project: int, tasks: Sequence[Task | TaskRow], options: Sequence[Any]) -> list[Said]:
    """For each of these tasks, what each of these filters says of what its user says."""
    said = _said_of([said_in(task.prompt, task.follow_ups) for task in tasks], options, lambda: None)
    return [said for _ in tasks]


def _leases_of(cases: Sequence[Case]) -> Callable[[], object]:
    """Keeps those of the groups that are claimed: one that waits for its answer is not taken for lost."""
    claims = [case.group.claimed for case in cases if case.group.lease_owner]
    return lambda: Group.objects.keep(claims, settings.LEASE_SECONDS)


def _said_of(texts: Sequence[str], options: Sequence[Any], meanwhile: Callable[[], object]) -> Said:
    found: Said = {}
    for one in options:
        if one.asked not in found:
            found[one.asked] = {}
            for some in _at_once(dict.fromkeys(texts)):
                found[one.asked] |= zip(some, _answers(one, some, meanwhile), strict=True)
    return found


def _at_once(texts: Mapping[str, None]) -> Iterator[list[str]]:
    """Up to so many characters together; a longer text comes alone."""
    some, size = [], 0
    for text in texts:
        if some and size + len(text) > CHARACTERS:
            yield some
            some, size = [], 0
        some.append(text)
        size += len(text)
    if some:
        yield some


def _answers(one: Any, texts: list[str], meanwhile: Callable[[], object]) -> list[Filtered]:
    try:
        reply = FILTERS.ask(one.op, one.args, texts, meanwhile)
    except NoAnswer as why:
        return [Filtered(failed=str(why))] * len(texts)
    if failed := reply.error or "; ".join(f"{arg}: {why}" for arg, why in reply.wrong.items()):
        return [Filtered(failed=public_text(failed))] * len(texts)
    return [Filtered(is_kept, stats) for is_kept, stats in reply.said]


# -- before a run is made, or its pipeline changed ----------------------------------------------------------------------------


def problems_of(pipeline: Sequence[OperatorChoice]) -> dict[str, str]:
    """Why filters that operators name cannot be asked, by dotted field below the pipeline: `2.options.args.min_len`."""
    found: dict[str, str] = {}
    for place, choice in enumerate(pipeline):
        operator = find(choice.operator)
        if ASK in operator.asks:
            found |= {f"{place}.{field}": why for field, why in _problems(operator.read_options(choice.options)).items()}
    return found


def _problems(one: Any) -> dict[str, str]:
    try:
        reply = FILTERS.ask(one.op, one.args, TRIED)
    except NoAnswer as why:
        return {"operator": str(why)}
    if reply.error:
        error = public_text(reply.error)
        what = f"with these {one.op} does not work here, without models and the network: {error}"
        return {"options.args": what}
    return {f"options.args.{arg}": why for arg, why in reply.wrong.items()}
