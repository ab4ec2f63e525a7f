"""A task's own options for scorers: `meta.scorers`, as {scorer: {option: value}}.

They override those of the run.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from django.db.models import Q, QuerySet
from pydantic import ValidationError

from apps.rewards import scorers
from apps.runs.config import RunConfig, ScorerChoice
from apps.tasksets.judged_by import KEY as JUDGED_BY
from apps.tasksets.models import Task

KEY = "scorers"


def task_options(choice: ScorerChoice, meta: Mapping[str, Any]) -> dict[str, Any]:
    """Return the scorer's options for a task: the run's, overridden by the task's.

    A task's options for scorers that the run does not use are ignored.
    """
    options_by_scorer = meta.get(KEY)
    return (
        {**choice.options, **options_by_scorer.get(choice.scorer, {})}
        if isinstance(options_by_scorer, Mapping)
        else dict(choice.options)
    )


def find_own_option_problems(plan: RunConfig, tasks: QuerySet[Task]) -> dict[str, str]:
    """Return, by dotted field, the first task with options that the scorer does not accept.

    Tasks never change, so this is checked once.
    """
    problems = ((place, _first_problem(choice, tasks)) for place, choice in enumerate(plan.rewards))
    return {f"rewards.{place}.options": why for place, why in problems if why}


def _first_problem(choice: ScorerChoice, tasks: QuerySet[Task]) -> str:
    having = tasks.filter(**{f"meta__{KEY}__has_key": choice.scorer})
    if choice.domains:
        having = having.filter(
            Q(domain__in=choice.domains) | Q(**{f"meta__{JUDGED_BY}__contains": [choice.scorer]})
        )
    rows = having.order_by("taskset__slug", "index").values_list("taskset__slug", "index", "meta")
    return next(_iterate_problems(choice, rows.iterator(chunk_size=1000)), "")


def _iterate_problems(choice: ScorerChoice, rows: Iterable[tuple[str, int, dict]]) -> Iterator[str]:
    for slug, index, meta in rows:
        if why := _explain_problem(choice, meta):
            yield (
                f"task {index:,} of {slug!r} has its own options, meta.{KEY}.{choice.scorer}: {why}"
            )


def _explain_problem(choice: ScorerChoice, meta: Mapping[str, Any]) -> str:
    if not isinstance(meta[KEY], Mapping) or not isinstance(meta[KEY][choice.scorer], Mapping):
        return f"must be an object of options, such as {{{choice.scorer}: {{…}}}}"
    if choice.scorer not in scorers.scorer_names():
        return "learned scorers have no options"
    scorer = scorers.find_scorer(choice.scorer)
    options = task_options(choice, meta)
    try:
        scorer.read_options(options)
    except ValidationError as bad:
        return "; ".join(
            f"{'.'.join(map(str, error['loc']))}: {error['msg']}" for error in bad.errors()
        )
    if scorer.asks and scorer.judge_options(options) != scorer.judge_options(choice.options):
        return "a task cannot choose the model or its settings: put them in the run's options"
    return ""
