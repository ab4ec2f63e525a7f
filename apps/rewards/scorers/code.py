"""Rewards code that passes hidden tests: programs, functions or Python test code.

The code is the answer's last complete program of the right language (apps.rewards.code.solution);
the tests are the task's (apps.tasksets.code_tests). Without a sandbox, or the language's tool,
there is no value.
"""

import json
from dataclasses import replace
from typing import Any, Literal

from pydantic import Field

from apps.rewards.code.comparing import Rule, Whitespace
from apps.rewards.scorers.contract import RolloutView, ScorerOptions, TaskView
from apps.rewards.scorers.verdict import Verdict

VERSION = 6
TESTS_S = 75.0  # for all tests of an answer
SECONDS = 150.0  # the compiler has 60 of them
MAX_CODE_LENGTH = 100_000  # characters of code
SHOWN = 300  # characters of the code kept in the details


class Options(ScorerOptions):
    language: Literal["", "python", "javascript", "c", "c++"] = Field(
        "",
        description=(
            "The only language accepted. If empty: the language of the task, of the code "
            "block, or Python."
        ),
    )
    partial: bool = Field(
        False, description="Reward the share of tests that pass. If off, all tests must pass."
    )
    float_tolerance: float | None = Field(
        None,
        ge=0,
        le=1,
        description=(
            "Relative tolerance for floats; integers must be equal. If empty, only rounding "
            "differences are accepted; 0 requires exact equality."
        ),
    )
    unordered: bool = Field(
        False,
        description=(
            "Ignore the order of output lines and list items. Sets are compared as lists."
        ),
    )
    whitespace: Whitespace = Field(
        "lines",
        description=(
            "lines: ignore trailing whitespace; tokens: treat any whitespace as one space; exact."
        ),
    )
    prelude: bool = Field(
        True,
        description=(
            "Import the names that programming contests provide in Python: math, "
            "defaultdict, List …"
        ),
    )
    time_limit_s: float = Field(
        2.0,
        gt=0,
        le=20,
        description=(
            "CPU time limit per test in seconds, rounded up. The wall time limit is three "
            "times this value."
        ),
    )
    memory_mb: int = Field(256, ge=64, le=2048, description="Memory limit per test in MiB.")
    max_tests: int = Field(
        50,
        ge=1,
        le=500,
        description="Maximum number of tests; only the first ones of the task are run.",
    )
    bare_code: bool = Field(
        False, description="Treat an answer without a fenced code block as code."
    )


def score(rollout: RolloutView, task: TaskView, options: Options) -> Verdict:
    """Return 1 when all tests pass, or their share; 0 for what does not compile or is no code.

    `answer`.

    The tests.
    """
    from apps.rewards import sandbox
    from apps.rewards.code import cases

    try:
        tests = cases.read_cases(task.answer)
        return _judge_code(rollout.text, tests, task, options)
    except cases.BadTests as bad:
        return Verdict(None, str(bad))
    except sandbox.NoSandbox as missing:
        return Verdict(None, str(missing))


def _judge_code(text: str, tests: Any, task: TaskView, options: Options) -> Verdict:
    from apps.rewards.code.blocks import Block, answered_part
    from apps.rewards.code.solution import SolutionRequirements, solution
    from apps.rewards.sandbox.languages import LANGUAGES, by_fence

    language_name = (
        options.language or task.answer.get("language") or task.meta.get("language") or ""
    )
    required = "python" if tests.are_for_python else str(language_name)
    language = by_fence(required) if required else None
    if required and language is None:
        return Verdict(None, _unsupported(required, LANGUAGES))
    functions = (tests.function,) if tests.function else tests.called
    requirements = SolutionRequirements(
        language.name if language else "", functions, tests.reads_input
    )
    block = solution(text, requirements)
    if block is None and options.bare_code:
        block = Block(answered_part(text), "")
    if block is None:
        return Verdict(0.0, _no_block(text, requirements.language))
    language = language or by_fence(block.fence or "python")
    if language is None:
        return Verdict(0.0, _unsupported(block.fence, LANGUAGES))
    if len(block.code) > MAX_CODE_LENGTH:
        return Verdict(0.0, f"the code is longer than {MAX_CODE_LENGTH} characters")
    verdict = _run_tests(block.code, language.name, tests, options)
    code = block.code.replace("\x00", "")[:SHOWN]
    return replace(verdict, details={"answer": code, **verdict.details})


def _unsupported(language: str, supported: Any) -> str:
    return f"language {language[:30]!r} is not supported; known: {', '.join(supported)}"


def _no_block(text: str, language: str) -> str:
    from apps.rewards.code.blocks import answered_part, blocks

    block = next(blocks(answered_part(text)), None)
    if block is None:
        return "no fenced code block"
    return f"no complete program in {language}" if language else "no complete program"


def _run_tests(code: str, language: str, tests: Any, options: Options) -> Verdict:
    from apps.rewards.code import running
    from apps.rewards.sandbox import DoesNotCompile, Limits

    tests = replace(tests, cases=tests.cases[: options.max_tests])
    limits = Limits(
        cpu_s=options.time_limit_s,
        wall_s=options.time_limit_s * running.PATIENCE,
        memory_mb=options.memory_mb,
        threads=4,
        output_bytes=4 << 20,
    )
    rule = Rule(options.float_tolerance, options.unordered, options.whitespace)
    how = running.RunSettings(language, rule, limits, options.prelude, options.partial)
    try:
        results = list(running.run_tests(code, tests, how, TESTS_S))
    except DoesNotCompile as error:
        return _compile_error(language, str(error))
    if results[0].verdict == running.DOES_NOT_COMPILE:
        return _compile_error(language, results[0].error)
    unusable = next(
        (place for place, result in enumerate(results) if result.verdict == running.UNUSABLE), None
    )
    if unusable is not None:
        return Verdict(None, f"tests.{unusable}.check: {results[unusable].error}")
    return _verdict(results, language, tests, options)


def _compile_error(language: str, message: str) -> Verdict:
    from apps.rewards.code.running import excerpt

    return Verdict(0.0, "it does not compile", {"language": language, "compiler": excerpt(message)})


def _verdict(results: list, language: str, tests: Any, options: Options) -> Verdict:
    passed = sum(result.verdict == "passed" for result in results)
    count = len(tests.cases)
    first_failed = next(
        (place for place, result in enumerate(results) if result.verdict != "passed"), None
    )
    details = {
        "language": language,
        "passed": passed,
        "of": count,
        "tests": [[result.verdict, result.seconds] for result in results],
    }
    if first_failed is None:
        return Verdict(1.0, f"all {count} tests passed", details)
    details["failed"] = _failed_test(first_failed, results[first_failed], tests)
    value = passed / count if options.partial else 0.0
    verdict = results[first_failed].verdict
    reason = f"{passed} of {count} tests passed; test {first_failed + 1}: {verdict}"
    return Verdict(value, reason, details)


def _failed_test(place: int, result: Any, tests: Any) -> dict[str, Any]:
    """Return the first test that failed, for the page.

    The expected output is shown there only, never to a policy.
    """
    from apps.rewards.code.running import excerpt

    case = tests.cases[place]
    if case.check:
        test_input = case.check
        expected = ""
    elif tests.function:
        keyword_arguments = [dict(case.keywords)] if case.keywords else []
        test_input = json.dumps([*case.arguments, *keyword_arguments])
        expected = json.dumps(case.expected[0])
    else:
        test_input = case.stdin
        expected = case.expected[0]
    return {
        "test": place + 1,
        "input": excerpt(test_input),
        "expected": excerpt(expected),
        "output": result.output,
        "error": result.error,
    }
