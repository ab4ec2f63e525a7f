"""A session of an OpenEnv server: one WebSocket to `/ws`, one message under way at a time, as OpenEnv 0.10 speaks it.

`{"type": "reset", "data": {"seed", "episode_id", …options}}` and `{"type": "step", "data": the action}` are answered with
`{"type": "observation", "data": {observation, reward, done, metadata}}` or `{"type": "error", "data": {message, code}}`.
A server without room accepts the socket, says CAPACITY_REACHED unasked, and closes it.
"""

import asyncio
import ipaddress
import json
import socket
from contextlib import suppress

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, WebSocketException

from apps.accounts import strict_json
from apps.environments.library.protocol import Step
from apps.environments.models import Environment
from apps.environments.pull.addresses import TLS, parsed, resolved, unreachable
from apps.environments.pull.errors import CallFailed, Full, NoAction
from apps.environments.pull.exchanges import LONGEST, asked
from apps.environments.pull.http import info_of, require_fields
from apps.environments.pull.secrets import secret_of
from apps.environments.pull.wording import action_of, no_action, observation_of, only_text

FULL, REFUSED = "CAPACITY_REACHED", "VALIDATION_ERROR"


class OpenEnvSession:
    """One episode on such a server. Its user sets the time limits: a person may be the one who answers."""

    def __init__(self, environment: Environment) -> None:
        self.environment, self.address = environment, parsed(environment.address)
        self.action_schema = environment.action_schema
        self.machine = self.secret = ""
        self.socket: ClientConnection | None = None

    async def begin(self, episode: int, seed: int, options: dict) -> Step:
        """Raises Full when the server has no room for one more."""
        await self._found()
        if self.action_schema.get("type") != "object":
            self.action_schema = (await self.schema())["action"]
        self.socket = await self._connected()
        first = await self._observed({"type": "reset", "data": {**options, "seed": seed, "episode_id": str(episode)}})
        return Step(first.observation, None, first.done, first.info)  # nothing was done yet that could earn something

    async def step(self, text: str) -> Step:
        try:
            action = action_of(self.action_schema, text)
            return await self._observed({"type": "step", "data": action})
        except NoAction as why:
            return Step(no_action(why), self.environment.reward_low, False)
        except _Refused as why:
            if only_text(self.action_schema):  # any text was said to be one
                raise
            # The policy's mistake or the server's, nobody can tell: the policy hears of it, and it earns no number.
            return Step(no_action(why), None, False)

    async def state(self) -> dict:
        """What the server tells of the episode under way."""
        return await self._ask({"type": "state"}, "state")

    async def schema(self) -> dict:
        """The JSON Schemas of `action` and `observation`."""
        if not self.machine:
            await self._found()
        said = await asked(self.address, self.machine, "GET", "/schema", bearer=self.secret)
        for part in ("action", "observation"):
            if not isinstance(said.get(part), dict):
                raise CallFailed(f"/schema: {part}: must be an object")
        return said

    async def close(self) -> None:
        if self.socket is not None:
            with suppress(ConnectionClosed):
                await self.socket.send(json.dumps({"type": "close"}))
            await self.socket.close()

    async def _found(self) -> None:
        self.machine = await resolved(self.address)
        self.secret = secret_of("ENVIRONMENT_KEYS", self.address, self.machine)

    async def _connected(self) -> ClientConnection:
        """A socket to the machine that was judged; with a socket of ours, websockets follows no redirect."""
        family = socket.AF_INET6 if ipaddress.ip_address(self.machine.partition("%")[0]).version == 6 else socket.AF_INET
        plain = socket.socket(family, socket.SOCK_STREAM)
        plain.setblocking(False)
        where = f"{'wss' if self.address.scheme in TLS else 'ws'}://{self.address.authority}{self.address.path}/ws"
        more = {"ssl": self.address.tls, "server_hostname": self.address.tls_name} if self.address.tls_name else {}
        if self.secret:
            more["additional_headers"] = {"Authorization": f"Bearer {self.secret}"}
        try:
            await asyncio.get_running_loop().sock_connect(plain, (self.machine, self.address.port))
            return await connect(
                where, sock=plain, max_size=LONGEST, open_timeout=None, close_timeout=2, compression=None, proxy=None, **more
            )
        except (OSError, WebSocketException, ValueError) as error:
            plain.close()
            raise unreachable(error) from None

    async def _observed(self, message: dict) -> Step:
        said = await self._ask(message, "observation")
        require_fields(message["type"], said, {"observation", "reward", "done"}, {"metadata"})
        if not isinstance(said["observation"], dict) or not isinstance(said["done"], bool):
            raise CallFailed(f"{message['type']}: observation must be an object, and done true or false")
        reward = said["reward"]
        # OpenEnv's rewards may be true and false.
        reward = float(reward) if isinstance(reward, bool) else reward
        return Step(observation_of(said["observation"]), reward, said["done"], info_of(message["type"], said, "metadata"))

    async def _ask(self, message: dict, kind: str) -> dict:
        try:
            with suppress(ConnectionClosed):  # what it said before it closed is read below
                await self.socket.send(json.dumps(message))
            reply = strict_json.decode(await self.socket.recv())
        except ConnectionClosed as closed:
            raise CallFailed(f"{message['type']}: the connection was closed: {closed}") from None
        except strict_json.NotStrictJson as why:
            raise CallFailed(f"{message['type']}: its reply is no strict JSON: {why}") from None
        said = reply.get("data") if isinstance(reply, dict) else None
        if not isinstance(said, dict):
            raise CallFailed(f"{message['type']}: its reply must be an object with type and data")
        if reply.get("type") == "error":
            raise _error(message["type"], said)
        if reply.get("type") != kind:
            raise CallFailed(f"{message['type']}: its reply must be of type {kind}, not {str(reply.get('type'))[:60]!r}")
        return said


class _Refused(CallFailed):
    """The server took the message for a bad one."""


def _error(asked_for: str, said: dict) -> CallFailed:
    code, message = str(said.get("code", "")), str(said.get("message", ""))[:200]
    kind = Full if code == FULL else _Refused if code == REFUSED else CallFailed
    return kind(f"{asked_for}: {code}: {message}")
