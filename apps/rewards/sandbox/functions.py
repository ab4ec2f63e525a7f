"""Calls of functions in a guest: what each gave comes back as JSON, and whoever asked compares."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from json import dumps
from pathlib import Path

from apps.accounts import strict_json
from apps.rewards.sandbox.bubblewrap import TOO_SLOW, Ended, start
from apps.rewards.sandbox.languages import LANGUAGES, require
from apps.rewards.sandbox.limits import Limits
from apps.rewards.sandbox.programs import node

LIMITS = Limits()
GUESTS = {"python": Path(__file__).with_name("guest.py"), "javascript": Path(__file__).with_name("guest.js")}
UNREADABLE = "what it gave cannot be read"


@dataclass(frozen=True)
class Call:
    function: str
    arguments: tuple


@dataclass(frozen=True)
class Outcome:
    """What a call gave; with `error`, why it gave nothing. `stopped`: by which limit; `seconds`: of all calls, by the clock."""

    value: object = None
    error: str = ""
    stopped: str = ""
    seconds: float = 0.0


def run(code: str, calls: Sequence[Call], limits: Limits = LIMITS) -> list[Outcome]:
    """What each of these calls gave, after this code in Python was run. Raises NoSandbox.

    Code that takes too long, or down its interpreter, gave nothing in any call. The calls share a guest: an earlier one can
    see, and spoil, a later one's arguments. Use `call` where that matters.
    """
    return [replace(outcome, stopped="", seconds=0.0) for outcome in _run(code, "python", calls, limits)]


def call(code: str, language: str, asked: Call, limits: Limits = LIMITS) -> Outcome:
    """What this call gave, in a guest of its own: it sees no other call. Raises NoSandbox, NoTool, LookupError."""
    if language not in GUESTS:
        raise LookupError(f"functions are called in {' and '.join(GUESTS)}, not in {language}")
    return _run(code, language, [asked], limits)[0]


def _run(code: str, language: str, calls: Sequence[Call], limits: Limits) -> list[Outcome]:
    kind, tool = LANGUAGES[language], require(language)
    asked = dumps({"code": code, "calls": [(one.function, one.arguments) for one in calls]}).encode()
    text = GUESTS[language].read_text()
    command = (tool.path, "-S", "-s", "-B", "-c", text) if language == "python" else (*node(tool, limits.memory_mb), "-e", text)
    own = replace(limits, reserved_mb=kind.reserved_mb, threads=max(limits.threads, kind.threads))
    ended = start(command, own, asked, homes=tool.homes)
    return _read(ended, len(calls)) or [_nothing(ended, limits)] * len(calls)


def outcome_of(ended: Ended, limits: Limits) -> Outcome:
    """What a guest that made one call left."""
    return (_read(ended, 1) or [_nothing(ended, limits)])[0]


def _nothing(ended: Ended, limits: Limits) -> Outcome:
    return Outcome(error=_why(ended, limits), stopped=ended.stopped, seconds=ended.seconds)


def _why(ended: Ended, limits: Limits) -> str:
    if ended.stopped == TOO_SLOW:
        return f"it took longer than {limits.cpu_s:g} s"
    return UNREADABLE if ended.stopped or ended.status == 0 else "it ended its process"


def _read(ended: Ended, several: int) -> list[Outcome] | None:
    """The answers, as far as they can be believed to be some: the code could have written them itself."""
    try:
        said = strict_json.decode(ended.stdout.rstrip(b"\n").rpartition(b"\n")[2])
    except strict_json.NotStrictJson:
        return None
    if ended.stopped or not isinstance(said, list) or len(said) != several or not all(isinstance(one, dict) for one in said):
        return None
    return [Outcome(one.get("value"), str(one.get("error", ""))[:200], "", ended.seconds) for one in said]
