"""The session class of each kind of environment behind an address."""

from collections.abc import Callable
from typing import Protocol

from apps.environments.library.protocol import Step
from apps.environments.models import Environment
from apps.environments.pull.http import HttpSession
from apps.environments.pull.openenv import OpenEnvSession


class Session(Protocol):
    """The protocol of a session, which plays one episode.

    Methods raise CallFailed or BadAddress, and have no time limit of their own.
    """

    async def begin(self, episode: int, seed: int, options: dict) -> Step: ...

    async def step(self, text: str) -> Step: ...

    async def close(self) -> None: ...


SESSIONS: dict[str, Callable[[Environment], Session]] = {
    Environment.Kind.HTTP: HttpSession,
    Environment.Kind.OPENENV: OpenEnvSession,
}
