"""Outcomes of the rollouts of a run's newest groups, with the reasons of those not trained on."""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from urllib.parse import urlencode

from apps.buffer.models import Experience
from apps.dashboard.buffer_window import RolloutOutcome, Window
from apps.dashboard.sankey import End, Stream
from apps.rollouts.models import Group, Rollout

REASONS = 6  # most common reasons of a stream; the others are shown as one
NUMBER = re.compile(r"-?\d+(?:[.,]\d+)*")
ADMITTED = "admitted"
LEFT_OUT = "excluded"
UNDER_WAY = "in progress"
BUFFERED: dict[str, str] = {
    Experience.State.TRAINED: "trained",
    Experience.State.CLAIMED: "in a step",
    Experience.State.READY: "ready for training",
}
OPEN: dict[str, str] = {
    Group.State.SAMPLING: "being sampled",
    Group.State.SCORING: "being scored",
    Group.State.WAITING: "waiting for people",
    Group.State.JUDGED: "in the pipeline",
}
QUERIES = {
    "trained": "trained",
    "waiting for people": "waiting",
}  # labels equal to an outcome of the rollout list


def list_flow_streams(window: Window) -> list[Stream]:
    """Return the streams that are not empty: admitted, left out before that, under way."""
    endings = defaultdict(list)
    for fate in window.fates:
        stream, words, query = _describe_fate(fate)
        endings[stream].append((words, query))
    kinds = {ADMITTED: "good", LEFT_OUT: "bad", UNDER_WAY: "open"}
    return [
        Stream(title, kind, _list_ends(kind, endings[title]))
        for title, kind in kinds.items()
        if endings[title]
    ]


def _describe_fate(fate: RolloutOutcome) -> tuple[str, str, str]:
    """Return the stream of a rollout, the label of its end, and the query of its list."""
    learned = fate.learned
    group = fate.group
    if learned:
        words = BUFFERED.get(learned.state)
        return (
            ADMITTED,
            words or f"dropped: {learned.reason}",
            _query(QUERIES.get(words or "") or ("admitted" if words else "dropped")),
        )
    if fate.cut:
        return LEFT_OUT, ": ".join(fate.cut), "?" + urlencode({"operator": fate.cut[0]})
    if fate.state == Rollout.State.FAILED:
        return LEFT_OUT, f"failed: {fate.stop_reason}", _query("failed")
    if group.state == Group.State.DROPPED:
        return LEFT_OUT, group.reason, _query("dropped")
    if group.state == Group.State.ADMITTED:
        return LEFT_OUT, "not used: its group was admitted without it", ""
    if group.state == Group.State.MEASURED:
        return LEFT_OUT, "evaluation: not trained on", ""
    return UNDER_WAY, OPEN[group.state], _query(QUERIES.get(OPEN[group.state], ""))


def _query(fate: str) -> str:
    return f"?fate={fate}" if fate else ""


def _list_ends(kind: str, endings: Sequence[tuple[str, str]]) -> list[End]:
    """Return the ends of a stream, the most common first.

    Reasons that differ only in their numbers count as one.
    """
    alike: dict[str, Counter] = defaultdict(Counter)
    for words, query in endings:
        alike[NUMBER.sub("…", words)][words, query] += 1
    order = sorted(alike.items(), key=lambda item: -item[1].total())
    ends = [_build_end(kind, name, counts) for name, counts in order[:REASONS]]
    other_reasons = order[REASONS:]
    if other_reasons:
        other_count = sum(counts.total() for _, counts in other_reasons)
        ends.append(End(f"{len(other_reasons)} other reasons", other_count, kind))
    return ends


def _build_end(kind: str, name: str, counts: Counter) -> End:
    (words, query), _ = counts.most_common(1)[0]
    is_dropped = kind == "good" and words not in BUFFERED.values()
    return End(
        words if len(counts) == 1 else name, counts.total(), "bad" if is_dropped else kind, query
    )
