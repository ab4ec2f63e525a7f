"""`manage.py score --regress`: score the cases of regression sets, and tell which do not hold."""

import json
from collections.abc import Callable, Iterator
from typing import Any

from apps.accounts.models import Project
from apps.rewards.models import RegressionCase
from rftweb.management.console import shorten_to_line, show_progress_bar
from workers.testbench import score_cases

AT_ONCE = 64  # cases of one project that are scored together
COLUMNS = ("case", "project", "scorer", "version", "expected", "before", "now", "state", "reason")
NONE = "none"  # no reward


def regress(projects: list[Project], write: Callable[[str], object]) -> int:
    """Score all cases of these projects; return how many differ from their expected reward.

    Writes a table of the cases that differ or whose verdict changed, and one line of JSON.
    """
    cases = RegressionCase.objects.filter(project__in=projects)
    count = cases.count()
    rows = []
    differ = []
    changed = []
    with show_progress_bar("scoring cases", count) as progress:
        for number, (slug, case, before, was_holding) in enumerate(_scored(projects), start=1):
            progress(number)
            if not case.holds:
                differ.append(case.pk)
            if case.value != before or case.holds != was_holding:
                changed.append(case.pk)
            if not case.holds or case.pk in changed:
                rows.append(_row(slug, case, before))
    for line in _table(rows):
        write(line)
    summary = {"cases": count, "hold": count - len(differ), "differ": differ, "changed": changed}
    write(json.dumps(summary))
    return len(differ)


def _scored(projects: list[Project]) -> Iterator[tuple[str, RegressionCase, float | None, bool]]:
    """Yield project and case with its new verdict, its value before, and whether it held."""
    for project in projects:
        ids = list(project.regression_cases.order_by("pk").values_list("pk", flat=True))
        for first in range(0, len(ids), AT_ONCE):
            some = ids[first : first + AT_ONCE]
            cases = list(project.regression_cases.filter(pk__in=some).order_by("pk"))
            before = {case.pk: (case.value, case.holds) for case in cases}
            for case in score_cases(cases):
                yield project.slug, case, *before[case.pk]


def _row(slug: str, case: RegressionCase, before: float | None) -> tuple[str, ...]:
    state = "holds" if case.holds else "differs"
    version = NONE if case.version is None else str(case.version)
    rewards = map(_reward, (case.expected, before, case.value))
    return (str(case.pk), slug, case.scorer, version, *rewards, state, shorten_to_line(case.reason))


def _reward(value: float | None) -> str:
    return NONE if value is None else f"{value:.6g}"


def _table(rows: list[tuple[str, ...]]) -> Iterator[str]:
    """Yield the lines of a table with these columns; nothing without rows."""
    if not rows:
        return
    lines: list[Any] = [COLUMNS, *rows]
    widths = [max(len(line[place]) for line in lines) for place in range(len(COLUMNS))]
    for line in lines:
        cells = (text.ljust(width) for text, width in zip(line, widths, strict=True))
        yield "  ".join(cells).rstrip()
