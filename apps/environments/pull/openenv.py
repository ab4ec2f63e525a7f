"""Session of an OpenEnv server: one WebSocket to `/ws`, one message at a time (OpenEnv 0.10).

`{"type": "reset", "data": {"seed", "episode_id", …options}}` and `{"type": "step", "data": the
action}` are answered with `{"type": "observation", "data": {observation, reward, done, metadata}}`
or `{"type": "error", "data": {message, code}}`. A server without room accepts the socket, sends
CAPACITY_REACHED without a request, and closes it.
"""

import asyncio
import ipaddress
import json
import socket
import ssl
from contextlib import suppress
from typing import TypedDict

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, WebSocketException

from apps.accounts import strict_json
from apps.environments.library.protocol import Step
from apps.environments.models import Environment
from apps.environments.pull.addresses import TLS, parse_address, resolved, unreachable
from apps.environments.pull.errors import CallFailed, Full, NoAction
from apps.environments.pull.exchanges import MAX_REPLY_BYTES, exchange_json
from apps.environments.pull.http import read_info, require_fields
from apps.environments.pull.secrets import find_secret
from apps.environments.pull.wording import no_action, only_text, read_action, read_observation

FULL = "CAPACITY_REACHED"
REFUSED = "VALIDATION_ERROR"


class _Tls(TypedDict, total=False):
    """Options of a connection that is encrypted."""

    ssl: ssl.SSLContext | None
    server_hostname: str


class OpenEnvSession:
    """Session for one episode on such a server.

    The caller sets the time limits, because a person may answer there.
    """

    def __init__(self, environment: Environment) -> None:
        self.environment, self.address = environment, parse_address(environment.address)
        self.action_schema = environment.action_schema
        self.machine = self.secret = ""
        self.socket: ClientConnection | None = None

    async def begin(self, episode: int, seed: int, options: dict) -> Step:
        """Begin the episode. Raises Full if the server has no room for one more."""
        await self._resolve()
        if self.action_schema.get("type") != "object":
            self.action_schema = (await self.schema())["action"]
        self.socket = await self._connected()
        first = await self._observed(
            {"type": "reset", "data": {**options, "seed": seed, "episode_id": str(episode)}}
        )
        # Before the first action there is nothing to reward.
        return Step(first.observation, None, first.done, first.info)

    async def step(self, text: str) -> Step:
        try:
            action = read_action(self.action_schema, text)
            return await self._observed({"type": "step", "data": action})
        except NoAction as why:
            return Step(no_action(why), self.environment.reward_low, False)
        except _Refused as why:
            if only_text(self.action_schema):  # the schema accepts any text
                raise
            # The policy or the server may be wrong: the policy gets the message, and no number as
            # reward.
            return Step(no_action(why), None, False)

    async def state(self) -> dict:
        """Return the server's state of the episode."""
        return await self._ask({"type": "state"}, "state")

    async def schema(self) -> dict:
        """Return the JSON Schemas of `action` and `observation`."""
        if not self.machine:
            await self._resolve()
        schemas = await exchange_json(
            self.address, self.machine, "GET", "/schema", bearer=self.secret
        )
        for part in ("action", "observation"):
            if not isinstance(schemas.get(part), dict):
                raise CallFailed(f"/schema: {part}: must be an object")
        return schemas

    async def close(self) -> None:
        if self.socket is not None:
            with suppress(ConnectionClosed):
                await self.socket.send(json.dumps({"type": "close"}))
            await self.socket.close()

    async def _resolve(self) -> None:
        self.machine = await resolved(self.address)
        self.secret = find_secret("ENVIRONMENT_KEYS", self.address, self.machine)

    async def _connected(self) -> ClientConnection:
        """Connect to the checked machine.

        With a socket of ours, the websockets library follows no redirect.
        """
        family = (
            socket.AF_INET6
            if ipaddress.ip_address(self.machine.partition("%")[0]).version == 6
            else socket.AF_INET
        )
        plain = socket.socket(family, socket.SOCK_STREAM)
        plain.setblocking(False)
        scheme = "wss" if self.address.scheme in TLS else "ws"
        where = f"{scheme}://{self.address.authority}{self.address.path}/ws"
        tls: _Tls = (
            {"ssl": self.address.tls, "server_hostname": self.address.tls_name}
            if self.address.tls_name
            else {}
        )
        headers = {"Authorization": f"Bearer {self.secret}"} if self.secret else None
        try:
            await asyncio.get_running_loop().sock_connect(plain, (self.machine, self.address.port))
            return await connect(
                where,
                sock=plain,
                max_size=MAX_REPLY_BYTES,
                open_timeout=None,
                close_timeout=2,
                compression=None,
                proxy=None,
                additional_headers=headers,
                **tls,
            )
        except (OSError, WebSocketException, ValueError) as error:
            plain.close()
            raise unreachable(error) from None

    async def _observed(self, message: dict) -> Step:
        step = await self._ask(message, "observation")
        require_fields(message["type"], step, {"observation", "reward", "done"}, {"metadata"})
        if not isinstance(step["observation"], dict) or not isinstance(step["done"], bool):
            raise CallFailed(
                f"{message['type']}: observation must be an object, and done true or false"
            )
        reward = step["reward"]
        # OpenEnv allows booleans as rewards.
        reward = float(reward) if isinstance(reward, bool) else reward
        return Step(
            read_observation(step["observation"]),
            reward,
            step["done"],
            read_info(message["type"], step, "metadata"),
        )

    async def _ask(self, message: dict, kind: str) -> dict:
        assert self.socket is not None  # `begin` connects
        try:
            with suppress(ConnectionClosed):  # messages sent before the close are read below
                await self.socket.send(json.dumps(message))
            reply = strict_json.decode_json(await self.socket.recv())
        except ConnectionClosed as closed:
            raise CallFailed(f"{message['type']}: the connection was closed: {closed}") from None
        except strict_json.NotStrictJson as why:
            raise CallFailed(f"{message['type']}: the response is not strict JSON: {why}") from None
        data = reply.get("data") if isinstance(reply, dict) else None
        if not isinstance(data, dict):
            raise CallFailed(
                f"{message['type']}: the response must be an object with type and data"
            )
        if reply.get("type") == "error":
            raise _error(message["type"], data)
        if reply.get("type") != kind:
            raise CallFailed(
                f"{message['type']}: the response must be of type {kind}, not "
                f"{str(reply.get('type'))[:60]!r}"
            )
        return data


class _Refused(CallFailed):
    """Raised for a message that the server rejected."""


def _error(asked_for: str, data: dict) -> CallFailed:
    code = str(data.get("code", ""))
    message = str(data.get("message", ""))[:200]
    kind = Full if code == FULL else _Refused if code == REFUSED else CallFailed
    return kind(f"{asked_for}: {code}: {message}")
