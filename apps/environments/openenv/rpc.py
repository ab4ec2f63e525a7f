"""OpenEnv's JSON-RPC: the tools `begin` and `act`, and the session's own methods.

As in OpenEnv, there is no `initialize`.
"""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from apps.accounts import strict_json
from apps.environments.openenv import wire
from apps.environments.openenv.plays import Play, Unplayable

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
SERVER_ERROR = -32000
BEGINS = {
    "type": "object",
    "properties": {
        "seed": {"type": "integer", "minimum": 0},
        "episode_id": {"type": "string", "maxLength": 255},
    },
    "description": "All other fields are options of the environment.",
}


class RpcError(Exception):
    """Raised for a request that is answered with a JSON-RPC error of this code."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        self.code = code
        self.data = data
        super().__init__(message)


@dataclass(frozen=True)
class Request:
    method: str
    params: dict
    id: str | int | None


Do = Callable[[Request], Awaitable[dict]]


class Rpc:
    """The JSON-RPC handler of one session, which its connection holds."""

    def __init__(self, play: Play, session_id: str) -> None:
        self.play = play
        self.session_id = session_id

    async def answer(self, text: str) -> str:
        """Answer a message of the socket `/mcp`."""
        return json.dumps(
            await answer_rpc_text(text, self._answer_request), ensure_ascii=False, allow_nan=False
        )

    async def answer_to(self, request: dict) -> dict:
        """Answer a JSON-RPC message inside a message of `/ws`."""
        return await answer_rpc_request(request, self._answer_request)

    @staticmethod
    def refusal(code: str, message: str, **more: object) -> str:
        return json.dumps(failed(None, RpcError(SERVER_ERROR, message, {"code": code, **more})))

    async def _answer_request(self, request: Request) -> dict:
        match request.method:
            case "tools/list":
                return {"tools": list_tools(self.play.environment.action_schema)}
            case "tools/call":
                return await call_tool(self.play, request.params)
            case "openenv/session/create":
                return {"session_id": self.session_id}
            case "openenv/session/close":
                raise RpcError(
                    INVALID_REQUEST, "A session ends with its connection: close the WebSocket."
                )
        raise RpcError(METHOD_NOT_FOUND, f"Method not found: {request.method[:100]}")


async def answer_rpc_text(text: str | bytes, do: Do) -> dict:
    """Return the response to this text; `do` answers a Request, or raises RpcError."""
    try:
        message = strict_json.decode_json(text)
    except strict_json.NotStrictJson as why:
        return failed(None, RpcError(PARSE_ERROR, f"Parse error: {why}"))
    return await answer_rpc_request(message, do)


async def answer_rpc_request(value: object, do: Do) -> dict:
    """Return the response to a decoded message; errors are responses too."""
    number = None
    try:
        request = read_rpc_request(value)
        number = request.id
        return {"jsonrpc": "2.0", "id": number, "result": await do(request)}
    except RpcError as why:
        return failed(number, why)
    except Unplayable as why:
        return failed(number, RpcError(INTERNAL_ERROR, str(why), why.errors))


def failed(number: str | int | None, why: RpcError) -> dict:
    return {
        "jsonrpc": "2.0",
        "id": number,
        "error": {"code": why.code, "message": str(why), "data": why.data},
    }


def read_rpc_request(value: object) -> Request:
    """Parse a request. Raises RpcError naming the field."""
    if not isinstance(value, dict):
        raise RpcError(INVALID_REQUEST, "Invalid request: it must be an object")
    if unknown := set(value) - {"jsonrpc", "method", "params", "id"}:
        raise RpcError(
            INVALID_REQUEST, f"Invalid request: {sorted(unknown)[0][:100]} is not a known field"
        )
    number = value.get("id")
    if value.get("jsonrpc") != "2.0":
        raise RpcError(INVALID_REQUEST, "Invalid request: jsonrpc must be '2.0'")
    if not isinstance(value.get("method"), str):
        raise RpcError(INVALID_REQUEST, "Invalid request: method must be a text")
    if isinstance(number, bool) or not isinstance(number, str | int | None):
        raise RpcError(INVALID_REQUEST, "Invalid request: id must be a text or a whole number")
    if not isinstance(value.get("params", {}), dict):
        raise RpcError(INVALID_REQUEST, "Invalid request: params must be an object")
    return Request(value["method"], value.get("params", {}), number)


def list_tools(schema: dict) -> list[dict]:
    return [
        {
            "name": "begin",
            "description": "Start an episode; the result is its first observation.",
            "inputSchema": BEGINS,
        },
        {
            "name": "act",
            "description": (
                "Act; the result is the next observation. Without an episode, this starts one."
            ),
            "inputSchema": wire.action_schema(schema),
        },
    ]


async def call_tool(play: Play, params: dict) -> dict:
    """Return the result of a tool. Raises RpcError, Unplayable."""
    name = params.get("name")
    arguments = params.get("arguments", {})
    if not isinstance(name, str) or not isinstance(arguments, dict):
        raise RpcError(INVALID_PARAMS, "Invalid params: name must be a text, arguments an object")
    match name:
        case "begin":
            return _result(await play.reset(arguments))
        case "act":
            if play.episode is None:
                await play.reset({})
            return _result(await play.step(arguments))
    raise RpcError(INVALID_PARAMS, f"Tool not found: {name[:100]}; there are begin and act")


def _result(step: dict) -> dict:
    observation = step["observation"]
    text = observation.get(
        "text", "\n\n".join(message["content"] for message in observation.get("messages", []))
    )
    content = [{"type": "text", "text": text, "annotations": None, "meta": None}]
    return {
        "content": content,
        "structured_content": step,
        "meta": None,
        "data": step,
        "is_error": False,
    }
