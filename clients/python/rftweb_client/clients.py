"""The blocking and the asynchronous client, with the same calls."""

import asyncio
import inspect
import time
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import httpx

from rftweb_client import playing
from rftweb_client.api import Api

P = ParamSpec("P")
T = TypeVar("T")
Written = Callable[Concatenate[Api, P], Coroutine[Any, Any, T]]


class Now:
    """A wire that never suspends: a coroutine over it runs to its end in one go."""

    def __init__(self) -> None:
        self.http = httpx.Client()

    async def send(self, request: httpx.Request) -> httpx.Response:
        return self.http.send(request)

    async def pause(self, seconds: float) -> None:
        time.sleep(seconds)

    async def call(self, function: Callable[[], Any]) -> Any:
        return function()


class Awaited:
    """A wire of the running event loop."""

    def __init__(self) -> None:
        self.http = httpx.AsyncClient()

    async def send(self, request: httpx.Request) -> httpx.Response:
        return await self.http.send(request)

    async def pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def call(self, function: Callable[[], Any]) -> Any:
        result = function()
        return await result if inspect.isawaitable(result) else result


def _now(written: Written[P, T]) -> Callable[Concatenate["Client", P], T]:
    @wraps(written)
    def call(client: "Client", *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            written(client.api, *args, **kwargs).send(None)
        except StopIteration as end:
            return end.value
        raise AssertionError("a wire that never suspends has suspended")

    return call


def _awaited(
    written: Written[P, T],
) -> Callable[Concatenate["AsyncClient", P], Coroutine[Any, Any, T]]:
    @wraps(written)
    async def call(client: "AsyncClient", *args: P.args, **kwargs: P.kwargs) -> T:
        return await written(client.api, *args, **kwargs)

    return call


class Client:
    """A blocking client of an installation at `address` (http://127.0.0.1:8000).

    The token needs the scope `env:write:<name>`. Threads may share the client.
    """

    def __init__(self, address: str, token: str, *, patience_s: float = 60.0) -> None:
        self.wire = Now()
        self.api = Api(self.wire, address, token, patience_s)

    register = _now(Api.register)
    change = _now(Api.change)
    take = _now(Api.take)
    turn = _now(Api.turn)
    result = _now(Api.result)
    reward = _now(Api.reward)
    play = _now(playing.play)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.wire.http.close()


class AsyncClient:
    """An asynchronous `Client`.

    A `step` that computes for long belongs in a thread (asyncio.to_thread).
    """

    def __init__(self, address: str, token: str, *, patience_s: float = 60.0) -> None:
        self.wire = Awaited()
        self.api = Api(self.wire, address, token, patience_s)

    register = _awaited(Api.register)
    change = _awaited(Api.change)
    take = _awaited(Api.take)
    turn = _awaited(Api.turn)
    result = _awaited(Api.result)
    reward = _awaited(Api.reward)
    play = _awaited(playing.play)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.wire.http.aclose()
