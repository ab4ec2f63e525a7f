"""Run tests written in Python in one guest, and the answer that they call in another.

The two exchange only requests and values, as JSON through two pipes. So the answer never sees the
expected values, and cannot change what the tests do with its values.
"""

import contextlib
import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from json import dumps, loads

from apps.rewards.sandbox.bubblewrap import GuestResult, Streams
from apps.rewards.sandbox.limits import Limits
from apps.rewards.sandbox.python import PythonGuest
from apps.rewards.sandbox.watching import CANCELED

MAX_VERDICT_BYTES = 1 << 20
OF_TESTS = Limits(cpu_s=60, memory_mb=512, threads=4)  # whoever made the task wrote them
VERDICTS = ("passed", "wrong", "error", "broken", "unusable")


@dataclass(frozen=True)
class Checks:
    """Tests: `setup` runs before each, `function` is the tested one, "" for any."""

    setup: str
    function: str
    checks: Sequence[str]


@dataclass(frozen=True)
class CheckResult:
    """Result of one test.

    verdict  "passed", "wrong", "error" (the answer raised one), "broken" (the answer does not load,
             or its guest ended: `stopped` says by which limit), or "unusable" (the
             test itself fails)
    """

    verdict: str
    seconds: float
    why: str = ""
    stopped: str = ""


def run_checks(
    code: str,
    checks: Checks,
    limits: Limits,
    silence_s: float,
    *,
    all_of_them: bool,
    has_prelude: bool,
) -> list[CheckResult]:
    """Run the tests one after the other, to the first that fails unless all are asked for.

    limits     of the answer in all tests together
    silence_s  that one test may take by the clock

    The list ends with a test that broke the answer's guest, or took too long. Raises NoSandbox.
    """
    task = {
        "setup": checks.setup,
        "function": checks.function,
        "checks": list(checks.checks),
        "all": all_of_them,
    }
    tests = PythonGuest("tests", {"request": dumps(task).encode()}, has_prelude)
    answer = PythonGuest("answer", {"request": code.encode(errors="replace")}, has_prelude)
    of_tests = replace(OF_TESTS, wall_s=limits.wall_s)
    requests = os.pipe()
    answers = os.pipe()
    over = threading.Event()
    to_answer = Streams(requests[0], answers[1], until=over)
    to_tests = Streams(answers[0], requests[1], MAX_VERDICT_BYTES, silence_s)
    with ThreadPoolExecutor(1) as executor:
        running = executor.submit(_run, answer, limits, to_answer)
        try:
            tests_result = _run(tests, of_tests, to_tests)
        finally:
            over.set()
        answer_result = running.result()
    return _build_results(tests_result, answer_result)


def _run(guest: PythonGuest, limits: Limits, streams: Streams) -> GuestResult:
    """Run a guest and close its ends of the pipes, so that the other one sees its end."""
    try:
        return guest.run(limits, streams)
    finally:
        for end in (streams.stdin, streams.stdout):
            if isinstance(end, int):
                os.close(end)


def _build_results(tests: GuestResult, answer: GuestResult) -> list[CheckResult]:
    results = []
    for line in tests.stderr.splitlines():
        with contextlib.suppress(ValueError):  # the last line may be cut off
            verdict, seconds, why = loads(line)
            results.append(CheckResult(verdict, seconds, why))
    stopped_by = "" if answer.stopped == CANCELED else answer.stopped
    is_broken = bool(results) and results[-1].verdict == "broken"
    if is_broken and stopped_by:
        results[-1] = replace(results[-1], stopped=stopped_by)
    elif tests.stopped and not is_broken:
        results.append(
            CheckResult(
                "broken", tests.seconds, "the test did not end", stopped_by or tests.stopped
            )
        )
    elif tests.status != 0 and not tests.stopped:
        results.append(CheckResult("unusable", tests.seconds, "the process of the tests exited"))
    return results
