"""`/ws/episodes/7/`: an episode played over one socket, for environments with much traffic.

Frames: docs/environments.md.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import partial
from typing import Any

from channels.db import database_sync_to_async
from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import Http404
from rest_framework.exceptions import APIException, AuthenticationFailed, ParseError

from apps.accounts.authentication import token_in
from apps.accounts.durability import commit_without_waiting
from apps.accounts.problems import NotNow, answer_exception
from apps.accounts.strict_json import NotStrictJson
from apps.environments.access import Asker, get_played_episode
from apps.environments.action_waiters import wait_until_settled
from apps.environments.errors import CannotPlay
from apps.environments.frames import read_frame
from apps.environments.models import Episode
from apps.environments.playing import locked, record_sign_of_life
from apps.environments.rest_errors import convert_refusal
from apps.environments.rewarding import AcceptedReward, TurnReward, reward_many
from apps.environments.schemas import MAX_NUMBER, EpisodeDocument
from apps.environments.turn_messages import finish_episode, record_observation, turn_document
from apps.environments.turn_text import count_tokens_before, stream_turn_text
from apps.streaming.handshake import read_authorization
from apps.streaming.sockets import (
    NORMAL,
    NOT_SIGNED_IN,
    NOT_YOURS,
    TOO_BIG,
    TOO_CHATTY,
    UNSUPPORTED,
    Refused,
    Socket,
)
from apps.streaming.watcher import TooSlow

SOCKETS_PER_USER = 256  # an environment plays many episodes at once, each on its own socket
MAX_FRAME_BYTES = 64 * 1024  # bytes
STRETCH_S = 5  # seconds over which frames are counted
NO_TURN = MAX_NUMBER  # a turn that nobody acts on: waiting for it waits for the episode's end


class EpisodeSocket(Socket):
    """The socket of an episode's player: a program with a token, or a person from our own origin.

    Frames are processed in order.
    """

    kind = "episode"
    most_sockets = SOCKETS_PER_USER

    def __init__(self) -> None:
        super().__init__()
        self.frames: deque[str] = deque()
        self.frame_arrived = asyncio.Event()
        self.in_stretch = 0
        self.has_ended = False
        self.answers: dict[int, asyncio.Task] = {}

    # -- permissions

    async def permit(self) -> int:
        """Check the client and return its user.

        Raises Refused: not signed in, not the episode's player, or the episode ended and nothing
        was sent for a minute.
        """
        if self.has_ended and not self.frames_heard:
            raise Refused(NORMAL, "the episode has ended")
        header = read_authorization(self.scope)
        asker = Asker(await self.signed_in()) if header is None else await _asker(header)
        self.episode = await _load_played_episode(asker, self.scope["url_route"]["kwargs"]["pk"])
        return asker.user.pk

    # -- input

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        self.frames_heard += 1
        if text_data is None:
            await self.end(UNSUPPORTED, "frames must be JSON text")
        elif len(text_data.encode()) > MAX_FRAME_BYTES:
            await self.end(
                TOO_BIG,
                f"a frame has at most {MAX_FRAME_BYTES} bytes; send longer observations over REST",
            )
        else:
            await self._take(text_data)

    async def _take(self, text: str) -> None:
        """Queue a frame.

        Refuse frames above the rate limit, and close the socket at twice the limit.
        """
        self.in_stretch += 1
        frame_limit = settings.REQUESTS_PER_SECOND * STRETCH_S
        if self.in_stretch <= frame_limit:
            self.frames.append(text)
            self.frame_arrived.set()
        elif self.in_stretch == frame_limit + 1:
            message = (
                f"More than {frame_limit} frames within {STRETCH_S} s: this frame and later ones"
                " in this period are ignored."
            )
            await self._refuse("", NotNow(message, STRETCH_S))
        elif self.in_stretch > 2 * frame_limit:
            await self.end(TOO_CHATTY, f"more than {2 * frame_limit} frames within {STRETCH_S} s")

    async def serve(self) -> None:
        self.tasks += [
            asyncio.create_task(self.guard(work))
            for work in (self._reset_frame_count, self._announce_end)
        ]
        await self.send_json({"type": "episode", **await _episode_document(self.episode)})
        while True:
            await self.frame_arrived.wait()
            self.frame_arrived.clear()
            while self.frames:
                await self._do(self.frames.popleft())

    async def _reset_frame_count(self) -> None:
        while True:
            await asyncio.sleep(STRETCH_S)
            self.in_stretch = 0

    async def _announce_end(self) -> None:
        """Send the end of the episode, whoever ended it, so that the environment need not ask."""
        turn_state = await wait_until_settled(self.episode.pk, NO_TURN)
        self.has_ended = True
        await self.send_json(
            {"type": "ended", "state": turn_state.state, "reason": turn_state.reason}
        )

    def leave(self) -> None:
        for answer in self.answers.values():
            answer.cancel()

    # -- actions

    async def _do(self, text: str) -> None:
        kind = ""
        try:
            kind, data = read_frame(text)
            await getattr(self, f"_{kind}")(**data)
        except NotStrictJson as error:
            await self._refuse(kind, ParseError(f"The frame is not acceptable JSON: {error}."))
        except CannotPlay as why:
            await self._refuse(kind, convert_refusal(why))
        except (Refused, TooSlow, OSError):
            raise
        except Exception as error:
            await self._refuse(kind, error)

    async def _refuse(self, kind: str, error: Exception) -> None:
        await self.send_json(
            {
                "type": "error",
                "of": kind,
                "problem": answer_exception(error, self.scope["path"]).data,
            }
        )

    async def _turn(self, stream: bool, **fields: Any) -> None:
        since = time.monotonic()
        number, past = await _record_observation(self.episode, stream, **fields)
        if earlier := self.answers.pop(number, None):
            earlier.cancel()  # a repeated request is answered once
        self.answers[number] = asyncio.create_task(
            self.guard(partial(self._answer, number, past, since))
        )

    async def _answer(self, number: int, past: int | None, since: float) -> None:
        answer = asyncio.ensure_future(wait_until_settled(self.episode.pk, number, since))
        try:
            if past is not None:
                await self._stream(number, stream_turn_text(self.episode.rollout_id, past, answer))
            turn_state = await answer
        finally:
            answer.cancel()
        del self.answers[number]
        await self.send_json({"type": "turn", **turn_document(turn_state)})

    async def _stream(self, number: int, pieces: AsyncIterator[str]) -> None:
        async for piece in pieces:
            if piece:
                await self.send_json({"type": "text", "number": number, "text": piece})

    async def _result(self, outcome: str, reward: float | None, reason: str, final: bool) -> None:
        await _finish(self.episode.pk, outcome, reward, reason, final)
        await self.send_json({"type": "episode", **await _episode_document(self.episode)})

    async def _reward(self, turn: int | None, reward: float, final: bool) -> None:
        [outcome] = await database_sync_to_async(reward_many)(
            [TurnReward(self.episode.pk, turn, reward, final)]
        )
        if not isinstance(outcome, AcceptedReward):
            raise outcome
        await self.send_json({"type": "reward", "turn": outcome.turn, "is_late": outcome.is_late})

    async def _ping(self) -> None:
        await database_sync_to_async(record_sign_of_life)(self.episode.pk)
        await self.send_json({"type": "pong"})


@database_sync_to_async
def _asker(header: bytes) -> Asker:
    """Return the user and token of the header. Raises Refused."""
    with suppress(AuthenticationFailed):
        if token := token_in(header):
            return Asker(token.user, token)
    raise Refused(NOT_SIGNED_IN, "the token is unknown, expired or revoked")


@database_sync_to_async
def _load_played_episode(asker: Asker, pk: int) -> Episode:
    """Return the episode that the user plays. Raises Refused."""
    try:
        return get_played_episode(asker, pk)
    except Http404:
        raise Refused(NOT_YOURS, "no such episode, or you cannot view it") from None
    except (PermissionDenied, APIException) as why:
        raise Refused(NOT_YOURS, str(why)[:100]) from None


@database_sync_to_async
def _episode_document(episode: Episode) -> dict:
    episode.refresh_from_db(
        fields=["state", "reason", "turns", "begun_at", "closed_at", "reward_until"]
    )
    return EpisodeDocument(episode).data


@database_sync_to_async
def _record_observation(
    episode: Episode, is_streamed: bool, **fields: Any
) -> tuple[int, int | None]:
    """Record an observation.

    Returns (its number, tokens of the rollout before its action where that is streamed). Raises
    CannotPlay.
    """
    with transaction.atomic():
        turn_state = record_observation(locked(episode.pk), **fields)
        number = turn_state.number
        if not turn_state.is_settled:
            commit_without_waiting()  # it is answered after the action's COMMIT, which waits
    return number, count_tokens_before(episode.pk, number) if is_streamed else None


@database_sync_to_async
@transaction.atomic
def _finish(pk: int, *arguments: Any) -> None:
    """End the episode. Raises CannotPlay."""
    finish_episode(locked(pk), *arguments)
