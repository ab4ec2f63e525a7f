"""What the policy writes in a turn, while it writes it: the text of the live view's stream, until the action is there.

Redis only hastens: without it nothing comes before the action. The action is the truth: where somebody edits what was written
the stream falls silent, and its text is not the action's beginning.
"""

import asyncio
from collections.abc import AsyncIterator

from apps.environments.models import EpisodeTurn
from apps.environments.wishes import NO_WISHES, Wishes
from apps.streaming.chunks import DEAD_REDIS, ENTRIES_KEPT, rollout_key
from apps.streaming.hub import START, Entry, EntryId, Hub
from apps.streaming.watcher import TooSlow, Watcher

SILENCE_S = 10.0
COALESCE_S = 0.02


def past_of(episode_id: int, number: int) -> int:
    """Tokens of the rollout's completion up to the last action before this turn."""
    acted = EpisodeTurn.objects.filter(episode=episode_id, number__lt=number)
    return max(((first or 0) + tokens for first, tokens in acted.values_list("first", "tokens")), default=0)


async def pieces(rollout_id: int, past: int, answer: asyncio.Future, wishes: Wishes = NO_WISHES) -> AsyncIterator[str]:
    """Text of the turn behind token `past` as it is written, "" after a silence, until `answer` is there. `wishes`: the turn's."""
    hub, watcher = Hub.here(), Watcher(coalesce_s=COALESCE_S)
    heard = _Heard(past, wishes)
    try:
        async for piece in _from_hub(hub, watcher, rollout_id, heard, answer):
            yield piece
    except (*DEAD_REDIS, TooSlow):
        pass  # the action has all of it
    finally:
        hub.forget(watcher)
    async for silence in silences(answer):
        yield silence


async def silences(answer: asyncio.Future) -> AsyncIterator[str]:
    """ "" every so often until `answer` is there."""
    while not answer.done():
        await asyncio.wait({answer}, timeout=SILENCE_S)
        if not answer.done():
            yield ""


async def _from_hub(hub: Hub, watcher: Watcher, rollout_id: int, heard: "_Heard", answer: asyncio.Future) -> AsyncIterator[str]:
    key = rollout_key(rollout_id)
    await hub.watch(watcher, [key])
    found = (await hub.past({key: START}, ENTRIES_KEPT))[key]
    answer.add_done_callback(lambda _: watcher.bell.set())
    while not answer.done() and not heard.is_edited:
        if piece := heard.text_of(found):
            yield piece
        taken = await watcher.take(SILENCE_S)
        found = [item for item in taken if isinstance(item, Entry)]
        if not taken and not answer.done():
            yield ""


class _Heard:
    """What was heard of a rollout's stream, each entry once: the text of the turn that begins at token `past` or behind it.

    What may be the beginning of a text that ends the action is held back until it is more, or something else.
    """

    def __init__(self, past: int, wishes: Wishes) -> None:
        self.past, self.wishes, self.last, self.is_edited = past, wishes, START, False
        self.text, self.told = "", 0

    def text_of(self, entries: list[Entry]) -> str:
        """What came before the last beginning among them was another attempt's."""
        begun = max((place for place, entry in enumerate(entries) if entry.chunk["t"] == "started"), default=0)
        self.text += "".join(self._text(entry.id, entry.chunk) for entry in entries[begun:])
        safe = self.wishes.safe(self.text)
        piece, self.told = safe[self.told :], max(self.told, len(safe))
        return piece

    def _text(self, entry_id: EntryId, chunk: dict) -> str:
        if entry_id <= self.last or self.is_edited:
            return ""
        self.last = entry_id
        self.is_edited = chunk["t"] == "edit"
        return chunk["x"] if chunk["t"] == "text" and chunk["o"] >= self.past else ""
