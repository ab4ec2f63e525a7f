"""Options that a task has of its own for a scorer: `meta.scorers`, {scorer: {option: value}}, laid over those of the run."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from django.db.models import Q, QuerySet
from pydantic import ValidationError

from apps.rewards import scorers
from apps.runs.config import RunConfig, ScorerChoice
from apps.tasksets.judged_by import KEY as JUDGED_BY
from apps.tasksets.models import Task

KEY = "scorers"


def options_of(choice: ScorerChoice, meta: Mapping[str, Any]) -> dict[str, Any]:
    """What the scorer is asked about a task with. Of scorers that the run has not, a task may say what it likes."""
    said = meta.get(KEY)
    return {**choice.options, **said.get(choice.scorer, {})} if isinstance(said, Mapping) else dict(choice.options)


def problems_of(plan: RunConfig, tasks: QuerySet[Task]) -> dict[str, str]:
    """By dotted field, with the first task whose options the scorer does not take; tasks never change, so it is asked once."""
    found = ((place, _problem(choice, tasks)) for place, choice in enumerate(plan.rewards))
    return {f"rewards.{place}.options": why for place, why in found if why}


def _problem(choice: ScorerChoice, tasks: QuerySet[Task]) -> str:
    having = tasks.filter(**{f"meta__{KEY}__has_key": choice.scorer})
    if choice.domains:
        having = having.filter(Q(domain__in=choice.domains) | Q(**{f"meta__{JUDGED_BY}__contains": [choice.scorer]}))
    rows = having.order_by("taskset__slug", "index").values_list("taskset__slug", "index", "meta")
    return next(_wrong(choice, rows.iterator(chunk_size=1000)), "")


def _wrong(choice: ScorerChoice, rows: Iterable[tuple[str, int, dict]]) -> Iterator[str]:
    for slug, index, meta in rows:
        if why := _why_not(choice, meta):
            yield f"task {index:,} of {slug!r} has options of its own, meta.{KEY}.{choice.scorer}: {why}"


def _why_not(choice: ScorerChoice, meta: Mapping[str, Any]) -> str:
    if not isinstance(meta[KEY], Mapping) or not isinstance(meta[KEY][choice.scorer], Mapping):
        return f"must be an object of options, as {{{choice.scorer}: {{…}}}}"
    if choice.scorer not in scorers.names():
        return "a learned scorer takes none"
    scorer, options = scorers.find(choice.scorer), options_of(choice, meta)
    try:
        scorer.read_options(options)
    except ValidationError as bad:
        return "; ".join(f"{'.'.join(map(str, error['loc']))}: {error['msg']}" for error in bad.errors())
    if scorer.asks and scorer.judge_options(options) != scorer.judge_options(choice.options):
        return "which model is asked, and how, is the run's to say: put it into the run's options"
    return ""
