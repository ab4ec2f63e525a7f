"""Pays code that passes hidden tests: programs against their input, or functions by their calls, each run in the sandbox.

The code is the answer's last fenced block (apps.rewards.code.blocks); the tests are the task's (apps.rewards.code.cases). Without
a sandbox, or the language's tool, there is no value.
"""

import json
from typing import Any, Literal

from pydantic import Field

from apps.rewards.code.comparing import Rule, Whitespace
from apps.rewards.scorers.contract import RolloutView, ScorerOptions, TaskView
from apps.rewards.scorers.verdict import Verdict

TESTS_S = 75.0  # for all tests of an answer
SECONDS = 150.0  # the compiler has 60 of them
LONGEST = 100_000  # characters of code


class Options(ScorerOptions):
    language: Literal["", "python", "javascript", "c", "c++"] = Field(
        "", description="the only one that is judged; otherwise the task's, the code block's, or python"
    )
    partial: bool = Field(False, description="pay the share of the tests that pass; otherwise all must")
    float_tolerance: float = Field(0.0, ge=0, le=1, description="numbers may differ by this, relative to the wanted one")
    unordered: bool = Field(False, description="lines of an output, or parts of a list, may come in any order")
    whitespace: Whitespace = Field("lines", description="lines: none counts at their ends; tokens: any is one blank; exact")
    time_limit_s: float = Field(
        2.0, gt=0, le=20, description="of processor time for a test, rounded up to whole seconds; thrice by the clock"
    )
    memory_mb: int = Field(256, ge=64, le=2048, description="MiB for a test")
    most_tests: int = Field(50, ge=1, le=500, description="only the task's first ones are run")
    bare_code: bool = Field(False, description="an answer without a fenced block is code as a whole")


def score(rollout: RolloutView, task: TaskView, options: Options) -> Verdict:
    """1 when all tests pass, or their share; 0 for what does not compile or is no code. `answer`: the tests, maybe a language."""
    from apps.rewards import sandbox
    from apps.rewards.code import cases

    try:
        tests = cases.read(task.answer)
        return _judged(rollout.text, tests, task, options)
    except cases.BadTests as bad:
        return Verdict(None, str(bad))
    except sandbox.NoSandbox as missing:
        return Verdict(None, str(missing))


def _judged(text: str, tests: Any, task: TaskView, options: Options) -> Verdict:
    from apps.rewards.code.blocks import Block, last_block
    from apps.rewards.sandbox.languages import LANGUAGES, by_fence

    block = last_block(text) or (Block(text, "") if options.bare_code else None)
    if block is None:
        return Verdict(0.0, "there is no fenced code block")
    told = options.language or task.answer.get("language") or task.meta.get("language") or block.fence or "python"
    language = by_fence(str(told))
    if language is None:
        known = ", ".join(LANGUAGES)
        return Verdict(None if told != block.fence else 0.0, f"code in {str(told)[:30]!r} is not judged; known: {known}")
    if len(block.code) > LONGEST:
        return Verdict(0.0, f"the code is longer than {LONGEST} characters")
    return _tested(block.code, language.name, tests, options)


def _tested(code: str, language: str, tests: Any, options: Options) -> Verdict:
    from dataclasses import replace

    from apps.rewards.code import running
    from apps.rewards.sandbox import DoesNotCompile, Limits

    tests = replace(tests, cases=tests.cases[: options.most_tests])
    rule = Rule(options.float_tolerance, options.unordered, options.whitespace)
    limits = Limits(
        cpu_s=options.time_limit_s, wall_s=options.time_limit_s * running.PATIENCE, memory_mb=options.memory_mb, threads=4,
        output_bytes=4 << 20,
    )  # fmt: skip
    try:
        run = running.runner(code, language, tests, rule, options.memory_mb)
    except DoesNotCompile as said:
        return Verdict(0.0, "it does not compile", {"language": language, "compiler": running.excerpt(str(said))})
    ran = list(running.run_all(run, tests, limits, TESTS_S, is_partial=options.partial))
    return _verdict(ran, language, tests, options)


def _verdict(ran: list, language: str, tests: Any, options: Options) -> Verdict:
    passed = sum(one.verdict == "passed" for one in ran)
    several = len(tests.cases)
    failed = next((place for place, one in enumerate(ran) if one.verdict != "passed"), None)
    details = {
        "language": language, "passed": passed, "of": several, "tests": [[one.verdict, one.seconds] for one in ran],
    }  # fmt: skip
    if failed is None:
        return Verdict(1.0, f"all {several} tests passed", details)
    details["failed"] = _shown(failed, ran[failed], tests)
    value = passed / several if options.partial else 0.0
    return Verdict(value, f"{passed} of {several} tests passed; test {failed + 1}: {ran[failed].verdict}", details)


def _shown(place: int, ran: Any, tests: Any) -> dict[str, Any]:
    """The first test that failed, for the page: what was wanted is told there and nowhere that a policy reads."""
    from apps.rewards.code.running import excerpt

    case = tests.cases[place]
    given = json.dumps(case.arguments) if tests.function else case.stdin
    wanted = json.dumps(case.wanted[0]) if tests.function else case.wanted[0]
    return {
        "test": place + 1, "given": excerpt(given), "wanted": excerpt(wanted), "said": ran.said, "error": ran.error,
    }  # fmt: skip
