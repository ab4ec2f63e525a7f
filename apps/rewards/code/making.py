"""Creation of tests by agreement of right submissions (Kimi k1.5, section 2.3.5).

See arXiv 2501.12599.

Generator programs draw inputs; a case is kept where enough submissions give the same output; the
task is admitted when enough of them pass every kept case. All of it runs in the sandbox: generators
and submissions are written by models.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from apps.accounts import strict_json
from apps.rewards import sandbox
from apps.rewards.code.cases import Case, Cases
from apps.rewards.code.running import excerpt
from apps.rewards.sandbox import Call, DoesNotCompile, Limits, Program

LIMITS = Limits(cpu_s=2, wall_s=6, threads=4, output_bytes=1 << 20)
MAX_INPUT_BYTES = 64 << 10  # bytes of an input


@dataclass(frozen=True)
class Submission:
    """Program, or file with the function, that is believed to be right."""

    code: str
    language: str = "python"


@dataclass(frozen=True)
class Thresholds:
    """Numbers of submissions that must agree on a case, and that must pass all kept cases.

    `agree`: for a case to be kept; `admit`: for the task to be taken.

    `max_inputs`: drawn in all, by the generators in turn; `min_cases`: cases that a task needs.
    """

    agree: int = 7
    admit: int = 9
    max_inputs: int = 20
    min_cases: int = 3

    def __post_init__(self) -> None:
        for name, number in vars(self).items():
            if number < 1:
                raise ValueError(f"{name}: {number} is less than 1")


@dataclass(frozen=True)
class MadeTests:
    """Result of making tests: `cases` cases, and those `dropped` with the reason.

    `passed`: how many submissions passed all kept ones; `refused`: why there is no task.
    """

    tests: Cases
    dropped: tuple[str, ...]
    passed: int
    refused: str = ""

    @property
    def answer(self) -> dict[str, Any]:
        """Return the tests as the scorer `code` reads them."""
        if self.tests.function:
            rows = [
                {"args": list(case.arguments), "value": case.expected[0]}
                for case in self.tests.cases
            ]
            return {"function": self.tests.function, "tests": rows}
        return {
            "tests": [
                {"stdin": case.stdin, "stdout": case.expected[0]} for case in self.tests.cases
            ]
        }


@dataclass
class _Progress:
    cases: list[Case] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    passing: set[int] = field(default_factory=set)


def make_tests(
    generators: Sequence[str],
    submissions: Sequence[Submission],
    function: str = "",
    thresholds: Thresholds = Thresholds(),
    progress: Callable[[int], None] = lambda inputs_tried: None,
) -> MadeTests:
    """Make tests from generators, Python programs that read a seed and write an input.

    The input is the program's, or a call's arguments as JSON. `function`: the one that is called,
    "" for whole programs; `progress(inputs tried)`. Raises ValueError when there are too few
    submissions or no generator, NoSandbox when nothing can be run.
    """
    if len(submissions) < max(thresholds.agree, thresholds.admit):
        raise ValueError(
            f"submissions: at least {max(thresholds.agree, thresholds.admit)} are required, "
            f"found {len(submissions)}"
        )
    if not generators:
        raise ValueError("generators: at least one is required")
    drawing = [sandbox.prepare_program(source, "python") for source in generators]
    running = [_runner(submission, function) for submission in submissions]
    results = _Progress(passing=set(range(len(submissions))))
    seen = set()
    for number in range(thresholds.max_inputs):
        draw = _draw_input(drawing[number % len(drawing)], number, function)
        if isinstance(draw, str):
            results.dropped.append(f"input {number + 1}: {draw}")
        elif draw not in seen:
            seen.add(draw)
            _judge_input(
                Case(draw[0], tuple(json.loads(draw[1]))),
                number,
                running,
                thresholds,
                results,
                is_json=bool(function),
            )
        progress(number + 1)
    return _made_tests(results, function, thresholds)


def _made_tests(results: _Progress, function: str, thresholds: Thresholds) -> MadeTests:
    refused = ""
    if len(results.cases) < thresholds.min_cases:
        refused = (
            f"{len(results.cases)} cases were kept, at least {thresholds.min_cases} are required"
        )
    elif len(results.passing) < thresholds.admit:
        refused = (
            f"{len(results.passing)} submissions pass all kept cases, at least "
            f"{thresholds.admit} are required"
        )
    return MadeTests(
        Cases(function, tuple(results.cases)), tuple(results.dropped), len(results.passing), refused
    )


Runner = Callable[[Case], str | None]


def _draw_input(generator: Program, seed: int, function: str) -> tuple[str, str] | str:
    """Return an input as (standard input, arguments as JSON), or why there is none."""
    guest_result = generator.run(f"{seed}\n".encode(), LIMITS)
    if guest_result.status != 0 or guest_result.stopped:
        errors = guest_result.stderr.decode(errors="replace").strip()
        return f"the generator failed: {guest_result.stopped or excerpt(errors[-100:])}"
    if len(guest_result.stdout) > MAX_INPUT_BYTES:
        return f"the generator wrote more than {MAX_INPUT_BYTES} bytes"
    try:
        text = guest_result.stdout.decode()
        arguments = strict_json.decode_json(text) if function else []
    except (UnicodeDecodeError, strict_json.NotStrictJson) as error:
        return f"the generator's output cannot be read: {error}"
    if not isinstance(arguments, list) or "\0" in text:
        return (
            "the generator's output is not a list of arguments"
            if function
            else "the generator's output contains a NUL character"
        )
    return ("" if function else text, json.dumps(arguments))


def _runner(submission: Submission, function: str) -> Runner:
    """Return a function that runs a case and gives its output as text; None if it failed.

    Equal outputs are equal texts.
    """
    if function:
        return lambda case: _call_output(submission, Call(function, case.arguments))
    try:
        program = sandbox.prepare_program(submission.code, submission.language)
    except DoesNotCompile:
        return lambda case: None
    return lambda case: _program_output(program, case)


def _call_output(submission: Submission, call: Call) -> str | None:
    outcome = sandbox.as_json(sandbox.run_call(submission.code, submission.language, call, LIMITS))
    return None if outcome.error else json.dumps(outcome.value, sort_keys=True)


def _program_output(program: Program, case: Case) -> str | None:
    guest_result = program.run(case.stdin.encode(), LIMITS)
    if guest_result.status != 0 or guest_result.stopped:
        return None
    text = guest_result.stdout.decode(errors="replace").replace("\0", "\ufffd")
    return "".join(f"{line.rstrip()}\n" for line in text.rstrip().split("\n"))


def _judge_input(
    case: Case,
    number: int,
    running: Sequence[Runner],
    thresholds: Thresholds,
    results: _Progress,
    *,
    is_json: bool,
) -> None:
    outputs = [run(case) for run in running]
    most_common = Counter(output for output in outputs if output is not None).most_common(1)
    expected, agreeing = most_common[0] if most_common else ("", 0)
    if agreeing < thresholds.agree:
        results.dropped.append(
            f"input {number + 1}: {agreeing} of {len(running)} submissions agree, at least "
            f"{thresholds.agree} are required"
        )
        return
    value = json.loads(expected) if is_json else expected
    results.cases.append(replace(case, expected=(value,)))
    results.passing &= {place for place, output in enumerate(outputs) if output == expected}


def read_submissions(meta: Mapping[str, Any]) -> tuple[list[str], list[Submission]]:
    """Return `generators` and `submissions` of a task's meta. Raises ValueError.

    A submission is {"code", "language"} or plain Python code.
    """
    generators = meta.get("generators")
    submissions = meta.get("submissions")
    if not isinstance(generators, list) or not all(
        isinstance(source, str) for source in generators
    ):
        raise ValueError("meta.generators: must be a list of programs")
    if not isinstance(submissions, list):
        raise ValueError("meta.submissions: must be a list")
    return generators, [
        _submission(submission, f"meta.submissions.{place}")
        for place, submission in enumerate(submissions)
    ]


def _submission(submission: Any, place: str) -> Submission:
    document = {"code": submission} if isinstance(submission, str) else submission
    if not isinstance(document, dict) or not isinstance(document.get("code"), str):
        raise ValueError(f"{place}: code is required")
    if document.get("language", "python") not in sandbox.LANGUAGES:
        raise ValueError(f"{place}.language: must be one of {', '.join(sandbox.LANGUAGES)}")
    return Submission(document["code"], document.get("language", "python"))
