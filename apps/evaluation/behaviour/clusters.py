"""Cluster pairs of replies by what changed from one version to the other.

A pair belongs to each cluster whose change it shows, so the shares may add up to more than one.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from apps.evaluation.behaviour.features import Features, read
from apps.evaluation.behaviour.phrases import Phrase, changed_phrases, phrases_in

LONGER = 1.5  # times as many words
FEWEST_WORDS = 5  # by which a length changes
REWARD_CHANGE = 0.25  # of a scorer's value
EXAMPLES = 3
WORDING = "wording"


@dataclass(frozen=True)
class Reply:
    """One version's reply to a task, with its values by scorer."""

    rollout: int
    text: str
    stop_reason: str
    values: Mapping[str, float]


@dataclass(frozen=True)
class Pair:
    """Both versions' replies to the same task with the same sample index."""

    prompt: list[dict]
    one: Reply
    other: Reply


@dataclass(frozen=True)
class Change:
    """What changed: its kind, such as `length`, and the words for it."""

    kind: str
    words: str


@dataclass(frozen=True)
class Cluster:
    """The pairs that show a change; `examples` are the most typical ones."""

    change: Change
    count: int
    share: float
    examples: Sequence[Pair]


@dataclass(frozen=True)
class Behaviour:
    """All pairs by what changed; `same` have equal texts, `other` show no change named here."""

    pairs: int
    same: int
    clusters: Sequence[Cluster]
    other: int


@dataclass
class _Read:
    """A pair whose replies differ, with their features and the changes that it shows."""

    pair: Pair
    one: Features
    other: Features
    changes: list[tuple[Change, float]] = field(default_factory=list)


def behaviour_of(pairs: Sequence[Pair]) -> Behaviour:
    """Cluster pairs of replies by what changed.

    The largest cluster comes first; changes of wording, many of which say little, come last.
    """
    read_pairs = [_read(pair) for pair in pairs if pair.one.text != pair.other.text]
    phrases = changed_phrases((one.one.words, one.other.words) for one in read_pairs)
    by_change: dict[Change, list[tuple[float, _Read]]] = defaultdict(list)
    for one in read_pairs:
        one.changes = [*_changes(one), *_wording_changes(one, phrases)]
        for change, strength in one.changes:
            by_change[change].append((strength, one))
    clusters = [
        Cluster(
            change,
            len(pairs_of_change),
            len(pairs_of_change) / len(pairs),
            _typical(pairs_of_change),
        )
        for change, pairs_of_change in by_change.items()
    ]
    clusters.sort(
        key=lambda one: (
            one.change.kind == WORDING,
            -one.count,
            one.change.kind,
            one.change.words,
        )
    )
    other = sum(not one.changes for one in read_pairs)
    return Behaviour(len(pairs), len(pairs) - len(read_pairs), clusters, other)


def _read(pair: Pair) -> _Read:
    one = read(pair.one.text, pair.one.stop_reason)
    return _Read(pair, one, read(pair.other.text, pair.other.stop_reason))


def _changes(read_pair: _Read) -> Iterator[tuple[Change, float]]:
    """Yield the changes of a pair with their strengths."""
    one = read_pair.one
    other = read_pair.other
    yield from _length(len(one.words), len(other.words))
    if one.refuses != other.refuses:
        yield Change("refusal", "refuses" if other.refuses else "no longer refuses"), 1.0
    if one.is_cut != other.is_cut:
        yield Change("length", "is cut off" if other.is_cut else "is no longer cut off"), 1.0
    if one.language and other.language and one.language != other.language:
        yield Change("language", f"{one.language} → {other.language}"), 1.0
    for name in sorted(other.formats - one.formats):
        yield Change("format", f"has {name}"), 1.0
    for name in sorted(one.formats - other.formats):
        yield Change("format", f"no longer has {name}"), 1.0
    yield from _rewards(read_pair.pair.one.values, read_pair.pair.other.values)


def _length(one: int, other: int) -> Iterator[tuple[Change, float]]:
    if abs(one - other) < FEWEST_WORDS:
        return
    ratio = max(one, other) / max(1, min(one, other))
    if ratio >= LONGER:
        yield Change("length", "longer" if other > one else "shorter"), ratio


def _rewards(
    one: Mapping[str, float], other: Mapping[str, float]
) -> Iterator[tuple[Change, float]]:
    for scorer in sorted(one.keys() & other.keys()):
        by = other[scorer] - one[scorer]
        if abs(by) >= REWARD_CHANGE:
            yield Change("reward", f"{scorer} {'higher' if by > 0 else 'lower'}"), abs(by)


def _wording_changes(read_pair: _Read, phrases: Sequence[Phrase]) -> Iterator[tuple[Change, float]]:
    had = phrases_in(read_pair.one.words)
    has = phrases_in(read_pair.other.words)
    for phrase in phrases:
        is_gained = phrase.words in has and phrase.words not in had
        is_lost = phrase.words in had and phrase.words not in has
        if phrase.certainty > 0 and is_gained:
            yield Change(WORDING, f"says “{phrase.text}”"), 1.0
        elif phrase.certainty < 0 and is_lost:
            yield Change(WORDING, f"no longer says “{phrase.text}”"), 1.0


def _typical(read_pairs: Sequence[tuple[float, _Read]]) -> list[Pair]:
    """Return the pairs nearest to the median strength that show the fewest other changes."""
    strengths = sorted(strength for strength, _ in read_pairs)
    median = strengths[len(strengths) // 2]
    ordered = sorted(
        read_pairs,
        key=lambda one: (len(one[1].changes), abs(one[0] - median), one[1].pair.one.rollout),
    )
    return [one.pair for _, one in ordered[:EXAMPLES]]
