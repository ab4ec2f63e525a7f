"""Calls of functions in a guest: results come back as JSON, and the caller compares them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from json import dumps, loads
from pathlib import Path
from typing import Any

from apps.accounts import strict_json
from apps.rewards.sandbox.bubblewrap import TOO_SLOW, GuestResult, Streams, run_guest
from apps.rewards.sandbox.languages import LANGUAGES, require_tool
from apps.rewards.sandbox.limits import Limits
from apps.rewards.sandbox.programs import node
from apps.rewards.sandbox.python import PythonGuest
from apps.rewards.sandbox.values import decode

LIMITS = Limits()
JAVASCRIPT = Path(__file__).with_name("guest.js")
CALLABLE_LANGUAGES = ("python", "javascript")
UNREADABLE = "the result cannot be read"


@dataclass(frozen=True)
class Call:
    """A call of a function of the code's; `keywords`: arguments by name, in Python alone."""

    function: str
    arguments: tuple
    keywords: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """Result of a call: its value, or the `error` that it ended with.

    `stopped`: the limit that stopped it; `seconds`: of all calls, by the clock.
    """

    value: object = None
    error: str = ""
    stopped: str = ""
    seconds: float = 0.0


def run_calls(code: str, calls: Sequence[Call], limits: Limits = LIMITS) -> list[Outcome]:
    """Return what each of these calls gave, after this code in Python was run. Raises NoSandbox.

    Code that takes too long, or down its interpreter, gave nothing in any call. The calls share
    a guest: an earlier one can see, and spoil, a later one's arguments. Use `run_call` where that
    matters.
    """
    outcomes = _python(code, calls, limits, has_prelude=False)
    return [replace(as_json(outcome), stopped="", seconds=0.0) for outcome in outcomes]


def run_call(
    code: str, language: str, call: Call, limits: Limits = LIMITS, has_prelude: bool = False
) -> Outcome:
    """Run this call in its own guest, where it sees no other call, and return the result.

    Raises NoSandbox, NoTool and LookupError.
    """
    if language not in CALLABLE_LANGUAGES:
        raise LookupError(
            f"functions can be called in {' and '.join(CALLABLE_LANGUAGES)}, not in {language}"
        )
    if language == "python":
        return _python(code, [call], limits, has_prelude)[0]
    return _javascript(code, [call], limits)[0]


def as_json(outcome: Outcome) -> Outcome:
    """Return the same with its value as JSON has it, a tuple as a list.

    An error where it has no such form.
    """
    try:
        return replace(outcome, value=loads(dumps(outcome.value)))
    except (TypeError, ValueError):
        kind = type(outcome.value).__name__
        return replace(
            outcome, value=None, error=f"a value of type {kind} cannot be converted to JSON"
        )


def _python(code: str, calls: Sequence[Call], limits: Limits, has_prelude: bool) -> list[Outcome]:
    guest = PythonGuest("calls", has_prelude=has_prelude)
    return _outcomes(guest.run(limits, Streams(_encode_request(code, calls))), len(calls), limits)


def _javascript(code: str, calls: Sequence[Call], limits: Limits) -> list[Outcome]:
    kind = LANGUAGES["javascript"]
    tool = require_tool("javascript")
    tool_limits = replace(
        limits, reserved_mb=kind.reserved_mb, threads=max(limits.threads, kind.threads)
    )
    command = (*node(tool, limits.memory_mb), "-e", JAVASCRIPT.read_text())
    guest_result = run_guest(
        command, tool_limits, Streams(_encode_request(code, calls)), homes=tool.homes
    )
    return _outcomes(guest_result, len(calls), limits)


def _encode_request(code: str, calls: Sequence[Call]) -> bytes:
    calls_as_lists = [(call.function, call.arguments, dict(call.keywords)) for call in calls]
    return dumps({"code": code, "calls": calls_as_lists}).encode()


def _outcomes(guest_result: GuestResult, count: int, limits: Limits) -> list[Outcome]:
    return _parse_outcomes(guest_result, count) or [_failed_outcome(guest_result, limits)] * count


def read_outcome(guest_result: GuestResult, limits: Limits) -> Outcome:
    """Return what a guest that made one call left."""
    return _outcomes(guest_result, 1, limits)[0]


def _failed_outcome(guest_result: GuestResult, limits: Limits) -> Outcome:
    return Outcome(
        error=_describe_end(guest_result, limits),
        stopped=guest_result.stopped,
        seconds=guest_result.seconds,
    )


def _describe_end(guest_result: GuestResult, limits: Limits) -> str:
    if guest_result.stopped == TOO_SLOW:
        return f"it took longer than {limits.cpu_s:g} s"
    if guest_result.stopped:
        return guest_result.stopped
    return (
        UNREADABLE
        if guest_result.status == 0
        else f"it ended its process with {guest_result.status}"
    )


def _parse_outcomes(guest_result: GuestResult, count: int) -> list[Outcome] | None:
    """Return the answers, as far as they can be believed to be some.

    The code could have written them itself.
    """
    if guest_result.stopped:
        return None
    try:
        last = guest_result.stdout.rstrip(b"\n").rpartition(b"\n")[2]
        results = strict_json.decode_json(last, any_text=True)
        if isinstance(results, list) and len(results) == count:
            return [_outcome(result, guest_result) for result in results]
    except (strict_json.NotStrictJson, ValueError, TypeError, AttributeError):
        return None
    return None


def _outcome(result: dict, guest_result: GuestResult) -> Outcome:
    """Return the outcome of a call from a guest's answer.

    Raises what `decode` raises, and AttributeError if the answer is no object.
    """
    error = str(result.get("error", ""))[:200]
    return Outcome(decode(result.get("value")), error, "", guest_result.seconds)
