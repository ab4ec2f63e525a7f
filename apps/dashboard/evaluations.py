"""The evaluations of a run as a table of versions by what they were asked, read from what was summed up; and one's own figures."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from django.db.models import Count, F, Q
from django.db.models.fields.json import KeyTransform

from apps.feedback.evaluation.figures import MEASURES, Mean, ks_of
from apps.feedback.evaluation.results import Found
from apps.rollouts.models import Group
from apps.runs.config import RunConfig, parse
from apps.runs.evaluation import Scheduled
from apps.runs.models import Run

SETS_SHOWN, VERSIONS_SHOWN, POINTS = 6, 40, 200
FIELDS = ("pk", "slug", "state", "version", "evaluation_set", "figure", "taskset__slug", "taskset__size")
WIDTH, HEIGHT, EDGE = 96, 22, 3  # of a sparkline, in its own pixels
MOST_DIGITS = 9


@dataclass(frozen=True)
class Shown:
    """What the page's address asks for: a measure, its k, and by which column the versions stand ("" is their number)."""

    measure: str
    k: int
    by: str = ""

    @classmethod
    def read(cls, asked: dict, default: str = "pass") -> "Shown":
        """What cannot be read is what nobody asked for."""
        k = asked.get("k", "")
        measure = asked.get("measure", default)
        whole = int(k) if k.isascii() and k.isdigit() and 0 < len(k) <= MOST_DIGITS else 1
        return cls(measure if measure in MEASURES else default, max(whole, 1), asked.get("by", "")[:16])

    @property
    def words(self) -> str:
        return f"{self.measure}@{self.k}"

    def within(self, column: str) -> KeyTransform:
        """What is asked for, of a column whose JSON has `figures` by measure and k."""
        return KeyTransform(str(self.k), KeyTransform(self.measure, KeyTransform("figures", column)))


@dataclass(frozen=True)
class Cell:
    """A version's answer to a set of questions. `closed` of `tasks` while it is under way."""

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
    """A set: what is asked of every version alike."""

    key: str
    taskset: str
    words: str
    cells: dict[int, Cell] = field(default_factory=dict)

    @property
    def line(self) -> str:
        """Its figures over versions, as the points of an SVG polyline; empty with fewer than two."""
        found = [(version, cell.mean.value) for version, cell in sorted(self.cells.items()) if cell.mean.value is not None]
        if len(found) < 2:
            return ""
        first, last = found[0][0], found[-1][0]
        low, high = min(value for _, value in found), max(value for _, value in found)
        wide, tall = last - first, (high - low) or 1.0
        at = ((WIDTH * (v - first) / wide, HEIGHT - EDGE - (HEIGHT - 2 * EDGE) * (value - low) / tall) for v, value in found)
        return " ".join(f"{x:.1f},{y:.1f}" for x, y in at)

    @property
    def ends(self) -> tuple[float, float]:
        known = [cell.mean.value for _, cell in sorted(self.cells.items()) if cell.mean.value is not None]
        return (known[0], known[-1]) if known else (0.0, 0.0)

    @property
    def best(self) -> int | None:
        """The version with the highest figure, where there are two to compare."""
        known = {version: cell.mean.value for version, cell in self.cells.items() if cell.mean.value is not None}
        return max(known, key=lambda version: (known[version], version)) if len(known) > 1 else None


@dataclass(frozen=True)
class Overview:
    columns: list[Column]
    versions: list[int]
    ks: list[int]
    hidden: int  # sets that are not shown
    open: int

    @property
    def rows(self) -> list[tuple[int, list[tuple[Cell | None, bool]]]]:
        """Each version with its cells, and whether one is its column's best."""
        best = [column.best for column in self.columns]
        return [
            (version, [(column.cells.get(version), version == top) for column, top in zip(self.columns, best, strict=True)])
            for version in self.versions
        ]


def overview_of(run: Run, shown: Shown) -> Overview:
    """The newest sets by the newest versions; five statements whatever there is."""
    own = Run.objects.filter(evaluates__run=run).annotate(version=F("evaluates__version"), figure=shown.within("result__figures"))
    rows = list(own.order_by("-pk").values(*FIELDS)[:POINTS])
    sets = list(dict.fromkeys(row["evaluation_set"] for row in rows))
    plans = plans_of([next(row["pk"] for row in rows if row["evaluation_set"] == key) for key in sets[:SETS_SHOWN]])
    closed = closed_of([row["pk"] for row in rows if row["state"] not in Run.ENDED])
    columns = [Column(key, plans[key].taskset, words_of(plans[key])) for key in sets[:SETS_SHOWN]]
    for column in columns:
        for row in (row for row in rows if row["evaluation_set"] == column.key):
            _place(column, row, plans[column.key], closed)
    versions = sorted({version for column in columns for version in column.cells}, reverse=True)
    samples = max((plan.group_size for plan in plans.values()), default=1)
    is_open = sum(row["state"] not in Run.ENDED for row in rows)
    return Overview(columns, _sorted(versions, columns, shown)[:VERSIONS_SHOWN], ks_of(samples), len(sets) - len(columns), is_open)


def _place(column: Column, row: dict, plan: RunConfig, closed: dict[int, int]) -> None:
    """The newest that is complete stands for a version, else the newest."""
    before = column.cells.get(row["version"])
    if before is not None and (before.mean.value is not None or row["figure"] is None):
        return
    column.cells[row["version"]] = cell_of(row, plan, closed)


def cell_of(row: dict, plan: RunConfig, closed: dict[int, int]) -> Cell:
    mean = Mean(*row["figure"]) if row["figure"] else Mean(None, None, None, 0)
    tasks = min(row["taskset__size"], plan.evaluation.tasks or row["taskset__size"])
    return Cell(row["pk"], row["slug"], row["state"], mean, tasks, closed.get(row["pk"], 0))


def _sorted(versions: Sequence[int], columns: Sequence[Column], shown: Shown) -> list[int]:
    column = next((one for one in columns if one.key == shown.by), None)
    if column is None:
        return list(versions)

    def figure(version: int) -> float:
        cell = column.cells.get(version)
        return -1.0 if cell is None or cell.mean.value is None else cell.mean.value

    return sorted(versions, key=lambda version: (-figure(version), -version))


def plans_of(runs: Sequence[int]) -> dict[str, RunConfig]:
    return {row.evaluation_set: parse(row.config) for row in Run.objects.filter(pk__in=runs).only("evaluation_set", "config")}


def closed_of(runs: Sequence[int]) -> dict[int, int]:
    """How many tasks of these are through."""
    if not runs:
        return {}
    groups = Group.objects.filter(run__in=runs).order_by().values_list("run")
    return dict(groups.annotate(n=Count("pk", filter=Q(state__in=Group.CLOSED))))


def words_of(plan: RunConfig) -> str:
    """What is asked, beside the taskset's name: `4 answers · T 1 · 64 tokens · sort`."""
    most = f"first {plan.evaluation.tasks:,} tasks · " if plan.evaluation.tasks else ""
    judges = ", ".join(choice.scorer for choice in plan.judges) or "nobody"
    people = " · people" if plan.people.per_group else ""
    count = f"{plan.group_size} answer{'' if plan.group_size == 1 else 's'}"
    return f"{most}{count} · T {plan.sampling.temperature:g} · {plan.sampling.max_tokens:,} tokens · by {judges}{people}"


def words_of_schedule(one: Scheduled) -> str:
    """When, what, and all in which it differs from how the run itself samples and judges."""
    times = f"{one.every:,} " if one.every > 1 else ""
    words = [f"every {times}{'update' if one.unit == 'steps' else 'version'}{'s' if one.every > 1 else ''}"]
    words.append(f"{one.samples} answer{'' if one.samples == 1 else 's'}")
    told = {
        "first {:,} tasks": one.tasks, "T {:g}": one.temperature, "{:,} tokens": one.max_tokens,
        "by {}": ", ".join(choice.scorer for choice in one.rewards) or None,
        "right from {:.0%}": None if one.right_from == 1 else one.right_from, "{} judged by people": one.people or None,
    }  # fmt: skip
    return ", ".join([*words, *(text.format(value) for text, value in told.items() if value is not None)])


# -- one evaluation -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Line:
    name: str
    mean: Mean


def slices(found: Found, shown: Shown) -> dict[str, list[Line]]:
    """The chosen figure by domain and by each scale's quarters; {title: lines}."""
    by = defaultdict(list)
    for domain, figures in found.domains.items():
        by["By domain"].append(Line(domain or "(none)", _mean(figures, shown)))
    for scale, bands in found.scales.items():
        for band in bands:
            by[f"By {scale}"].append(Line(_ends(band), _mean(band["figures"], shown)))
    return dict(by)


def _ends(band: dict) -> str:
    low, high = f"{band['from']:.3g}", f"{band['to']:.3g}"
    return low if low == high else f"{low} – {high}"


def _mean(figures: dict, shown: Shown) -> Mean:
    row = figures.get(shown.measure, {}).get(str(shown.k))
    return Mean(*row) if row else Mean(None, None, None, 0)


def table_rows(found: Found, ks: Sequence[int]) -> list[tuple[str, str, list[Mean]]]:
    """(measure, what it is, its figure at each k)."""
    return [(name, words, [found.at(name, k) for k in ks]) for name, words in MEASURES.items() if name in found.figures]
