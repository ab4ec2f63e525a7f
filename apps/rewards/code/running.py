"""Run an answer's code against its task's tests, in the sandbox, and compare what it gives."""

import json
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from apps.rewards import sandbox
from apps.rewards.code.cases import Case, Cases
from apps.rewards.code.comparing import Rule, is_same_json, same_text
from apps.rewards.sandbox import Call, CheckResult, Checks, GuestResult, Limits, Outcome

PASSED = "passed"
WRONG = "wrong"
ERROR = "error"
NOT_RUN = "not run"
TOO_SLOW = "too slow"
TOO_MUCH_MEMORY = "too much memory"
TOO_MUCH_OUTPUT = "too much output"
DOES_NOT_COMPILE = "does not compile"
UNUSABLE = "unusable"  # the test itself fails: that is no answer's fault
STOPPED = {
    sandbox.TOO_SLOW: TOO_SLOW,
    sandbox.TOO_MUCH: TOO_MUCH_OUTPUT,
    sandbox.TOO_MUCH_MEMORY: TOO_MUCH_MEMORY,
}
PATIENCE = 3  # wall clock to processor time, so that a busy machine is not the program's fault
SHOWN = 200  # characters of what it was given and gave, kept for the page
OUT_OF_MEMORY = re.compile(r"MemoryError|std::bad_alloc|heap out of memory|Cannot allocate memory")
NOT_PYTHON = re.compile(r"(?:SyntaxError|IndentationError|TabError)\b")
IN_PROGRAM = re.compile(r'^  File "program\.py", line \d+$', re.MULTILINE)  # it was not yet running
SIGNALS = {
    137: "it was killed",
    139: "segmentation fault",
    136: "arithmetic fault",
    134: "it aborted",
}


@dataclass(frozen=True)
class TestResult:
    """Result of one test; `output` and `error` are excerpts of its output and its errors."""

    verdict: str
    seconds: float = 0.0
    output: str = ""
    error: str = ""


@dataclass(frozen=True)
class RunSettings:
    """Settings by which an answer's code is run and judged: `limits` apply to each test."""

    language: str
    rule: Rule
    limits: Limits
    has_prelude: bool = False
    is_partial: bool = False


Run = Callable[[Case, Limits], TestResult]


def run_tests(source: str, cases: Cases, how: RunSettings, within_s: float) -> Iterator[TestResult]:
    """Yield what became of each test, to the first that fails unless all count.

    Those that `within_s` leaves no time for are not run. Raises sandbox.DoesNotCompile, NoTool,
    NoSandbox.
    """
    if cases.are_checks:
        yield from _run_checks(source, cases, how, within_s)
        return
    run = _runner(source, cases, how)
    ends = time.monotonic() + within_s
    for case in cases.cases:
        remaining = ends - time.monotonic()
        limits = replace(how.limits, wall_s=min(how.limits.wall_s, remaining))
        test_result = run(case, limits) if remaining > 0 else TestResult(NOT_RUN)
        yield test_result
        if test_result.verdict == DOES_NOT_COMPILE or (
            test_result.verdict != PASSED and not how.is_partial
        ):
            return


def _runner(source: str, cases: Cases, how: RunSettings) -> Run:
    if cases.function and sandbox.LANGUAGES[how.language].is_compiled:
        compiled = sandbox.prepare_call(source, how.language, cases.function)
        return lambda case, limits: _judge_outcome(
            compiled.run(case.arguments, limits), case, how.rule
        )
    if cases.function:
        sandbox.require_tool(how.language)
        return lambda case, limits: _run_call(source, cases.function, case, how, limits)
    program = sandbox.prepare_program(source, how.language, how.limits.memory_mb, how.has_prelude)
    return lambda case, limits: _judge_output(
        program.run(case.stdin.encode(errors="replace"), limits), case, how.rule
    )


def _run_call(
    source: str, function: str, case: Case, how: RunSettings, limits: Limits
) -> TestResult:
    call = Call(function, case.arguments, case.keywords)
    outcome = sandbox.run_call(source, how.language, call, limits, how.has_prelude)
    return _judge_outcome(outcome, case, how.rule)


def _judge_output(guest_result: GuestResult, case: Case, rule: Rule) -> TestResult:
    output = guest_result.stdout.decode(errors="replace")
    seconds = round(guest_result.seconds, 3)
    if guest_result.stopped or guest_result.status != 0:
        verdict, error = _failure(guest_result)
        return TestResult(verdict, seconds, excerpt(output), excerpt(error))
    is_right = any(same_text(output, expected, rule) for expected in case.expected)
    return TestResult(PASSED if is_right else WRONG, seconds, excerpt(output))


def _failure(guest_result: GuestResult) -> tuple[str, str]:
    """Return why a program did not come to its end, as a verdict and in words."""
    if guest_result.stopped:
        return STOPPED.get(guest_result.stopped, ERROR), guest_result.stopped
    errors = guest_result.stderr.decode(errors="replace").rstrip()
    last = errors.rpartition("\n")[2]
    ending = SIGNALS.get(guest_result.status or 0, f"it ended with {guest_result.status}")
    description = f"{ending}: {last}" if last else ending
    if OUT_OF_MEMORY.search(errors) or guest_result.status == 137:
        return TOO_MUCH_MEMORY, description
    if NOT_PYTHON.match(last) and IN_PROGRAM.search(errors):
        return DOES_NOT_COMPILE, last
    return ERROR, description


def _judge_outcome(outcome: Outcome, case: Case, rule: Rule) -> TestResult:
    seconds = round(outcome.seconds, 3)
    error = excerpt(outcome.error)
    if outcome.error:
        return TestResult(
            STOPPED.get(outcome.stopped) or _kind_of(outcome.error), seconds, error=error
        )
    is_right = any(is_same_json(outcome.value, expected, rule) for expected in case.expected)
    return TestResult(PASSED if is_right else WRONG, seconds, _excerpt_value(outcome.value))


def _kind_of(error: str) -> str:
    if NOT_PYTHON.match(error):
        return DOES_NOT_COMPILE
    return TOO_MUCH_MEMORY if OUT_OF_MEMORY.match(error) else ERROR


def _run_checks(
    source: str, cases: Cases, how: RunSettings, within_s: float
) -> Iterator[TestResult]:
    """Run the checks in one pair of guests.

    If a check ends its guest, a new pair runs the checks after it.
    """
    ends = time.monotonic() + within_s
    remaining = [case.check for case in cases.cases]
    while remaining:
        seconds = ends - time.monotonic()
        if seconds <= 0:
            yield from [TestResult(NOT_RUN)] * len(remaining)
            return
        limits = replace(
            how.limits,
            cpu_s=how.limits.cpu_s * len(remaining),
            wall_s=min(how.limits.wall_s * len(remaining), seconds),
        )
        checks = Checks(cases.preamble + cases.setup, cases.function, remaining)
        results = sandbox.run_checks(
            cases.preamble + source,
            checks,
            limits,
            how.limits.wall_s,
            all_of_them=how.is_partial,
            has_prelude=how.has_prelude,
        )
        test_results = [_judge_check(result) for result in results] or [
            TestResult(ERROR, error="the tests gave nothing")
        ]
        yield from test_results
        if test_results[-1].verdict != PASSED and not how.is_partial:
            return
        if test_results[-1].verdict == DOES_NOT_COMPILE:
            return
        remaining = remaining[len(test_results) :]


def _judge_check(result: CheckResult) -> TestResult:
    error = excerpt(result.why)
    if result.stopped:
        return TestResult(STOPPED.get(result.stopped, ERROR), result.seconds, error=result.stopped)
    if result.verdict == "broken":
        return TestResult(_kind_of(result.why), result.seconds, error=error)
    verdict = _kind_of(result.why) if result.verdict == ERROR else result.verdict
    return TestResult(verdict, result.seconds, error=error)


def _excerpt_value(value: object) -> str:
    """Return the beginning of a value, as JSON where it has that form."""
    try:
        return excerpt(json.dumps(value))
    except (TypeError, ValueError):
        return excerpt(_plain(value))


def _plain(value: object) -> str:
    try:
        return repr(value)
    except ValueError:  # a whole number of more digits than are written
        return "a large number"


def excerpt(text: str) -> str:
    """Return the beginning, in characters that can be stored."""
    return text[:SHOWN].replace("\0", "\ufffd").encode(errors="replace").decode()
