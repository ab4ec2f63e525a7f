"""Histograms of what is in a run's buffer, or was taken out of it of late: rewards, lengths, ages and versions."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from django.utils import timezone

from apps.buffer.models import Experience
from apps.dashboard.buffer_window import Fate, Window
from apps.runs.models import Run

BINS, WIDTH, HEIGHT = 10, 200.0, 60.0
AGES = (("0", 0), ("1 s", 1), ("10 s", 10), ("1 min", 60), ("10 min", 600), ("1 h", 3_600), ("6 h", 21_600), ("1 d", 86_400))
VERSIONS = 8  # and beyond


@dataclass(frozen=True)
class Bar:
    """`ready`: those of them that wait for the trainer now, drawn in the lower part of the bar."""

    words: str
    count: int
    ready: int
    x: float
    width: float
    height: float
    ready_height: float

    @property
    def top(self) -> float:
        return HEIGHT - self.height

    @property
    def ready_top(self) -> float:
        return HEIGHT - self.ready_height


@dataclass(frozen=True)
class Axis:
    """`named`: the edges in words; `words`: any value. `is_open`: what is beyond the last edge has a bin of its own."""

    title: str
    why: str
    named: Sequence[str]
    edges: Sequence[float]
    words: Callable[[float], str]
    is_open: bool = True


@dataclass(frozen=True)
class Histogram:
    """`low` and `high`: what stands under its ends; `middle`: the median."""

    title: str
    why: str
    bars: Sequence[Bar]
    low: str
    high: str
    middle: str


def histograms_of(window: Window) -> list[Histogram]:
    """None of them where nothing was admitted."""
    kept = window.kept
    if not kept:
        return []
    rewards, lengths = [fate.learned.reward for fate in kept], [fate.tokens for fate in kept]
    ages, behind = [_age(fate) for fate in kept], [_behind(fate, window.run) for fate in kept]
    counting = [str(n) for n in range(VERSIONS + 1)]
    return [
        _drawn(_even("Rewards", "as combined at admission", *_bounds(rewards), "{:.2f}".format), rewards, kept),
        _drawn(_even("Lengths", "tokens of a reply", 0.0, _round(max(lengths)), "{:,.0f}".format), lengths, kept),
        _drawn(Axis("Ages", "from admission to an update, or until now", *zip(*AGES, strict=True), _in_words), ages, kept),
        _drawn(Axis("Versions behind", "when an update took it, or now", counting, range(VERSIONS + 1), str), behind, kept),
    ]


def _age(fate: Fate) -> float:
    """Seconds."""
    until = fate.taken.planned_at if fate.taken else timezone.now()
    return max(0.0, (until - fate.learned.created_at).total_seconds())


def _behind(fate: Fate, run: Run) -> int:
    version = fate.taken.version if fate.taken else run.step // run.settings.sync_interval
    return max(0, version - fate.learned.weight_version)


def _bounds(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    return (0.0, 1.0) if low >= 0 and high <= 1 else (low, high) if high > low else (low, low + 1)


def _round(most: float) -> float:
    """The next number above that ten bins divide."""
    return float(BINS * (int(most) // BINS + 1))


def _even(title: str, why: str, low: float, high: float, words: Callable[[float], str]) -> Axis:
    edges = [low + (high - low) * n / BINS for n in range(BINS + 1)]
    return Axis(title, why, [words(edge) for edge in edges], edges, words, is_open=False)


def _drawn(axis: Axis, values: Sequence[float], kept: Sequence[Fate]) -> Histogram:
    """`values`: of what was kept, in its order."""
    bins, named = len(axis.edges) - (not axis.is_open), axis.named
    counts, ready = [0] * bins, [0] * bins
    for value, fate in zip(values, kept, strict=True):
        place = min(bins - 1, max(0, bisect_right(axis.edges, value) - 1))
        counts[place] += 1
        ready[place] += fate.learned.state == Experience.State.READY
    scale, step = HEIGHT / max(counts), WIDTH / bins
    bars = [
        Bar(_between(named, n), counts[n], ready[n], round(n * step + 1, 1), round(step - 2, 1),
            round(scale * counts[n], 1), round(scale * ready[n], 1))
        for n in range(bins)
    ]  # fmt: skip
    high = f"{named[-1]} and more" if axis.is_open else named[-1]
    return Histogram(axis.title, axis.why, bars, named[0], high, axis.words(sorted(values)[len(values) // 2]))


def _between(named: Sequence[str], place: int) -> str:
    if place == len(named) - 1:
        return f"{named[place]} and more"
    return named[place] if named[place + 1] == str(place + 1) else f"{named[place]} to {named[place + 1]}"


def _in_words(seconds: float) -> str:
    units = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
    return next((f"{seconds / size:.0f} {unit}" for size, unit in units if seconds >= size), f"{seconds:.1f} s")
