"""Content of the calibration page: each scorer's status, biases, diagram and disagreements."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from apps.dashboard.knobs import Knob, defaults, section_knobs
from apps.feedback.calibration.watching import alarm_sentence
from apps.feedback.models import Calibration
from apps.rollouts.models import Rollout
from apps.runs.config import RunConfig
from apps.runs.models import Run
from apps.runs.scorer_choice import Trust

# Kappa by J. R. Landis and G. G. Koch, Biometrics 33 (1977): from .6 substantial, from .4 moderate.
# Order as of the rater model.
BEYOND_CHANCE = (0.4, 0.6)
ORDERED = (0.7, 0.8)
SMALL = 0.05  # share of the range; smaller biases are named but not marked
LEFT = 34
TOP = 8
WIDTH = 170
HEIGHT = 150
MAX_RADIUS = 9  # largest radius, in pixels of the diagram
AT_ONCE = 25  # disagreements on a page
DIAGRAMS = 6  # diagrams per scorer: all tasks, then domains
LABELS = {
    "accuracy": "Minimum accuracy",
    "kappa": "Minimum kappa",
    "order": "Minimum pair accuracy",
    "min_labels": "Minimum labels",
    "pause": "Pause the run",
}


@dataclass(frozen=True)
class ScorerStatus:
    """The status of a scorer; `tone` is good, warn, bad, or "" while it is not known."""

    tone: str
    words: str


@dataclass(frozen=True)
class ScorerBias:
    """A bias of a scorer; `kind` is overall, by length or by position.

    `is_marked` means that it is larger than chance explains, and not small.
    """

    kind: str
    words: str
    is_marked: bool = False


@dataclass(frozen=True)
class DiagramBin:
    """A bin in the diagram: x is the scorer's reward, y people's, the size the reply count."""

    x: float
    y: float
    radius: float


@dataclass(frozen=True)
class Part:
    """A scorer's metrics for all tasks, or for those of one domain."""

    where: str
    row: Calibration
    light: ScorerStatus
    dots: Sequence[DiagramBin]

    @property
    def metrics(self) -> dict:
        return self.row.metrics


@dataclass(frozen=True)
class Card:
    """One scorer: its parts (all tasks first), its biases, and the fields of its targets."""

    scorer: str
    place: int
    parts: Sequence[Part]
    leanings: Sequence[ScorerBias]
    trust: Trust | None
    knobs: Sequence[Knob]
    is_wrong: bool

    @property
    def alarms(self) -> list[str]:
        return [alarm_sentence(part.row, part.row.alarm) for part in self.parts if part.row.alarm]

    @property
    def light(self) -> ScorerStatus:
        """Return the status over all tasks; a domain with an alarm takes precedence."""
        return next((part.light for part in self.parts if part.row.alarm), self.parts[0].light)

    @property
    def drawn(self) -> Sequence[Part]:
        """Return the parts that have something to draw: all tasks and the first domains."""
        return [part for part in self.parts if part.dots][:DIAGRAMS]


def build_scorer_cards(
    plan: RunConfig,
    rows: Iterable[Calibration],
    form: tuple[str, Mapping] | None,
    wrong: Mapping[str, str],
) -> list[Card]:
    """Return a card for each scorer of the run that has metrics, in the order of the run.

    `form` is the form just posted for one of them, and `wrong` its errors.
    """
    rows_by_scorer = {
        scorer: list(scorer_rows)
        for scorer, scorer_rows in groupby(rows, key=lambda row: row.scorer)
    }
    cards = []
    for place, choice in enumerate(plan.rewards):
        scorer_rows = rows_by_scorer.get(choice.scorer, [])
        posted = form[1] if form is not None and form[0] == choice.scorer else None
        shown_wrong = {} if posted is None else wrong
        knobs = _trust_knobs(place, choice.trust, posted, shown_wrong)
        parts = [
            _part(row, choice.trust)
            for row in sorted(
                scorer_rows, key=lambda row: (row.domain is not None, row.domain or "")
            )
        ]
        leanings = list_leanings(parts[0].metrics) if parts else []
        cards.append(
            Card(choice.scorer, place, parts, leanings, choice.trust, knobs, bool(shown_wrong))
        )
    return cards


def _trust_knobs(
    place: int, trust: Trust | None, posted: Mapping | None, wrong: Mapping[str, str]
) -> list[Knob]:
    """Return the fields for a scorer's targets: as posted, else as saved, else the defaults."""
    saved = trust.model_dump(mode="json") if trust else defaults(Trust)
    prefix = field_prefix(place)
    labels = {f"{prefix}{name}": words for name, words in LABELS.items()}
    problems = {f"{prefix}{field}": words for field, words in wrong.items()}
    values = saved if posted is None else posted
    return list(section_knobs(Trust, values, labels, problems, prefix))


def field_prefix(place: int) -> str:
    """Return the prefix of the form fields of the scorer at this place of the configuration."""
    return f"trust{place}."


def _part(row: Calibration, trust: Trust | None) -> Part:
    where = "all tasks" if row.domain is None else row.domain or "no domain"
    return Part(
        where, row, choose_light(row.metrics, trust, bool(row.alarm)), dots(row.metrics["bins"])
    )


def choose_light(metrics: dict, trust: Trust | None, is_under: bool) -> ScorerStatus:
    """Return a scorer's status by its target, else by kappa, else by the order of pairs."""
    if is_under:
        return ScorerStatus("bad", "below target")
    if trust and metrics["labels"] >= trust.min_labels:
        return ScorerStatus("good", "on target")
    for name, (fair, well) in (("kappa", BEYOND_CHANCE), ("order", ORDERED)):
        value = metrics[name]["value"]
        if value is not None:
            tone = "good" if value >= well else "warn" if value >= fair else "bad"
            return ScorerStatus(
                tone,
                {"good": "good agreement", "warn": "fair agreement", "bad": "poor agreement"}[tone],
            )
    return ScorerStatus("", "unknown")


def list_leanings(metrics: dict) -> list[ScorerBias]:
    return [_on_the_whole(metrics["shift"]), _by_length(metrics), _by_place(metrics)]


def _on_the_whole(shift: dict) -> ScorerBias:
    kind = "overall bias"
    if shift["value"] is None:
        return ScorerBias(kind, shift["why"])
    if not _is_apart(shift, 0.0):
        return ScorerBias(kind, f"same level as people: {format_with_interval(shift)}")
    return ScorerBias(
        kind,
        f"{'higher' if shift['value'] > 0 else 'lower'} than people: {format_with_interval(shift)}",
        _is_marked(shift, 0.0),
    )


def _by_length(metrics: dict) -> ScorerBias:
    kind = "length bias"
    doubling = metrics["doubling"]
    halves = metrics["longer"]
    if doubling["value"] is None:
        return ScorerBias(kind, doubling["why"])
    if not _is_apart(doubling, 0.0):
        return ScorerBias(
            kind, f"none found: {format_with_interval(doubling)} per doubling of the length"
        )
    words = (
        f"prefers {'long' if doubling['value'] > 0 else 'short'} replies:"
        f" {format_with_interval(doubling)} per doubling of the length"
    )
    more = (
        f"; the longer half gets {format_with_interval(halves)} relative to people"
        if halves["value"] is not None
        else ""
    )
    return ScorerBias(kind, words + more, _is_marked(doubling, 0.0) or _is_marked(halves, 0.0))


def _by_place(metrics: dict) -> ScorerBias:
    kind = "position bias"
    first = metrics["first"]
    earlier = metrics["earlier"]
    if first["value"] is not None:
        value, low, high = (f"{100 * first[name]:.0f} %" for name in ("value", "low", "high"))
        words = f"chose the first of two {value} of the time ({low} to {high})"
        return ScorerBias(kind, f"{words}; without bias: 50 %", _is_marked(first, 0.5))
    if earlier["value"] is None:
        return ScorerBias(kind, earlier["why"])
    if not _is_apart(earlier, 0.0):
        return ScorerBias(kind, f"none found: {format_with_interval(earlier)} for the earlier half")
    words = "earlier" if earlier["value"] > 0 else "later"
    return ScorerBias(
        kind,
        f"prefers {words} replies: {format_with_interval(earlier)} for the earlier half",
        _is_marked(earlier, 0.0),
    )


def _is_apart(metric: dict, expected: float) -> bool:
    """Tell whether a metric differs from the expected value by more than chance explains."""
    return metric["low"] is not None and not metric["low"] <= expected <= metric["high"]


def _is_marked(metric: dict, expected: float) -> bool:
    return _is_apart(metric, expected) and abs(metric["value"] - expected) >= SMALL


def format_with_interval(metric: dict) -> str:
    """Format a metric with its interval: +0.12 (+0.05 to +0.19)."""
    interval = "" if metric["low"] is None else f" ({metric['low']:+.2f} to {metric['high']:+.2f})"
    return (
        f"{metric['value']:+.2f}{interval}".replace("-", "−")
        .replace("−0.00", "0.00")
        .replace("+0.00", "0.00")
    )


def dots(bins: Sequence[dict]) -> list[DiagramBin]:
    """Return the dots of the diagram; their area is proportional to the number of replies."""
    largest_count = max((bucket["count"] for bucket in bins), default=1)
    return [
        DiagramBin(
            round(LEFT + WIDTH * bucket["scorer"], 1),
            round(TOP + HEIGHT * (1 - bucket["people"]), 1),
            round(max(2.0, MAX_RADIUS * math.sqrt(bucket["count"] / largest_count)), 1),
        )
        for bucket in bins
    ]


@dataclass(frozen=True)
class DisagreedReply:
    """A reply on which a scorer and people disagree; both values from 0 to 1."""

    rollout: Rollout
    scorer: str
    gave: float
    people: float

    @property
    def size(self) -> float:
        return abs(self.gave - self.people)


def parted(
    rows: Iterable[Calibration], scorer: str, begin: int
) -> tuple[list[DisagreedReply], int]:
    """Return a page of the largest disagreements, and how many there are, in one query.

    They are those of one scorer, or of all if it is empty, from the place `begin` on.
    """
    widest = [
        (row.scorer, *disagreement)
        for row in rows
        if row.domain is None and scorer in ("", row.scorer)
        for disagreement in row.widest
    ]
    widest.sort(key=lambda row: (-abs(row[2] - row[3]), -row[1], row[0]))
    page = widest[begin : begin + AT_ONCE]
    rollouts = Rollout.objects.select_related("group__task").in_bulk(
        {rollout for _, rollout, *_ in page}
    )
    replies = [
        DisagreedReply(rollouts[pk], name, scorer_value, people)
        for name, pk, scorer_value, people in page
        if pk in rollouts
    ]
    return replies, len(widest)


def calibration_document(run: Run, rows: Iterable[Calibration]) -> dict:
    """Return all metrics as a document for programs."""
    trust = {choice.scorer: choice.trust for choice in run.settings.rewards}
    return {
        "run": run.slug,
        "scorers": [
            {
                "scorer": row.scorer,
                "domain": row.domain,
                "made_at": row.made_at.isoformat(),
                "alarm": row.alarm or None,
                "trust": (
                    scorer_trust.model_dump(mode="json")
                    if (scorer_trust := trust.get(row.scorer))
                    else None
                ),
                "metrics": row.metrics,
            }
            for row in rows
        ],
    }
