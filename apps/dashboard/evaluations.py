"""A run's evaluations as a table of versions by question set, from stored summaries."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from django.db.models import Count, F, Max, Min, Q, QuerySet
from django.db.models.fields.json import KeyTransform
from django.http import QueryDict

from apps.evaluation.metrics import MEASURES, Mean, list_reported_ks
from apps.evaluation.results import EvaluationMetrics
from apps.rollouts.models import Group
from apps.runs.config import RunConfig
from apps.runs.evaluation import Scheduled
from apps.runs.models import Run
from apps.runs.parsing import parse_config

SETS_SHOWN = 6
SETS_OFFERED = 40
VERSIONS_SHOWN = 40
SORTED = 200  # versions that are read to find the best
EACH = 10  # evaluations of a version on the same questions
FIELDS = (
    "pk",
    "slug",
    "state",
    "version",
    "evaluation_set",
    "metric",
    "taskset__slug",
    "taskset__size",
)
WIDTH = 96
HEIGHT = 22
EDGE = 3  # margin of a sparkline, in its own pixels
MAX_DIGITS = 9
MAX_KEY_LENGTH = 16


@dataclass(frozen=True)
class EvaluationQuery:
    """The query of the page.

    The fields are a measure, its k, the column that sorts the versions ("": by number), which sets
    (none: the newest), and the version that this page's versions are below.
    """

    measure: str
    k: int
    by: str = ""
    sets: tuple[str, ...] = ()
    below: int | None = None

    @classmethod
    def read(cls, query: QueryDict, default: str = "pass") -> "EvaluationQuery":
        """Read the query; invalid parameters are ignored."""
        measure = query.get("measure", default)
        below = _parse_number(query.get("below", ""))
        sets = tuple(key[:MAX_KEY_LENGTH] for key in query.getlist("set")[:SETS_SHOWN])
        k = max(_parse_number(query.get("k", "")) or 1, 1)
        return cls(
            measure if measure in MEASURES else default,
            k,
            query.get("by", "")[:MAX_KEY_LENGTH],
            sets,
            below,
        )

    @property
    def words(self) -> str:
        return f"{self.measure}@{self.k}"

    def within(self, column: str) -> KeyTransform:
        """Return the chosen metric of a JSON column with `metrics` by measure and k."""
        return KeyTransform(
            str(self.k), KeyTransform(self.measure, KeyTransform("metrics", column))
        )


def _parse_number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS else None


@dataclass(frozen=True)
class Cell:
    """A version's result on a set of questions; `closed` of `tasks` while it is under way."""

    run: int
    slug: str
    state: str
    mean: Mean
    tasks: int
    closed: int = 0

    @property
    def is_open(self) -> bool:
        return self.state in ("created", "running", "paused")


@dataclass
class Column:
    """A set of questions, asked of every version alike."""

    key: str
    taskset: str
    words: str
    cells: dict[int, Cell] = field(default_factory=dict)

    @property
    def line(self) -> str:
        """Return the metrics over versions as points of an SVG polyline; "" for fewer than two."""
        points = [
            (version, cell.mean.value)
            for version, cell in sorted(self.cells.items())
            if cell.mean.value is not None
        ]
        if len(points) < 2:
            return ""
        first = points[0][0]
        last = points[-1][0]
        low = min(value for _, value in points)
        high = max(value for _, value in points)
        wide = last - first
        tall = (high - low) or 1.0
        at = (
            (WIDTH * (v - first) / wide, HEIGHT - EDGE - (HEIGHT - 2 * EDGE) * (value - low) / tall)
            for v, value in points
        )
        return " ".join(f"{x:.1f},{y:.1f}" for x, y in at)

    @property
    def ends(self) -> tuple[float, float]:
        means = [
            cell.mean.value for _, cell in sorted(self.cells.items()) if cell.mean.value is not None
        ]
        return (means[0], means[-1]) if means else (0.0, 0.0)

    @property
    def best(self) -> int | None:
        """Return the version with the highest metric, if there are two to compare."""
        means = {
            version: cell.mean.value
            for version, cell in self.cells.items()
            if cell.mean.value is not None
        }
        return max(means, key=lambda version: (means[version], version)) if len(means) > 1 else None


@dataclass(frozen=True)
class Offered:
    """A set that may be shown, with the number of its evaluations."""

    key: str
    taskset: str
    words: str
    count: int
    is_shown: bool


@dataclass(frozen=True)
class Overview:
    """The table; `versions` are those of this page and the first of all, the baseline.

    `older` is the version that those of the next page are below. It is None if there is none, and
    when the best come first.
    """

    columns: list[Column]
    versions: list[int]
    ks: list[int]
    offered: list[Offered]
    hidden: int  # number of sets that are not offered
    older: int | None

    @property
    def first(self) -> int:
        """Return the version that serves as the baseline."""
        return min(self.versions, default=0)

    @property
    def rows(self) -> list[tuple[int, list[tuple[Cell | None, bool]]]]:
        """Return each version with its cells, and whether each is its column's best."""
        best = [column.best for column in self.columns]
        return [
            (
                version,
                [
                    (column.cells.get(version), version == top)
                    for column, top in zip(self.columns, best, strict=True)
                ],
            )
            for version in self.versions
        ]


def build_evaluations_overview(run: Run, query: EvaluationQuery) -> Overview:
    """Return the chosen sets, or the newest, by a page of versions, in seven queries."""
    evaluations = Run.objects.filter(evaluates__run=run).order_by()
    with_versions = evaluations.annotate(version=F("evaluates__version"))
    sets = _list_sets(with_versions)
    chosen = [key for key in query.sets if key in sets]
    offered = [*dict.fromkeys([*chosen, *list(sets)[:SETS_OFFERED]])]
    keys = [key for key in offered if key in query.sets] or offered[:SETS_SHOWN]
    plans = load_plans([sets[key].newest for key in offered])
    of_sets = with_versions.filter(evaluation_set__in=keys)
    versions, older = _versions(of_sets, query if query.by in keys else replace(query, by=""))
    columns = _columns(
        of_sets.filter(version__in=versions), {key: plans[key] for key in keys}, query
    )
    samples = max((plans[key].group_size for key in keys), default=1)
    return Overview(
        columns,
        _sorted(versions, columns, query),
        list_reported_ks(samples),
        [_offer_set(key, plans[key], sets[key].evaluations, key in keys) for key in offered],
        len(sets) - len(offered),
        older,
    )


class CountedSet(NamedTuple):
    """A set of questions: the number of its evaluations, and the newest of them."""

    newest: int
    evaluations: int


def _list_sets(evaluations: QuerySet[Run]) -> dict[str, CountedSet]:
    """Return the sets by key, the one with the newest evaluation first."""
    counted = evaluations.values("evaluation_set").annotate(newest=Max("pk"), count=Count("pk"))
    return {
        row["evaluation_set"]: CountedSet(row["newest"], row["count"])
        for row in counted.order_by("-newest")
    }


def _columns(
    evaluations: QuerySet[Run], plans: Mapping[str, RunConfig], query: EvaluationQuery
) -> list[Column]:
    """Return a column for each of the sets in `plans`, in their order, in two queries."""
    annotated = evaluations.annotate(metric=query.within("result__metrics"))
    rows = list(
        annotated.order_by("-pk").values(*FIELDS)[: EACH * SETS_SHOWN * (VERSIONS_SHOWN + 1)]
    )
    closed = count_closed_tasks([row["pk"] for row in rows if row["state"] not in Run.ENDED])
    columns = {
        key: Column(key, plan.taskset or "", describe_questions(plan))
        for key, plan in plans.items()
    }
    for row in rows:
        _place(columns[row["evaluation_set"]], row, plans[row["evaluation_set"]], closed)
    return list(columns.values())


def _offer_set(key: str, plan: RunConfig, count: int, is_shown: bool) -> Offered:
    return Offered(key, plan.taskset or "", describe_questions(plan), count, is_shown)


def _versions(evaluations: QuerySet[Run], query: EvaluationQuery) -> tuple[list[int], int | None]:
    """Return the page's versions, newest first, and the cursor of the next page.

    The first version of all follows at the end.
    """
    if query.by:
        newest = evaluations.filter(evaluation_set=query.by, result__isnull=False).order_by(
            "-evaluates__version", "-pk"
        )[:SORTED]
        rows = newest.annotate(metric=query.within("result__metrics")).values_list(
            "evaluates__version", "metric"
        )
        values = {
            version: metric[0] for version, metric in rows if metric and metric[0] is not None
        }
        unknown = [
            version for version in _numbers(evaluations)[:VERSIONS_SHOWN] if version not in values
        ]
        best = sorted(values, key=lambda version: (-values[version], -version))
        return _with_first([*best, *unknown][:VERSIONS_SHOWN], evaluations), None
    numbers = _numbers(
        evaluations
        if query.below is None
        else evaluations.filter(evaluates__version__lt=query.below)
    )[: VERSIONS_SHOWN + 1]
    page_versions = list(numbers)
    return _with_first(page_versions[:VERSIONS_SHOWN], evaluations), (
        page_versions[VERSIONS_SHOWN - 1] if len(page_versions) > VERSIONS_SHOWN else None
    )


def _numbers(evaluations: QuerySet[Run]) -> QuerySet:
    return (
        evaluations.order_by("-evaluates__version")
        .values_list("evaluates__version", flat=True)
        .distinct()
    )


def _with_first(versions: list[int], evaluations: QuerySet[Run]) -> list[int]:
    first = evaluations.aggregate(first=Min("evaluates__version"))["first"]
    return versions if first is None or first in versions else [*versions, first]


def _place(column: Column, row: dict, plan: RunConfig, closed: Mapping[int, int]) -> None:
    """Put a row into its column: the newest complete evaluation of a version, else the newest."""
    before = column.cells.get(row["version"])
    if before is not None and (before.mean.value is not None or row["metric"] is None):
        return
    column.cells[row["version"]] = build_cell(row, plan, closed)


def build_cell(row: dict, plan: RunConfig, closed: Mapping[int, int]) -> Cell:
    pk = row["pk"]
    mean = Mean(*row["metric"]) if row["metric"] else Mean(None, None, None, 0)
    size = row["taskset__size"]
    tasks = min(size, most_tasks(plan) or size)
    return Cell(pk, row["slug"], row["state"], mean, tasks, closed.get(pk, 0))


def _sorted(
    versions: Sequence[int], columns: Sequence[Column], query: EvaluationQuery
) -> list[int]:
    column = next((candidate for candidate in columns if candidate.key == query.by), None)
    if column is None:
        return list(versions)

    def metric(version: int) -> float:
        cell = column.cells.get(version)
        return -1.0 if cell is None or cell.mean.value is None else cell.mean.value

    return sorted(versions, key=lambda version: (-metric(version), -version))


def load_plans(runs: Sequence[int]) -> dict[str, RunConfig]:
    return {
        row.evaluation_set: parse_config(row.config)
        for row in Run.objects.filter(pk__in=runs).only("evaluation_set", "config")
    }


def count_closed_tasks(runs: Sequence[int]) -> dict[int, int]:
    """Return by run how many of its tasks are closed."""
    if not runs:
        return {}
    groups = Group.objects.filter(run__in=runs).order_by().values_list("run")
    return dict(groups.annotate(n=Count("pk", filter=Q(state__in=Group.CLOSED))))


def most_tasks(plan: RunConfig) -> int | None:
    """Return the number of the taskset's first tasks that an evaluation asks; None for all."""
    return plan.evaluation.tasks if plan.evaluation else None


def describe_questions(plan: RunConfig) -> str:
    """Describe an evaluation's questions: `4 replies · T 1 · 64 tokens · scored by sort`."""
    task_limit = f"first {tasks:,} tasks · " if (tasks := most_tasks(plan)) else ""
    judges = ", ".join(choice.scorer for choice in plan.judges)
    scored = f"scored by {judges}" if judges else "no scorer"
    people = " · people" if plan.people.per_group else ""
    count = f"{plan.group_size} repl{'y' if plan.group_size == 1 else 'ies'}"
    return (
        f"{task_limit}{count} · T {plan.sampling.temperature:g} ·"
        f" {plan.sampling.max_tokens:,} tokens · {scored}{people}"
    )


def words_of_schedule(schedule: Scheduled) -> str:
    """Describe a schedule: when, what, and how it differs from the run's own settings."""
    times = f"{schedule.every:,} " if schedule.every > 1 else ""
    words = [
        f"every {times}{'step' if schedule.unit == 'steps' else 'version'}"
        f"{'s' if schedule.every > 1 else ''}"
    ]
    words.append(f"{schedule.samples} repl{'y' if schedule.samples == 1 else 'ies'}")
    parts = {
        "first {:,} tasks": schedule.tasks,
        "T {:g}": schedule.temperature,
        "{:,} tokens": schedule.max_tokens,
        "scored by {}": ", ".join(choice.scorer for choice in schedule.rewards) or None,
        "pass threshold {:g} %": None
        if schedule.correct_threshold == 1
        else 100 * schedule.correct_threshold,
        "{} rated by people": schedule.people or None,
    }
    return ", ".join(
        [*words, *(text.format(value) for text, value in parts.items() if value is not None)]
    )


# -- one evaluation


@dataclass(frozen=True)
class Line:
    name: str
    mean: Mean


def slices(result: EvaluationMetrics, query: EvaluationQuery) -> dict[str, list[Line]]:
    """Return the chosen metric by domain and by each scale's quarters; {title: lines}."""
    lines_by_title = defaultdict(list)
    for domain, metrics in result.domains.items():
        lines_by_title["By domain"].append(Line(domain or "(none)", _mean(metrics, query)))
    for scale, bands in result.scales.items():
        for band in bands:
            lines_by_title[f"By {scale}"].append(
                Line(_format_band(band), _mean(band["metrics"], query))
            )
    return dict(lines_by_title)


def _format_band(band: dict) -> str:
    low = f"{band['from']:.3g}"
    high = f"{band['to']:.3g}"
    return low if low == high else f"{low} – {high}"


def _mean(metrics: dict, query: EvaluationQuery) -> Mean:
    row = metrics.get(query.measure, {}).get(str(query.k))
    return Mean(*row) if row else Mean(None, None, None, 0)


def table_rows(result: EvaluationMetrics, ks: Sequence[int]) -> list[tuple[str, str, list[Mean]]]:
    """Return (measure, explanation, its metric at each k)."""
    return [
        (name, words, [result.at(name, k) for k in ks])
        for name, words in MEASURES.items()
        if name in result.metrics
    ]
