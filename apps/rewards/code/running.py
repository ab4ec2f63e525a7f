"""A program against its tests: each in a guest of its own, which is given one input and no output that is wanted."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from apps.rewards import sandbox
from apps.rewards.code.cases import Case, Cases
from apps.rewards.code.comparing import Rule, same_text, same_value
from apps.rewards.sandbox import Call, Limits, Outcome

PASSED, WRONG, ERROR, TOO_SLOW, NOT_RUN = "passed", "wrong", "error", "too slow", "not run"
PATIENCE = 3  # wall clock to processor time, so that a busy machine is not the program's fault
SHOWN = 200  # characters of what it was given and gave, kept for the page


@dataclass(frozen=True)
class Ran:
    """What became of one test; `said` and `error` are excerpts."""

    verdict: str
    seconds: float = 0.0
    said: str = ""
    error: str = ""


Run = Callable[[Case, Limits], Ran]


def runner(source: str, language: str, cases: Cases, rule: Rule, memory_mb: int) -> Run:
    """Compiles where it must. Raises sandbox.DoesNotCompile, NoTool, NoSandbox."""
    if cases.function and sandbox.LANGUAGES[language].is_compiled:
        compiled = sandbox.prepare_call(source, language, cases.function)
        return lambda case, limits: _told(compiled.run(case.arguments, limits), case, rule)
    if cases.function:
        sandbox.require(language)
        return lambda case, limits: _told(sandbox.call(source, language, Call(cases.function, case.arguments), limits), case, rule)
    program = sandbox.prepare(source, language, memory_mb)
    return lambda case, limits: _run(program, case, rule, limits)


def run_all(run: Run, cases: Cases, limits: Limits, within_s: float, *, is_partial: bool) -> Iterator[Ran]:
    """One after the other, to the first that fails unless all count. Those that `within_s` leaves no time for are not run."""
    ends = time.monotonic() + within_s
    for case in cases.cases:
        left = ends - time.monotonic()
        ran = run(case, replace(limits, wall_s=min(limits.wall_s, left))) if left > 0 else Ran(NOT_RUN)
        yield ran
        if ran.verdict != PASSED and not is_partial:
            return


def _run(program: sandbox.Program, case: Case, rule: Rule, limits: Limits) -> Ran:
    ended = program.run(case.stdin.encode(errors="replace"), limits)
    said = ended.stdout.decode(errors="replace")
    told = {"seconds": round(ended.seconds, 3), "said": excerpt(said)}
    if ended.stopped:
        return Ran(TOO_SLOW if ended.stopped == sandbox.TOO_SLOW else ERROR, error=ended.stopped, **told)
    if ended.status != 0:
        last = ended.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        return Ran(
            ERROR, error=excerpt(f"it ended with {ended.status}: {last}" if last else f"it ended with {ended.status}"), **told
        )
    return Ran(PASSED if any(same_text(said, wanted, rule) for wanted in case.wanted) else WRONG, **told)


def _told(outcome: Outcome, case: Case, rule: Rule) -> Ran:
    told = {"seconds": round(outcome.seconds, 3), "error": excerpt(outcome.error)}
    if outcome.error:
        return Ran(TOO_SLOW if outcome.stopped == sandbox.TOO_SLOW else ERROR, **told)
    is_right = any(same_value(outcome.value, wanted, rule) for wanted in case.wanted)
    return Ran(PASSED if is_right else WRONG, said=excerpt(json.dumps(outcome.value)), **told)


def excerpt(text: str) -> str:
    """The beginning, in characters that can be stored."""
    return text[:SHOWN].replace("\0", "\ufffd").encode(errors="replace").decode()
