"""`/ws/episodes/7/`: an episode played over one socket, for environments that have much to say. Frames: docs/environments.md."""

import asyncio
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
from apps.accounts.problems import NotNow, answer_to
from apps.accounts.strict_json import NotStrictJson
from apps.environments.access import Asker, played_by
from apps.environments.errors import CannotPlay
from apps.environments.frames import read
from apps.environments.models import Episode
from apps.environments.playing import heard_of, locked
from apps.environments.refusing import refusal_of
from apps.environments.rewarding import Earned, Taken, reward_many
from apps.environments.schemas import LARGEST_NUMBER, EpisodeDocument
from apps.environments.telling import document, finish, say
from apps.environments.waiting import settled
from apps.environments.writing import past_of, pieces
from apps.streaming.handshake import authorization_of
from apps.streaming.sockets import NORMAL, NOT_SIGNED_IN, NOT_YOURS, TOO_BIG, TOO_CHATTY, UNSUPPORTED, Refused, Socket
from apps.streaming.watcher import TooSlow

SOCKETS_PER_USER = 256  # an environment plays many episodes at once, each over its own
LONGEST_FRAME = 64 * 1024  # bytes
STRETCH_S = 5  # over which frames are counted
NO_TURN = LARGEST_NUMBER  # is acted on by nobody: who waits for it waits for the episode's end


class EpisodeSocket(Socket):
    """Of who plays the episode: a program with a token, or a person from our own origin. Frames are done in their order."""

    kind, most_sockets = "episode", SOCKETS_PER_USER

    def __init__(self) -> None:
        super().__init__()
        self.frames: deque[str] = deque()
        self.said = asyncio.Event()
        self.in_stretch, self.has_ended = 0, False
        self.answers: dict[int, asyncio.Task] = {}

    # -- who may ----------------------------------------------------------------------------------------------------

    async def permit(self) -> int:
        """Raises Refused: not signed in, not who plays the episode, or it is over and nothing has been said for a minute."""
        if self.has_ended and not self.frames_heard:
            raise Refused(NORMAL, "the episode has ended")
        header = authorization_of(self.scope)
        asker = Asker(await self.signed_in()) if header is None else await _asker(header)
        self.episode = await _played(asker, self.scope["url_route"]["kwargs"]["pk"])
        return asker.user.pk

    # -- what is heard ----------------------------------------------------------------------------------------------

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        self.frames_heard += 1
        if text_data is None:
            await self.end(UNSUPPORTED, "frames are JSON texts")
        elif len(text_data.encode()) > LONGEST_FRAME:
            await self.end(TOO_BIG, f"a frame has at most {LONGEST_FRAME} bytes; longer observations go over REST")
        else:
            await self._take(text_data)

    async def _take(self, text: str) -> None:
        """What is beyond the rate is warned of and not done; who goes on like that is closed."""
        self.in_stretch += 1
        most = settings.REQUESTS_PER_SECOND * STRETCH_S
        if self.in_stretch <= most:
            self.frames.append(text)
            self.said.set()
        elif self.in_stretch == most + 1:
            words = f"More than {most} frames within {STRETCH_S} s: this one and what follows in them is not done."
            await self._refuse("", NotNow(words, STRETCH_S))
        elif self.in_stretch > 2 * most:
            await self.end(TOO_CHATTY, f"more than {2 * most} frames within {STRETCH_S} s")

    async def serve(self) -> None:
        self.tasks += [asyncio.create_task(self.guard(work)) for work in (self._forget_the_stretch, self._tell_the_end)]
        await self.send_json({"type": "episode", **await _shown(self.episode)})
        while True:
            await self.said.wait()
            self.said.clear()
            while self.frames:
                await self._do(self.frames.popleft())

    async def _forget_the_stretch(self) -> None:
        while True:
            await asyncio.sleep(STRETCH_S)
            self.in_stretch = 0

    async def _tell_the_end(self) -> None:
        """Whoever ended it: the environment need not ask in order to know."""
        standing = await settled(self.episode.pk, NO_TURN)
        self.has_ended = True
        await self.send_json({"type": "ended", "state": standing.state, "reason": standing.reason})

    def leave(self) -> None:
        for answer in self.answers.values():
            answer.cancel()

    # -- what is done -----------------------------------------------------------------------------------------------

    async def _do(self, text: str) -> None:
        kind = ""
        try:
            kind, said = read(text)
            await getattr(self, f"_{kind}")(**said)
        except NotStrictJson as error:
            await self._refuse(kind, ParseError(f"The frame is not acceptable JSON: {error}."))
        except CannotPlay as why:
            await self._refuse(kind, refusal_of(why))
        except (Refused, TooSlow, OSError):
            raise
        except Exception as error:
            await self._refuse(kind, error)

    async def _refuse(self, kind: str, error: Exception) -> None:
        await self.send_json({"type": "error", "of": kind, "problem": answer_to(error, self.scope["path"]).data})

    async def _turn(self, stream: bool, **said: Any) -> None:
        number, past = await _say(self.episode, stream, **said)
        if earlier := self.answers.pop(number, None):
            earlier.cancel()  # said again, it is answered once
        self.answers[number] = asyncio.create_task(self.guard(partial(self._answer, number, past)))

    async def _answer(self, number: int, past: int | None) -> None:
        answer = asyncio.ensure_future(settled(self.episode.pk, number))
        try:
            if past is not None:
                await self._stream(number, pieces(self.episode.rollout_id, past, answer))
            standing = await answer
        finally:
            answer.cancel()
        del self.answers[number]
        await self.send_json({"type": "turn", **document(standing)})

    async def _stream(self, number: int, written: AsyncIterator[str]) -> None:
        async for piece in written:
            if piece:
                await self.send_json({"type": "text", "number": number, "text": piece})

    async def _result(self, outcome: str, reward: float | None, reason: str, final: bool) -> None:
        await _finish(self.episode.pk, outcome, reward, reason, final)
        await self.send_json({"type": "episode", **await _shown(self.episode)})

    async def _reward(self, turn: int | None, reward: float, final: bool) -> None:
        [taken] = await database_sync_to_async(reward_many)([Earned(self.episode.pk, turn, reward, final)])
        if not isinstance(taken, Taken):
            raise taken
        await self.send_json({"type": "reward", "turn": taken.turn, "is_late": taken.is_late})

    async def _ping(self) -> None:
        await database_sync_to_async(heard_of)(self.episode.pk)
        await self.send_json({"type": "pong"})


@database_sync_to_async
def _asker(header: bytes) -> Asker:
    """Raises Refused."""
    with suppress(AuthenticationFailed):
        if token := token_in(header):
            return Asker(token.user, token)
    raise Refused(NOT_SIGNED_IN, "the token is unknown, expired or revoked")


@database_sync_to_async
def _played(asker: Asker, pk: int) -> Episode:
    """Raises Refused."""
    try:
        return played_by(asker, pk)
    except Http404:
        raise Refused(NOT_YOURS, "no such episode that you may see") from None
    except (PermissionDenied, APIException) as why:
        raise Refused(NOT_YOURS, str(why)[:100]) from None


@database_sync_to_async
def _shown(episode: Episode) -> dict:
    episode.refresh_from_db(fields=["state", "reason", "turns", "begun_at", "closed_at", "reward_until"])
    return EpisodeDocument(episode).data


@database_sync_to_async
def _say(episode: Episode, is_streamed: bool, **said: Any) -> tuple[int, int | None]:
    """(the observation's number, tokens of the rollout before its action where that is streamed). Raises CannotPlay."""
    with transaction.atomic():
        number = say(locked(episode.pk), **said).number
    return number, past_of(episode.pk, number) if is_streamed else None


@database_sync_to_async
@transaction.atomic
def _finish(pk: int, *said: Any) -> None:
    """Raises CannotPlay."""
    finish(locked(pk), *said)
