"""The calls, whoever carries them: what is sent, what is sent again, and what is read from the answer.

They are written once, as coroutines over a `Wire`; over one that never suspends they are plain functions (clients.py). Every
write is idempotent, by a number or key of its own or an Idempotency-Key, so whatever broke on its way is sent again.
"""

import random
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol, Unpack
from urllib.parse import quote, urlsplit

import httpx

from rftweb_client.documents import Environment, Episode, Observation, Reward, RewardResult, Settings, Turn, read, read_episode
from rftweb_client.problems import NotNow, Problem, Unreachable, problem_of, retry_after_s

ROOT = "/api/v1/"
ANSWER_S = 30.0  # how long an answer may take, besides what it was asked to wait
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 10.0  # where nobody says when to ask again
POLL_S = 1.0
MOST_REWARDS = 1_000  # in one request
LOST = (httpx.TimeoutException, httpx.NetworkError, httpx.RemoteProtocolError)


class Wire(Protocol):
    """What needs the world: sockets, the clock, the caller's code."""

    async def send(self, request: httpx.Request) -> httpx.Response:
        """Raises httpx.TransportError."""

    async def pause(self, seconds: float) -> None: ...

    async def call(self, function: Callable[[], Any | Awaitable[Any]]) -> Any:
        """What it returns, awaited where the wire can wait."""


@dataclass(frozen=True)
class Api:
    """An installation as one token sees it. `patience_s`: how long a call is sent again before its error is raised."""

    wire: Wire = field(repr=False)
    address: str
    token: str = field(repr=False)
    patience_s: float = 60.0

    async def register(self, name: str, project: str | None = None, **settings: Unpack[Settings]) -> Environment:
        """Once for all; the same again is the same. Raises Conflict where it is registered otherwise: `change` it."""
        home = {} if project is None else {"project": project}
        answer = await self.ask("POST", "environments/", {"name": name, **home, **settings}, named=True)
        return read(Environment, answer)

    async def change(self, name: str, project: str | None = None, **settings: Unpack[Settings]) -> Environment:
        """Change what is named, and nothing else."""
        home = "" if project is None else f"?project={quote(project)}"
        answer = await self.ask("PATCH", f"environments/{quote(name)}/{home}", settings, named=True)
        return read(Environment, answer)

    async def take(
        self, name: str, *, key: str | None = None, run: int | None = None, project: str | None = None, at_once: bool = False
    ) -> Episode:
        """An episode to play. `key`: your own name for it, by which you get the same one again.

        Raises NotNow when none waits, after our patience or `at_once`.
        """
        home = {} if project is None else {"project": project}
        body = {"key": key or uuid.uuid4().hex, "run": run, **home}
        answer = await self.ask("POST", f"environments/{quote(name)}/episodes/", body, at_once=at_once)
        return read_episode(answer)

    async def turn(
        self, episode: int, number: int, observation: Observation, *, reward: float | None = None, done: bool = False,
        info: dict[str, Any] | None = None, timeout_s: float = 30.0,
    ) -> Turn:  # fmt: skip
        """Say what the policy sees and what its last action earned; returns when it has acted or the episode has ended.

        `timeout_s`: how long the installation may hold the request (at most 60); after that it is asked every second.
        Raises Gone when the episode has ended.
        """
        said = {"number": number, "observation": observation, "reward": reward, "done": done, "info": info or {}}
        path = f"episodes/{episode}/turns/"
        return read(Turn, await self.ask("POST", path, {**said, "timeout_s": timeout_s}, wait_s=timeout_s))

    async def result(
        self,
        episode: int,
        outcome: Literal["done", "failed", "abandoned"] = "done",
        *,
        reward: float | None = None,
        reason: str = "",
        final: bool = False,
    ) -> Episode:
        """End the episode. `failed`: the environment broke, which is never reward 0; `final`: no further reward comes.

        Raises Gone when it has ended otherwise.
        """
        said = {"outcome": outcome, "reward": reward, "reason": reason, "final": final}
        return read_episode(await self.ask("POST", f"episodes/{episode}/result/", said, named=True))

    async def reward(self, rewards: Iterable[Reward]) -> list[RewardResult]:
        """Rewards told by themselves, however many; result i is of reward i, and a refused one raises nothing."""
        told = [asdict(one) for one in rewards]
        results = []
        for first in range(0, len(told), MOST_REWARDS):
            answer = await self.ask("POST", "rewards/", {"rewards": told[first : first + MOST_REWARDS]}, named=True)
            results += [read(RewardResult, one) for one in answer["results"]]
        return results

    async def ask(
        self, method: str, path: str, body: object, *, named: bool = False, wait_s: float = 0.0, at_once: bool = False
    ) -> dict[str, Any]:
        """The answer's document, polled for where it comes later.

        `named`: with an Idempotency-Key; others have a number or key in the body. `at_once`: NotNow is not waited out.
        """
        name = {"Idempotency-Key": uuid.uuid4().hex} if named else {}
        request = self._request(method, ROOT + path, wait_s, name, body)
        answer = await self._sent(request, self.patience_s + wait_s, at_once)
        while answer.status_code == 202 and "Location" in answer.headers:
            await self.wire.pause(_or(retry_after_s(answer), POLL_S))
            there = urlsplit(answer.headers["Location"])  # only its path: the token goes to our address and nowhere else
            answer = await self._sent(self._request("GET", there.path, 0.0, {}), self.patience_s)
        try:
            return answer.json()
        except ValueError:
            raise problem_of(answer) from None

    def _request(self, method: str, path: str, wait_s: float, headers: dict[str, str], body: object = None) -> httpx.Request:
        said = {} if body is None else {"json": body}
        times = {"timeout": httpx.Timeout(ANSWER_S + wait_s, connect=10.0).as_dict()}
        headers = {"Authorization": f"Bearer {self.token}", "Accept": "application/json", **headers}
        return httpx.Request(method, self.address.rstrip("/") + path, headers=headers, extensions=times, **said)

    async def _sent(self, request: httpx.Request, patience_s: float, at_once: bool = False) -> httpx.Response:
        """Sent again while what refuses it may pass. Raises Problem, Unreachable."""
        ends, pause_s = time.monotonic() + patience_s, FIRST_PAUSE_S
        while True:
            try:
                answer = await self.wire.send(request)
            except LOST as lost:
                refusal: Problem | Unreachable = Unreachable(f"{request.method} {request.url}: {lost or type(lost).__name__}")
                refusal.__cause__ = lost
            else:
                if answer.is_success:
                    return answer
                refusal = problem_of(answer)
                if not refusal.is_passing or (at_once and isinstance(refusal, NotNow)):
                    raise refusal
            rest_s = _or(refusal.retry_after_s, pause_s * random.uniform(0.5, 1.0))  # never all callers at the same moment
            if time.monotonic() + rest_s > ends:
                raise refusal
            await self.wire.pause(rest_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


def _or(said_s: float | None, usual_s: float) -> float:
    return usual_s if said_s is None else said_s
