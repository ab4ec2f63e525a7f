"""Messages of `/ws`: one object each, {type, data}, answered in order.

An error is a message, and the socket stays open.
"""

import json

from apps.accounts import strict_json
from apps.environments.openenv.plays import Play, Unplayable
from apps.environments.openenv.rpc import Rpc

INVALID_JSON = "INVALID_JSON"
UNKNOWN_TYPE = "UNKNOWN_TYPE"
VALIDATION_ERROR = "VALIDATION_ERROR"
EXECUTION_ERROR = "EXECUTION_ERROR"
CAPACITY_REACHED = "CAPACITY_REACHED"
SESSION_ERROR = "SESSION_ERROR"
FIELDS = {
    "reset": ({"type", "data"}, set()),
    "step": ({"type", "data"}, {"data"}),
    "state": ({"type"}, set()),
    "close": ({"type"}, set()),
    "mcp": ({"type", "data"}, {"data"}),
}


class Frames:
    """The message handler of one session."""

    def __init__(self, play: Play, session_id: str) -> None:
        self.play, self.rpc = play, Rpc(play, session_id)

    async def answer(self, text: str) -> str | None:
        """Return the answer to a message, or None if the message closes the session."""
        try:
            message = strict_json.decode_json(text)
        except strict_json.NotStrictJson as why:
            return error(INVALID_JSON, f"Invalid JSON: {why}")
        kind = message.get("type") if isinstance(message, dict) else None
        if not isinstance(kind, str) or kind not in FIELDS:
            return error(UNKNOWN_TYPE, f"Unknown message type: {str(kind)[:60]}")
        if problems := _wrong_fields(kind, message):
            return error(VALIDATION_ERROR, "Invalid message", errors=problems)
        if kind == "close":
            return None
        try:
            return await self._answer(kind, message.get("data", {}))
        except Unplayable as why:
            return (
                error(EXECUTION_ERROR, str(why))
                if why.errors is None
                else error(VALIDATION_ERROR, str(why), errors=why.errors)
            )

    async def _answer(self, kind: str, data: dict) -> str:
        match kind:
            case "reset":
                return _frame("observation", await self.play.reset(data))
            case "step":
                return _frame("observation", await self.play.step(data))
            case "state":
                return _frame("state", self.play.state())
        return _frame("mcp", await self.rpc.answer_to(data))

    @staticmethod
    def refusal(code: str, message: str, **more: object) -> str:
        return error(code, message, **more)


def error(code: str, message: str, **more: object) -> str:
    return _frame("error", {"message": message, "code": code, **more})


def _frame(kind: str, data: dict) -> str:
    return json.dumps({"type": kind, "data": data}, ensure_ascii=False, allow_nan=False)


def _wrong_fields(kind: str, data: dict) -> list[dict]:
    allowed, required = FIELDS[kind]
    problems = [
        {"type": "extra_forbidden", "loc": [name[:100]], "msg": "is not a known field"}
        for name in sorted(set(data) - allowed)
    ]
    problems += [
        {"type": "missing", "loc": [name], "msg": "is required"}
        for name in sorted(required - set(data))
    ]
    if "data" in data and not isinstance(data["data"], dict):
        problems.append({"type": "dict_type", "loc": ["data"], "msg": "must be an object"})
    return problems
