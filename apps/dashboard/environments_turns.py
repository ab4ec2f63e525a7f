"""An episode turn by turn: observation, action, reward, and the time that each side took."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Prefetch

from apps.dashboard.environments import share_of_best
from apps.dashboard.shading import Shading, Token, shade_tokens
from apps.dashboard.transcript import typed_in
from apps.environments.models import Episode, EpisodeTurn, Feedback
from apps.environments.observations import messages
from apps.rollouts.models import Rollout
from apps.runs.models import WeightVersion
from apps.tasksets.messages import Content, Part, content_text

TURNS_SHOWN = 20
FEEDBACK_SHOWN = 10
MAX_SHOWN_LENGTH = 6_000  # characters of one text; the rest is a click away


@dataclass(frozen=True)
class Words:
    """One message of an observation, or an action.

    `left_out` counts characters that are not shown here; `parts` includes its pictures.
    """

    role: str
    text: str
    left_out: int = 0
    parts: Sequence[Part] = ()


@dataclass(frozen=True)
class Weights:
    """A version that sampled tokens of an action.

    `before` is the cursor at which the list of the run's versions begins with it, if known.
    """

    version: int
    before: int | None


@dataclass(frozen=True)
class Move:
    """One turn as it is shown.

    Times are in milliseconds, None where a side has not moved. `share` of the best reward gives the
    colour. `acted` are the action's tokens; `read` those since the last action, which the policy
    read and is not trained on. `weights` are the versions that sampled it, oldest first. `feedback`
    is what was said about the action, and `info` what the environment adds. None of these are
    filled for people who rate blind.
    """

    turn: EpisodeTurn
    observed: list[Words]
    action: Words
    environment_ms: float | None
    policy_ms: float | None
    share: float | None
    acted: Sequence[Token] = ()
    read: Sequence[Token] = ()
    weights: Sequence[Weights] = ()
    info: str = ""
    feedback: Sequence[Feedback] = ()


@dataclass(frozen=True)
class Moves:
    """Some turns of an episode, from `first` on.

    `earlier` and `later` are the first turns of the neighbouring pages, None at the ends.
    """

    shown: list[Move]
    first: int
    earlier: int | None
    later: int | None
    shading: Shading | None


def list_moves(episode: Episode, first: int, whole_turn: int | None, is_open: bool) -> Moves:
    """Return TURNS_SHOWN turns from `first` on; the texts of the turn `whole` are not cut.

    `is_open`: include tokens, if there are any.
    """
    turns = episode.seen.filter(number__gte=max(0, first - 1)).order_by("number")
    if is_open:
        turns = turns.prefetch_related(Prefetch("feedback", Feedback.objects.select_related("by")))
    loaded = list(turns[: TURNS_SHOWN + 2])
    before = loaded.pop(0) if first and loaded else None
    shading = _shading(episode) if is_open else None
    tokens = shading.tokens if shading else []
    weights = _weights(episode, loaded[:TURNS_SHOWN], tokens) if is_open else {}
    moves = [
        _move(
            episode,
            turn,
            previous,
            turn.number == whole_turn,
            tokens,
            is_open,
            weights.get(turn.number, ()),
        )
        for previous, turn in zip([before, *loaded], loaded[:TURNS_SHOWN], strict=False)
    ]
    return Moves(
        moves,
        first,
        max(0, first - TURNS_SHOWN) if first else None,
        first + TURNS_SHOWN if len(loaded) > TURNS_SHOWN else None,
        shading,
    )


def _weights(
    episode: Episode, turns: Sequence[EpisodeTurn], tokens: Sequence[Token]
) -> dict[int, list[Weights]]:
    """Return the versions that sampled each turn's action, by turn.

    They are read from the rollout's tokens if these are stored. At most one query.
    """
    token_versions = [token.version for token in tokens]
    sampled: list[int | None] = []
    for token_version in token_versions:
        sampled.append(sampled[-1] if token_version is None and sampled else token_version)
    versions = {turn.number: _versions(turn, tokens, sampled) for turn in turns}
    used_versions = {version for turn_versions in versions.values() for version in turn_versions}
    rows = (
        WeightVersion.objects.filter(run=episode.run_id, version__in=used_versions)
        if used_versions
        else WeightVersion.objects.none()
    )
    pk_by_version = dict(rows.values_list("version", "pk"))
    return {
        number: [
            Weights(version, pk_by_version[version] + 1 if version in pk_by_version else None)
            for version in sorted(turn_versions)
        ]
        for number, turn_versions in versions.items()
    }


def _versions(
    turn: EpisodeTurn, tokens: Sequence[Token], sampled: Sequence[int | None]
) -> set[int]:
    places = (
        range(turn.first, min(turn.first + turn.tokens, len(tokens)))
        if turn.first is not None
        else ()
    )
    versions = {sampled[n] for n in places if not tokens[n].is_masked} or {turn.weight_version}
    return {version for version in versions if version is not None}


def _move(
    episode: Episode,
    turn: EpisodeTurn,
    before: EpisodeTurn | None,
    is_whole: bool,
    tokens: list[Token],
    is_open: bool,
    weights: Sequence[Weights],
) -> Move:
    max_length = None if is_whole else MAX_SHOWN_LENGTH
    began_at = before.answered_at if before else episode.begun_at
    acted = tokens[turn.first : turn.first + turn.tokens] if turn.first is not None else []
    read = tokens[(before.first or 0) + before.tokens : turn.first] if before and acted else []
    return Move(
        turn,
        [
            _build_words(message["role"], message["content"], max_length)
            for message in messages(turn.observation)
        ],
        _build_words("policy", turn.action, max_length),
        _milliseconds(began_at, turn.requested_at),
        _milliseconds(turn.requested_at, turn.answered_at),
        share_of_best(
            episode.environment, turn.reward if turn.reward is not None else turn.late_reward
        ),
        acted,
        read,
        weights,
        (
            json.dumps(turn.info, indent=2, ensure_ascii=False)[:MAX_SHOWN_LENGTH]
            if is_open and turn.info
            else ""
        ),
        list(turn.feedback.all())[:FEEDBACK_SHOWN] if is_open else (),
    )


def _build_words(role: str, content: Content, max_length: int | None) -> Words:
    text = content_text(content)
    shown_text = text[:max_length]
    parts = () if isinstance(content, str) else _cut(content, max_length)
    return Words(role, shown_text, len(text) - len(shown_text), parts)


def _cut(parts: list[Part], max_length: int | None) -> list[Part]:
    """Return all pictures, and the texts cut to a total number of characters."""
    cut_parts = []
    for part in parts:
        if part["type"] == "text":
            text = str(part["text"])[:max_length]
            part = {**part, "text": text}
            max_length = max_length if max_length is None else max_length - len(text)
        cut_parts.append(part)
    return cut_parts


def _milliseconds(start: datetime | None, end: datetime | None) -> float | None:
    return (end - start).total_seconds() * 1000 if start and end else None


def _shading(episode: Episode) -> Shading | None:
    """Return the tokens of the rollout if it was written from this attempt."""
    rollout: Rollout | None = episode.rollout
    if rollout is None or not hasattr(rollout, "payload"):
        return None
    is_last = not rollout.episodes.filter(fence__gt=episode.fence).exists()
    return shade_tokens(rollout, typed_in(rollout)) if is_last else None
