"""What the calibration page shows: each scorer's light, its leanings in words, its diagram, and where it and people part."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from apps.dashboard.knobs import Knob, defaults, knobs_of
from apps.feedback.calibration.watching import told
from apps.feedback.models import Calibration
from apps.rollouts.models import Rollout
from apps.runs.config import RunConfig
from apps.runs.models import Run
from apps.runs.scorer_choice import Trust

# Kappa by J. R. Landis and G. G. Koch, Biometrics 33 (1977): from .6 substantial, from .4 moderate. Order as of the rater model.
BEYOND_CHANCE, ORDERED = (0.4, 0.6), (0.7, 0.8)
SMALL = 0.05  # of the range: a leaning that is smaller is named and not marked
LEFT, TOP, WIDTH, HEIGHT, LARGEST = 34, 8, 170, 150, 9  # of the diagram, in its own pixels
AT_ONCE = 25  # disagreements on a page
DIAGRAMS = 6  # of a scorer: all tasks, then domains
LABELS = {
    "accuracy": "Right at least", "kappa": "Kappa at least", "order": "Pairs in order at least", "least": "From so many labels",
    "pause": "Pause the run",
}  # fmt: skip


@dataclass(frozen=True)
class Light:
    """`tone`: good, warn, bad, or "" while it is not known."""

    tone: str
    words: str


@dataclass(frozen=True)
class Leaning:
    """`kind`: on the whole, by length or by place. `is_marked`: more than chance explains, and not small."""

    kind: str
    words: str
    is_marked: bool = False


@dataclass(frozen=True)
class Dot:
    """A bin in the diagram: further right the scorer gave more, further up people did; its size tells of how many replies."""

    x: float
    y: float
    radius: float


@dataclass(frozen=True)
class Part:
    """A scorer at all tasks, or at those of a domain."""

    where: str
    row: Calibration
    light: Light
    dots: Sequence[Dot]

    @property
    def figures(self) -> dict:
        return self.row.figures


@dataclass(frozen=True)
class Card:
    """One scorer: its parts, the first of all tasks; its leanings there; and what is asked of it, as fields."""

    scorer: str
    place: int
    parts: Sequence[Part]
    leanings: Sequence[Leaning]
    trust: Trust | None
    knobs: Sequence[Knob]
    is_wrong: bool

    @property
    def alarms(self) -> list[str]:
        return [told(part.row, part.row.alarm) for part in self.parts if part.row.alarm]

    @property
    def light(self) -> Light:
        """Of all tasks; but what is under at some domain is not as it is asked."""
        return next((part.light for part in self.parts if part.row.alarm), self.parts[0].light)

    @property
    def drawn(self) -> Sequence[Part]:
        """All tasks and the first domains, where there is something to draw."""
        return [part for part in self.parts if part.dots][:DIAGRAMS]


def cards(plan: RunConfig, rows: Iterable[Calibration], said: tuple[str, Mapping] | None, wrong: Mapping[str, str]) -> list[Card]:
    """One for each scorer of the run that has figures, in its order. `said`: what was just posted of one, and `wrong` in it."""
    of = {scorer: list(own) for scorer, own in groupby(rows, key=lambda row: row.scorer)}
    found = []
    for place, choice in enumerate(plan.rewards):
        own, is_said = of.get(choice.scorer, []), said is not None and said[0] == choice.scorer
        values = said[1] if is_said else choice.trust.model_dump(mode="json") if choice.trust else defaults(Trust)
        prefix = prefix_of(place)
        problems = {f"{prefix}{field}": words for field, words in wrong.items()} if is_said else {}
        knobs = [*knobs_of(Trust, values, {f"{prefix}{name}": words for name, words in LABELS.items()}, problems, prefix)]
        parts = [_part(row, choice.trust) for row in sorted(own, key=lambda row: (row.domain is not None, row.domain or ""))]
        leanings = leanings_of(parts[0].figures) if parts else []
        found.append(Card(choice.scorer, place, parts, leanings, choice.trust, knobs, is_said and bool(wrong)))
    return found


def prefix_of(place: int) -> str:
    """Of the names of the fields that belong to the scorer at this place of the configuration."""
    return f"trust{place}."


def _part(row: Calibration, trust: Trust | None) -> Part:
    where = "all tasks" if row.domain is None else row.domain or "no domain"
    return Part(where, row, light(row.figures, trust, bool(row.alarm)), dots(row.figures["bins"]))


def light(figures: dict, trust: Trust | None, is_under: bool) -> Light:
    """By what its owner asks, where that can be said; else by kappa, or where that does not exist by the order of pairs."""
    if is_under:
        return Light("bad", "under what is asked")
    if trust and figures["labels"] >= trust.least:
        return Light("good", "as is asked")
    for name, (fair, well) in (("kappa", BEYOND_CHANCE), ("order", ORDERED)):
        value = figures[name]["value"]
        if value is not None:
            tone = "good" if value >= well else "warn" if value >= fair else "bad"
            return Light(tone, {"good": "agrees well", "warn": "agrees somewhat", "bad": "hardly agrees"}[tone])
    return Light("", "not known yet")


def leanings_of(figures: dict) -> list[Leaning]:
    return [_on_the_whole(figures["shift"]), _by_length(figures), _by_place(figures)]


def _on_the_whole(shift: dict) -> Leaning:
    kind = "on the whole"
    if shift["value"] is None:
        return Leaning(kind, shift["why"])
    if not _is_apart(shift, 0.0):
        return Leaning(kind, f"gives neither more nor less than people: {signed(shift)}")
    return Leaning(kind, f"gives {'more' if shift['value'] > 0 else 'less'} than people: {signed(shift)}", _is_marked(shift, 0.0))


def _by_length(figures: dict) -> Leaning:
    kind, doubling, halves = "by length", figures["doubling"], figures["longer"]
    if doubling["value"] is None:
        return Leaning(kind, doubling["why"])
    if not _is_apart(doubling, 0.0):
        return Leaning(kind, f"no leaning seen: {signed(doubling)} with each doubling of the length")
    words = f"prefers {'long' if doubling['value'] > 0 else 'short'} answers: {signed(doubling)} with each doubling of the length"
    more = f"; beside what people give the longer half gets {signed(halves)}" if halves["value"] is not None else ""
    return Leaning(kind, words + more, _is_marked(doubling, 0.0) or _is_marked(halves, 0.0))


def _by_place(figures: dict) -> Leaning:
    kind, first, earlier = "by place", figures["first"], figures["earlier"]
    if first["value"] is not None:
        value, low, high = (f"{100 * first[name]:.0f} %" for name in ("value", "low", "high"))
        words = f"took the first of two {value} of the time ({low} to {high})"
        return Leaning(kind, f"{words}; without a leaning it would be half", _is_marked(first, 0.5))
    if earlier["value"] is None:
        return Leaning(kind, earlier["why"])
    if not _is_apart(earlier, 0.0):
        return Leaning(kind, f"no leaning seen: {signed(earlier)} to what stands in the earlier half")
    words = "earlier" if earlier["value"] > 0 else "later"
    return Leaning(kind, f"prefers what stands {words}: {signed(earlier)} to the earlier half", _is_marked(earlier, 0.0))


def _is_apart(figure: dict, expected: float) -> bool:
    """From what is expected, by more than chance explains."""
    return figure["low"] is not None and not figure["low"] <= expected <= figure["high"]


def _is_marked(figure: dict, expected: float) -> bool:
    return _is_apart(figure, expected) and abs(figure["value"] - expected) >= SMALL


def signed(figure: dict) -> str:
    """+0.12 (+0.05 to +0.19)"""
    interval = "" if figure["low"] is None else f" ({figure['low']:+.2f} to {figure['high']:+.2f})"
    return f"{figure['value']:+.2f}{interval}".replace("-", "−").replace("−0.00", "0.00").replace("+0.00", "0.00")


def dots(bins: Sequence[dict]) -> list[Dot]:
    """Area goes by the number of replies."""
    most = max((one["count"] for one in bins), default=1)
    return [
        Dot(
            round(LEFT + WIDTH * one["scorer"], 1), round(TOP + HEIGHT * (1 - one["people"]), 1),
            round(max(2.0, LARGEST * math.sqrt(one["count"] / most)), 1),
        )
        for one in bins
    ]  # fmt: skip


@dataclass(frozen=True)
class Parted:
    """A reply on which a scorer and people lie apart; both 0 to 1."""

    rollout: Rollout
    scorer: str
    gave: float
    people: float

    @property
    def size(self) -> float:
        return abs(self.gave - self.people)


def parted(rows: Iterable[Calibration], scorer: str, begin: int) -> tuple[list[Parted], int]:
    """A page of what lies furthest apart, of one scorer or (empty) of all, from the place `begin` on; and how many there are.

    One statement.
    """
    widest = [(row.scorer, *one) for row in rows if row.domain is None and scorer in ("", row.scorer) for one in row.widest]
    widest.sort(key=lambda one: (-abs(one[2] - one[3]), -one[1], one[0]))
    here = widest[begin : begin + AT_ONCE]
    rollouts = Rollout.objects.select_related("group__task").in_bulk({rollout for _, rollout, *_ in here})
    found = [Parted(rollouts[pk], name, gave, people) for name, pk, gave, people in here if pk in rollouts]
    return found, len(widest)


def document(run: Run, rows: Iterable[Calibration]) -> dict:
    """All figures, for programs."""
    trust = {choice.scorer: choice.trust for choice in run.settings.rewards}
    return {
        "run": run.slug,
        "scorers": [
            {
                "scorer": row.scorer, "domain": row.domain, "made_at": row.made_at.isoformat(), "alarm": row.alarm or None,
                "trust": asked.model_dump(mode="json") if (asked := trust.get(row.scorer)) else None, "figures": row.figures,
            }
            for row in rows
        ],
    }  # fmt: skip
