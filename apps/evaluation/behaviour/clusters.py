"""Cluster pairs of replies by what changed from one version to the other.

A pair belongs to each cluster whose change it shows, so the shares may add up to more than one.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from apps.evaluation.behaviour.features import Features, read
from apps.evaluation.behaviour.phrases import Phrase, changed_phrases, phrases_in

LONGER = 1.5  # times as many words
MIN_WORDS = 5  # by which a length changes
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
    phrases = changed_phrases(
        (read_pair.one.words, read_pair.other.words) for read_pair in read_pairs
    )
    by_change: dict[Change, list[tuple[float, _Read]]] = defaultdict(list)
    for read_pair in read_pairs:
        read_pair.changes = [*_changes(read_pair), *_wording_changes(read_pair, phrases)]
        for change, strength in read_pair.changes:
            by_change[change].append((strength, read_pair))
    clusters = [
        Cluster(
            change,
            len(pairs_of_change),
            len(pairs_of_change) / len(pairs),
            _typical_pairs(pairs_of_change),
        )
        for change, pairs_of_change in by_change.items()
    ]
    clusters.sort(
        key=lambda cluster: (
            cluster.change.kind == WORDING,
            -cluster.count,
            cluster.change.kind,
            cluster.change.words,
        )
    )
    unexplained_count = sum(not read_pair.changes for read_pair in read_pairs)
    return Behaviour(len(pairs), len(pairs) - len(read_pairs), clusters, unexplained_count)


def _read(pair: Pair) -> _Read:
    before = read(pair.one.text, pair.one.stop_reason)
    return _Read(pair, before, read(pair.other.text, pair.other.stop_reason))


def _changes(read_pair: _Read) -> Iterator[tuple[Change, float]]:
    """Yield the changes of a pair with their strengths."""
    before = read_pair.one
    after = read_pair.other
    yield from _length(len(before.words), len(after.words))
    if before.refuses != after.refuses:
        yield Change("refusal", "refuses" if after.refuses else "no longer refuses"), 1.0
    if before.is_cut != after.is_cut:
        yield Change("length", "is cut off" if after.is_cut else "is no longer cut off"), 1.0
    if before.language and after.language and before.language != after.language:
        yield Change("language", f"{before.language} → {after.language}"), 1.0
    for name in sorted(after.formats - before.formats):
        yield Change("format", f"has {name}"), 1.0
    for name in sorted(before.formats - after.formats):
        yield Change("format", f"no longer has {name}"), 1.0
    yield from _rewards(read_pair.pair.one.values, read_pair.pair.other.values)


def _length(before: int, after: int) -> Iterator[tuple[Change, float]]:
    if abs(before - after) < MIN_WORDS:
        return
    ratio = max(before, after) / max(1, min(before, after))
    if ratio >= LONGER:
        yield Change("length", "longer" if after > before else "shorter"), ratio


def _rewards(
    before: Mapping[str, float], after: Mapping[str, float]
) -> Iterator[tuple[Change, float]]:
    for scorer in sorted(before.keys() & after.keys()):
        by = after[scorer] - before[scorer]
        if abs(by) >= REWARD_CHANGE:
            yield Change("reward", f"{scorer} {'higher' if by > 0 else 'lower'}"), abs(by)


def _wording_changes(read_pair: _Read, phrases: Sequence[Phrase]) -> Iterator[tuple[Change, float]]:
    phrases_before = phrases_in(read_pair.one.words)
    phrases_after = phrases_in(read_pair.other.words)
    for phrase in phrases:
        is_gained = phrase.words in phrases_after and phrase.words not in phrases_before
        is_lost = phrase.words in phrases_before and phrase.words not in phrases_after
        if phrase.certainty > 0 and is_gained:
            yield Change(WORDING, f"says “{phrase.text}”"), 1.0
        elif phrase.certainty < 0 and is_lost:
            yield Change(WORDING, f"no longer says “{phrase.text}”"), 1.0


def _typical_pairs(read_pairs: Sequence[tuple[float, _Read]]) -> list[Pair]:
    """Return the pairs nearest to the median strength that show the fewest other changes."""
    strengths = sorted(strength for strength, _ in read_pairs)
    median = strengths[len(strengths) // 2]
    ordered = sorted(
        read_pairs,
        key=lambda entry: (
            len(entry[1].changes),
            abs(entry[0] - median),
            entry[1].pair.one.rollout,
        ),
    )
    return [read_pair.pair for _, read_pair in ordered[:EXAMPLES]]
