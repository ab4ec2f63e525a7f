"""Compare evaluations of several runs or versions on the same questions, task by task."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from django.db.models import F, Q, QuerySet, Window
from django.db.models.fields.json import KeyTransform
from django.db.models.functions import RowNumber

from apps.dashboard.evaluations import (
    FIELDS,
    SETS_SHOWN,
    Cell,
    EvaluationQuery,
    build_cell,
    count_closed_tasks,
    describe_questions,
    load_plans,
)
from apps.evaluation.metrics import list_reported_ks
from apps.evaluation.models import EvaluationResult
from apps.evaluation.paired import Paired, paired
from apps.runs.config import RunConfig
from apps.runs.models import Run, WeightVersion

EACH = 60  # newest evaluations read of a run, or of a version
CHOICES = {"newest": "newest versions", "best": "best versions"}
Side = Run | WeightVersion


@dataclass(frozen=True)
class Version:
    number: int
    cell: Cell

    @property
    def is_complete(self) -> bool:
        return self.cell.mean.value is not None


@dataclass(frozen=True)
class Line:
    """One side's results on a set of questions.

    `chosen` is its newest or best version; `difference` is its distance from the set's first side.
    Both are None without a metric; `difference` is also None for that first side, and where no
    metrics per task were kept.
    """

    side: Side
    newest: Version | None
    best: Version | None
    chosen: Version | None
    is_base: bool = False
    difference: Paired | None = None

    @property
    def measured(self) -> Version | None:
        """Return the chosen version if it has a metric."""
        return self.chosen if self.chosen is not None and self.chosen.is_complete else None

    @property
    def is_measured(self) -> bool:
        return self.measured is not None


@dataclass(frozen=True)
class QuestionSet:
    """A set of questions with every side's line, in the order of the sides.

    `base` is the first side that has a metric.
    """

    taskset: str
    words: str
    lines: list[Line]
    base: Side | None


@dataclass(frozen=True)
class SideBySide:
    question_sets: list[QuestionSet]
    hidden: int  # sets that are not shown
    ks: list[int]


def of_runs(runs: Sequence[Run], query: EvaluationQuery, choice: str = "newest") -> SideBySide:
    """Return the evaluations of the runs' versions; for an evaluation run, its own results.

    At most five queries.
    """
    if not runs:
        return SideBySide([], 0, [1])
    place = Window(RowNumber(), partition_by=F("evaluates__run"), order_by="-pk")
    newest = (
        Run.objects.filter(evaluates__run__in=runs).annotate(place=place).filter(place__lte=EACH)
    )
    condition = Q(pk__in=list(newest.values_list("pk", flat=True))) | Q(
        pk__in=[run.pk for run in runs if run.is_evaluation]
    )
    return _compare_sides(
        runs, Run.objects.filter(condition), ("pk", "evaluates__run"), query, choice
    )


def of_versions(versions: Sequence[WeightVersion], query: EvaluationQuery) -> SideBySide:
    """Return the evaluations of these versions, in at most four queries."""
    evaluations = Run.objects.filter(evaluates__in=versions).order_by("-pk")[: EACH * len(versions)]
    return _compare_sides(
        versions,
        Run.objects.filter(pk__in=list(evaluations.values_list("pk", flat=True))),
        ("evaluates",),
        query,
        "newest",
    )


def _compare_sides(
    sides: Sequence[Side],
    evaluations: QuerySet[Run],
    owners: Sequence[str],
    query: EvaluationQuery,
    choice: str,
) -> SideBySide:
    """Build the comparison; `owners` are fields of an evaluation that may name its side."""
    annotated = evaluations.annotate(
        version=F("evaluates__version"), metric=query.within("result__metrics")
    ).order_by("-pk")
    rows = list(annotated.values(*FIELDS, "taskset", *owners))
    by_set = _by_set(rows, owners, {side.pk for side in sides})
    chosen = sorted(by_set, key=lambda set_key: -len(by_set[set_key]))[:SETS_SHOWN]
    first_rows = {set_key: next(iter(by_set[set_key].values()))[0] for set_key in chosen}
    plans = load_plans([row["pk"] for row in first_rows.values()])
    closed = count_closed_tasks([row["pk"] for row in rows if row["state"] not in Run.ENDED])
    lines = {
        set_key: [
            _build_line(side, by_set[set_key].get(side.pk, ()), plans[set_key[0]], closed, choice)
            for side in sides
        ]
        for set_key in chosen
    }
    newest = [
        line.measured for side_lines in lines.values() for line in side_lines if line.measured
    ]
    metrics = metrics_by_task({version.cell.run for version in newest}, query)
    question_sets = [
        _question_set(
            first_rows[set_key]["taskset__slug"], plans[set_key[0]], lines[set_key], metrics
        )
        for set_key in chosen
    ]
    samples = max((plan.group_size for plan in plans.values()), default=1)
    return SideBySide(question_sets, len(by_set) - len(chosen), list_reported_ks(samples))


def _by_set(
    rows: Iterable[dict], owners: Sequence[str], sides: Set[int]
) -> dict[tuple[str, int], dict[int, list[dict]]]:
    """Return the rows by questions, those with the newest row first, then by side.

    Tasksets of the same name in two projects are different.
    """
    by_set: dict[tuple[str, int], dict[int, list[dict]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        for owner in {row[name] for name in owners} & sides:
            by_set[row["evaluation_set"], row["taskset"]][owner].append(row)
    return by_set


def _build_line(
    side: Side, rows: Iterable[dict], plan: RunConfig, closed: Mapping[int, int], choice: str
) -> Line:
    """Return the line of one side; `rows` come newest first.

    The newest complete evaluation of a version stands for it.
    """
    by_version: dict[int, Version] = {}
    for row in rows:
        number = row["version"] or 0
        before = by_version.get(number)
        if before is None or not before.is_complete:
            version = Version(number, build_cell(row, plan, closed))
            if before is None or version.is_complete:
                by_version[number] = version
    complete = [version for version in by_version.values() if version.is_complete]
    newest = max(complete or by_version.values(), key=lambda version: version.number, default=None)
    best = max(
        complete, key=lambda version: (version.cell.mean.value, version.number), default=None
    )
    chosen = best if choice == "best" else newest
    return Line(side, newest, best, chosen)


def _question_set(
    taskset: str, plan: RunConfig, lines: Sequence[Line], metrics: Mapping[int, Mapping[int, float]]
) -> QuestionSet:
    base = next((line for line in lines if line.is_measured), None)
    compared = [_with_difference(line, base, metrics) for line in lines]
    return QuestionSet(taskset, describe_questions(plan), compared, base.side if base else None)


def _with_difference(
    line: Line, base: Line | None, metrics: Mapping[int, Mapping[int, float]]
) -> Line:
    measured = line.measured
    base_measured = base.measured if base else None
    if measured is None or base_measured is None or line is base:
        return replace(line, is_base=line is base)
    by_task = metrics.get(measured.cell.run)
    base_by_task = metrics.get(base_measured.cell.run)
    return (
        line
        if by_task is None or base_by_task is None
        else replace(line, difference=paired(by_task, base_by_task))
    )


def metrics_by_task(
    evaluations: Iterable[int], query: EvaluationQuery
) -> dict[int, dict[int, float]]:
    """Return {evaluation: {task: metric}} of the evaluations that kept metrics per task."""
    results = EvaluationResult.objects.filter(run__in=list(evaluations), by_task__isnull=False)
    rows = results.values_list("run", KeyTransform("tasks", "by_task"), query.within("by_task"))
    return {
        run: {task: value for task, value in zip(tasks, values, strict=True) if value is not None}
        for run, tasks, values in rows
    }
