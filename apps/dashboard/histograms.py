"""Histograms over a run's buffer and recent steps: rewards, lengths, ages and versions."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from django.utils import timezone

from apps.buffer.models import Experience
from apps.dashboard.buffer_window import RolloutOutcome, Window
from apps.runs.models import Run

BINS = 10
WIDTH = 200.0
HEIGHT = 60.0
AGES = (
    ("0", 0),
    ("1 s", 1),
    ("10 s", 10),
    ("1 min", 60),
    ("10 min", 600),
    ("1 h", 3_600),
    ("6 h", 21_600),
    ("1 d", 86_400),
)
VERSIONS = 8  # and beyond


@dataclass(frozen=True)
class Bar:
    """A bar; `ready` of its rollouts wait for the trainer and are drawn in its lower part."""

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
    """The axis of a histogram; `labels` name the edges, `words` formats any value.

    `is_open` adds a bin for values beyond the last edge.
    """

    title: str
    why: str
    labels: Sequence[str]
    edges: Sequence[float]
    words: Callable[[float], str]
    is_open: bool = True


@dataclass(frozen=True)
class Histogram:
    """A histogram; `low` and `high` label its ends, `middle` is the median."""

    title: str
    why: str
    bars: Sequence[Bar]
    low: str
    high: str
    middle: str


def build_histograms(window: Window) -> list[Histogram]:
    """Return the histograms of the window; empty if nothing was admitted."""
    outcomes = window.admitted
    if not outcomes:
        return []
    rewards = [fate.experience.reward for fate in outcomes]
    lengths = [fate.tokens for fate in outcomes]
    ages = [_age(fate) for fate in outcomes]
    behind = [_behind(fate, window.run) for fate in outcomes]
    counting = [str(n) for n in range(VERSIONS + 1)]
    return [
        _build_histogram(
            _even("Rewards", "combined reward at admission", *_bounds(rewards), "{:.2f}".format),
            rewards,
            outcomes,
        ),
        _build_histogram(
            _even("Length", "tokens per reply", 0.0, _round(max(lengths)), "{:,.0f}".format),
            lengths,
            outcomes,
        ),
        _build_histogram(
            Axis(
                "Age",
                "from admission to the step, or until now",
                [label for label, _ in AGES],
                [seconds for _, seconds in AGES],
                _in_words,
            ),
            ages,
            outcomes,
        ),
        _build_histogram(
            Axis(
                "Staleness, versions",
                "when a step used it, or now",
                counting,
                range(VERSIONS + 1),
                str,
            ),
            behind,
            outcomes,
        ),
    ]


def _age(fate: RolloutOutcome) -> float:
    """Return the age in seconds."""
    until = fate.newest_use.planned_at if fate.newest_use else timezone.now()
    return max(0.0, (until - fate.experience.created_at).total_seconds())


def _behind(fate: RolloutOutcome, run: Run) -> int:
    version = fate.newest_use.version if fate.newest_use else run.step // run.settings.sync_interval
    return max(0, version - fate.experience.weight_version)


def _bounds(values: Sequence[float]) -> tuple[float, float]:
    low = min(values)
    high = max(values)
    if low >= 0 and high <= 1:
        return 0.0, 1.0
    return (low, high) if high > low else (low, low + 1)


def _round(maximum: float) -> float:
    """Return the next number above that ten bins divide evenly."""
    return float(BINS * (int(maximum) // BINS + 1))


def _even(title: str, why: str, low: float, high: float, words: Callable[[float], str]) -> Axis:
    edges = [low + (high - low) * n / BINS for n in range(BINS + 1)]
    return Axis(title, why, [words(edge) for edge in edges], edges, words, is_open=False)


def _build_histogram(
    axis: Axis, values: Sequence[float], outcomes: Sequence[RolloutOutcome]
) -> Histogram:
    """Return the histogram of `values`, which belong to `outcomes` in the same order."""
    bins = len(axis.edges) - (not axis.is_open)
    labels = axis.labels
    counts = [0] * bins
    ready = [0] * bins
    for value, fate in zip(values, outcomes, strict=True):
        place = min(bins - 1, max(0, bisect_right(axis.edges, value) - 1))
        counts[place] += 1
        ready[place] += fate.experience.state == Experience.State.READY
    scale = HEIGHT / max(counts)
    step = WIDTH / bins
    bars = [
        Bar(
            _between(labels, n),
            counts[n],
            ready[n],
            round(n * step + 1, 1),
            round(step - 2, 1),
            round(scale * counts[n], 1),
            round(scale * ready[n], 1),
        )
        for n in range(bins)
    ]
    high = f"{labels[-1]} or more" if axis.is_open else labels[-1]
    return Histogram(
        axis.title, axis.why, bars, labels[0], high, axis.words(sorted(values)[len(values) // 2])
    )


def _between(labels: Sequence[str], place: int) -> str:
    if place == len(labels) - 1:
        return f"{labels[place]} or more"
    return (
        labels[place]
        if labels[place + 1] == str(place + 1)
        else f"{labels[place]} to {labels[place + 1]}"
    )


def _in_words(seconds: float) -> str:
    units = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
    return next(
        (f"{seconds / size:.0f} {unit}" for size, unit in units if seconds >= size),
        f"{seconds:.1f} s",
    )
