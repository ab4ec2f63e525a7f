"""Refusal of runs that judge code but sample tasks without tests."""

from itertools import chain
from typing import Any

from django.db.models import Q, QuerySet

from apps.runs.config import RunConfig, ScorerChoice
from apps.tasksets.code_test_values import BadTests
from apps.tasksets.code_tests import LAYOUT_KEYS, normal_form
from apps.tasksets.judged_by import KEY as JUDGED_BY
from apps.tasksets.models import Task

SCORER = "code"
# An import leaves tests under these alone; sets of before, and those stored by hand, are read one
# by one.
HAS_TESTS = Q(answer__has_any_keys=list(LAYOUT_KEYS)) & ~Q(answer__tests=[])


def find_code_problems(plan: RunConfig, tasks: QuerySet[Task]) -> dict[str, str]:
    """Return by dotted field the first task that the scorer `code` cannot judge."""
    if plan.algorithm.learns_from_lessons:
        return {}
    return {
        f"rewards.{place}.scorer": why
        for place, choice in enumerate(plan.rewards)
        if choice.scorer == SCORER and (why := _problem(choice, tasks))
    }


def _problem(choice: ScorerChoice, tasks: QuerySet[Task]) -> str:
    judged = _judged_by(choice, tasks).order_by("taskset__slug", "index")
    fields = ("taskset__slug", "index", "answer")
    doubtful = judged.exclude(HAS_TESTS).values_list(*fields).iterator(chunk_size=1000)
    for slug, index, answer in chain(judged.values_list(*fields)[:1], doubtful):
        if why := _why_not(answer):
            return f"task {index:,} of {slug!r} has no usable tests: {why}"
    return ""


def _why_not(answer: dict[str, Any]) -> str:
    try:
        normalized = normal_form(answer)
    except BadTests as bad:
        return str(bad)
    return (
        ""
        if normalized
        else (
            "the answer contains none; import tests with the tasks, or name the domains "
            "that have tests"
        )
    )


def _judged_by(choice: ScorerChoice, tasks: QuerySet[Task]) -> QuerySet[Task]:
    """Return the tasks that name this scorer, or name none and are of its domains."""
    names_none = Q(**{f"meta__{JUDGED_BY}__isnull": True}) | Q(**{f"meta__{JUDGED_BY}": None})
    by_domain = names_none & Q(domain__in=choice.domains) if choice.domains else names_none
    return tasks.filter(by_domain | Q(**{f"meta__{JUDGED_BY}__contains": [choice.scorer]}))
