"""Stream the policy's text of a turn while it is written, from the live view's stream.

It is only for speed: without Redis nothing comes before the action. The action is authoritative. If
a person edits the text, the stream stops, because its text is no longer the action's beginning.
"""

import asyncio
from collections.abc import AsyncIterator

from apps.environments.action_sampling import NO_WISHES, ActionSampling
from apps.environments.models import EpisodeTurn
from apps.streaming.chunks import DEAD_REDIS, ENTRIES_KEPT, rollout_key
from apps.streaming.hub import START, Entry, EntryId, Hub
from apps.streaming.watcher import TooSlow, Watcher

SILENCE_S = 10.0
COALESCE_S = 0.02


def count_tokens_before(episode_id: int, number: int) -> int:
    """Return the tokens of the rollout's completion up to the last action before this turn."""
    answered_turns = EpisodeTurn.objects.filter(episode=episode_id, number__lt=number)
    return max(
        ((first or 0) + tokens for first, tokens in answered_turns.values_list("first", "tokens")),
        default=0,
    )


async def stream_turn_text(
    rollout_id: int, past: int, answer: asyncio.Future, wishes: ActionSampling = NO_WISHES
) -> AsyncIterator[str]:
    """Yield text of the turn after token `past` as it is written, "" after a silence.

    The stream ends when `answer` is done. `wishes` are the turn's.
    """
    hub = Hub.here()
    watcher = Watcher(coalesce_s=COALESCE_S)
    turn_text = _TurnText(past, wishes)
    try:
        async for piece in _from_hub(hub, watcher, rollout_id, turn_text, answer):
            yield piece
    except (*DEAD_REDIS, TooSlow):
        pass  # the action has the whole text
    finally:
        hub.forget(watcher)
    async for silence in silences(answer):
        yield silence


async def silences(answer: asyncio.Future) -> AsyncIterator[str]:
    """Yield "" at intervals until `answer` is done."""
    while not answer.done():
        await asyncio.wait({answer}, timeout=SILENCE_S)
        if not answer.done():
            yield ""


async def _from_hub(
    hub: Hub, watcher: Watcher, rollout_id: int, turn_text: "_TurnText", answer: asyncio.Future
) -> AsyncIterator[str]:
    key = rollout_key(rollout_id)
    await hub.watch(watcher, [key])
    entries = (await hub.past({key: START}, ENTRIES_KEPT))[key]
    answer.add_done_callback(lambda _: watcher.wakeup.set())
    while not answer.done() and not turn_text.is_edited:
        if piece := turn_text.text_of(entries):
            yield piece
        items = await watcher.take(SILENCE_S)
        entries = [item for item in items if isinstance(item, Entry)]
        if not items and not answer.done():
            yield ""


class _TurnText:
    """Reader of a turn's text from a rollout's stream, each entry once.

    The turn begins at token `past` or after it. A possible beginning of a stop text is held back
    until more text decides it.
    """

    def __init__(self, past: int, wishes: ActionSampling) -> None:
        self.past = past
        self.wishes = wishes
        self.last = START
        self.is_edited = False
        self.text = ""
        self.sent = 0

    def text_of(self, entries: list[Entry]) -> str:
        """Return the new text; entries before the last start belong to an earlier attempt."""
        begun = max(
            (place for place, entry in enumerate(entries) if entry.chunk["t"] == "started"),
            default=0,
        )
        self.text += "".join(self._text(entry.id, entry.chunk) for entry in entries[begun:])
        safe = self.wishes.safe(self.text)
        piece = safe[self.sent :]
        self.sent = max(self.sent, len(safe))
        return piece

    def _text(self, entry_id: EntryId, chunk: dict) -> str:
        if entry_id <= self.last or self.is_edited:
            return ""
        self.last = entry_id
        self.is_edited = chunk["t"] == "edit"
        return chunk["x"] if chunk["t"] == "text" and chunk["o"] >= self.past else ""
