"""API calls independent of the transport: requests, retries, and parsing of responses.

They are written once, as coroutines over a `Wire`; over one that never suspends they are plain
functions (clients.py). Every write is idempotent, by a number or key of its own or an
Idempotency-Key, so a request that failed on its way is sent again.
"""

import random
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol, Unpack
from urllib.parse import quote, urlsplit

import httpx

from rftweb_client.documents import (
    Environment,
    Episode,
    Observation,
    Reward,
    RewardResult,
    Settings,
    Turn,
    read_document,
    read_episode,
)
from rftweb_client.problems import NotNow, Problem, Unreachable, read_problem, retry_after_s

ROOT = "/api/v1/"
ANSWER_S = 30.0  # seconds for a response, besides what it was asked to wait
FIRST_PAUSE_S = 0.2
MAX_PAUSE_S = 10.0  # if the response does not say when to retry
POLL_S = 1.0
MAX_REWARDS = 1_000  # per request
LOST = (httpx.TimeoutException, httpx.NetworkError, httpx.RemoteProtocolError)


class Wire(Protocol):
    """The transport: sockets, the clock, and calls of the user's code."""

    async def send(self, request: httpx.Request) -> httpx.Response:
        """Send a request. Raise httpx.TransportError."""

    async def pause(self, seconds: float) -> None: ...

    async def call(self, function: Callable[[], Any | Awaitable[Any]]) -> Any:
        """Call a function and return its result, awaited if the wire can wait."""


@dataclass(frozen=True)
class Api:
    """An installation as one token sees it.

    `patience_s`: how long a call is retried before its error is raised.
    """

    wire: Wire = field(repr=False)
    address: str
    token: str = field(repr=False)
    patience_s: float = 60.0

    async def register(
        self, name: str, project: str | None = None, **settings: Unpack[Settings]
    ) -> Environment:
        """Register an environment; repeating the same registration has no effect.

        Raises Conflict if it is registered with other settings: use `change`.
        """
        home = {} if project is None else {"project": project}
        answer = await self.ask(
            "POST", "environments/", {"name": name, **home, **settings}, has_key=True
        )
        return read_document(Environment, answer)

    async def change(
        self, name: str, project: str | None = None, **settings: Unpack[Settings]
    ) -> Environment:
        """Change the given settings, and nothing else."""
        home = "" if project is None else f"?project={quote(project)}"
        answer = await self.ask(
            "PATCH", f"environments/{quote(name)}/{home}", settings, has_key=True
        )
        return read_document(Environment, answer)

    async def take(
        self,
        name: str,
        *,
        key: str | None = None,
        run: int | None = None,
        project: str | None = None,
        at_once: bool = False,
    ) -> Episode:
        """Return an episode to play.

        `key` is your own name for it, by which you get the same one again. Raises NotNow if none is
        waiting, at once with `at_once`, else after the client's patience.
        """
        home = {} if project is None else {"project": project}
        body = {"key": key or uuid.uuid4().hex, "run": run, **home}
        answer = await self.ask(
            "POST", f"environments/{quote(name)}/episodes/", body, at_once=at_once
        )
        return read_episode(answer)

    async def turn(
        self,
        episode: int,
        number: int,
        observation: Observation,
        *,
        reward: float | None = None,
        done: bool = False,
        info: dict[str, Any] | None = None,
        timeout_s: float = 30.0,
    ) -> Turn:
        """Send an observation and the reward of the last action; return the policy's next turn.

        Returns when the policy has acted or the episode has ended. `timeout_s` is how long the
        installation may hold the request (at most 60); after that it is polled every second. Raises
        Gone if the episode has ended.
        """
        body = {
            "number": number,
            "observation": observation,
            "reward": reward,
            "done": done,
            "info": info or {},
        }
        path = f"episodes/{episode}/turns/"
        return read_document(
            Turn, await self.ask("POST", path, {**body, "timeout_s": timeout_s}, wait_s=timeout_s)
        )

    async def result(
        self,
        episode: int,
        outcome: Literal["done", "failed", "abandoned"] = "done",
        *,
        reward: float | None = None,
        reason: str = "",
        final: bool = False,
    ) -> Episode:
        """End the episode.

        `failed`: the environment broke, which is not the same as reward 0; `final`: no further
        reward comes. Raises Gone if it has ended with another result.
        """
        body = {"outcome": outcome, "reward": reward, "reason": reason, "final": final}
        return read_episode(
            await self.ask("POST", f"episodes/{episode}/result/", body, has_key=True)
        )

    async def reward(self, rewards: Iterable[Reward]) -> list[RewardResult]:
        """Send any number of rewards separately from turns; result i belongs to reward i.

        A refused reward raises nothing; its result says why.
        """
        body = [asdict(reward) for reward in rewards]
        results = []
        for first in range(0, len(body), MAX_REWARDS):
            answer = await self.ask(
                "POST", "rewards/", {"rewards": body[first : first + MAX_REWARDS]}, has_key=True
            )
            results += [read_document(RewardResult, result) for result in answer["results"]]
        return results

    async def ask(
        self,
        method: str,
        path: str,
        body: object,
        *,
        has_key: bool = False,
        wait_s: float = 0.0,
        at_once: bool = False,
    ) -> dict[str, Any]:
        """Send a request and return the response's document, polling if it comes later.

        `has_key` adds an Idempotency-Key; other requests have a number or key in the body.
        `at_once` raises NotNow without waiting.
        """
        headers = {"Idempotency-Key": uuid.uuid4().hex} if has_key else {}
        request = self._request(method, ROOT + path, wait_s, headers, body)
        answer = await self._send(request, self.patience_s + wait_s, at_once)
        while answer.status_code == 202 and "Location" in answer.headers:
            await self.wire.pause(_or(retry_after_s(answer), POLL_S))
            location = urlsplit(
                answer.headers["Location"]
            )  # only its path: the token is sent to our address and nowhere else
            answer = await self._send(self._request("GET", location.path, 0.0, {}), self.patience_s)
        try:
            return answer.json()
        except ValueError:
            raise read_problem(answer) from None

    def _request(
        self, method: str, path: str, wait_s: float, headers: dict[str, str], body: object = None
    ) -> httpx.Request:
        keywords = {} if body is None else {"json": body}
        times = {"timeout": httpx.Timeout(ANSWER_S + wait_s, connect=10.0).as_dict()}
        headers = {"Authorization": f"Bearer {self.token}", "Accept": "application/json", **headers}
        return httpx.Request(
            method, self.address.rstrip("/") + path, headers=headers, extensions=times, **keywords
        )

    async def _send(
        self, request: httpx.Request, patience_s: float, at_once: bool = False
    ) -> httpx.Response:
        """Send the request, with retries of temporary failures. Raise Problem, Unreachable."""
        ends = time.monotonic() + patience_s
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                answer = await self.wire.send(request)
            except LOST as lost:
                refusal: Problem | Unreachable = Unreachable(
                    f"{request.method} {request.url}: {lost or type(lost).__name__}"
                )
                refusal.__cause__ = lost
            else:
                if answer.is_success:
                    return answer
                refusal = read_problem(answer)
                if not refusal.is_passing or (at_once and isinstance(refusal, NotNow)):
                    raise refusal
            rest_s = _or(
                refusal.retry_after_s, pause_s * random.uniform(0.5, 1.0)
            )  # spread, so that callers do not retry at the same moment
            if time.monotonic() + rest_s > ends:
                raise refusal
            await self.wire.pause(rest_s)
            pause_s = min(2 * pause_s, MAX_PAUSE_S)


def _or(said_s: float | None, usual_s: float) -> float:
    return usual_s if said_s is None else said_s
