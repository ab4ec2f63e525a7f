"""Tests for a task that has none, as Kimi k1.5 makes them (arXiv 2501.12599, section 2.3.5): by agreement of right submissions.

Generator programs draw inputs; a case is kept where enough submissions give the same output; the task is admitted when enough of
them pass every kept case. All of it runs in the sandbox: generators and submissions are written by models.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from apps.accounts import strict_json
from apps.rewards import sandbox
from apps.rewards.code.cases import Case, Cases
from apps.rewards.code.running import excerpt
from apps.rewards.sandbox import Call, DoesNotCompile, Limits, Program

LIMITS = Limits(cpu_s=2, wall_s=6, threads=4, output_bytes=1 << 20)
LONGEST = 64 << 10  # bytes of an input


@dataclass(frozen=True)
class Submission:
    """A program, or a file with the function, that somebody holds for right."""

    code: str
    language: str = "python"


@dataclass(frozen=True)
class Thresholds:
    """`agree`: submissions that must give a case the same output; `admit`: that must pass all kept cases, for the task to be taken.

    `inputs`: drawn in all, by the generators in turn; `least`: cases that a task needs.
    """

    agree: int = 7
    admit: int = 9
    inputs: int = 20
    least: int = 3

    def __post_init__(self) -> None:
        for name, number in vars(self).items():
            if number < 1:
                raise ValueError(f"{name}: {number} is less than 1")


@dataclass(frozen=True)
class Made:
    """`kept` cases, those `dropped` with the reason, and how many submissions `passed` all kept ones; `refused`: why no task."""

    kept: Cases
    dropped: tuple[str, ...]
    passed: int
    refused: str = ""

    @property
    def answer(self) -> dict[str, Any]:
        """The tests as the scorer `code` reads them."""
        if self.kept.function:
            rows = [{"args": list(case.arguments), "value": case.wanted[0]} for case in self.kept.cases]
            return {"function": self.kept.function, "tests": rows}
        return {"tests": [{"stdin": case.stdin, "stdout": case.wanted[0]} for case in self.kept.cases]}


@dataclass
class _Taken:
    kept: list[Case] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    passing: set[int] = field(default_factory=set)


def make(
    generators: Sequence[str],
    submissions: Sequence[Submission],
    function: str = "",
    thresholds: Thresholds = Thresholds(),
    progress: Callable[[int], None] = lambda done: None,
) -> Made:
    """Tests from these programs in Python, which read a seed and write an input: the program's, or a call's arguments as JSON.

    `function`: the one that is called, "" for whole programs; `progress(inputs tried)`. Raises ValueError when there are too few
    submissions or no generator, NoSandbox when nothing can be run.
    """  # fmt: skip
    if len(submissions) < max(thresholds.agree, thresholds.admit):
        raise ValueError(f"submissions: {max(thresholds.agree, thresholds.admit)} are needed, {len(submissions)} are there")
    if not generators:
        raise ValueError("generators: there is none")
    drawing = [sandbox.prepare(source, "python") for source in generators]
    running = [_runner(one, function) for one in submissions]
    taken, seen = _Taken(passing=set(range(len(submissions)))), set()
    for number in range(thresholds.inputs):
        drawn = _draw(drawing[number % len(drawing)], number, function)
        if isinstance(drawn, str):
            taken.dropped.append(f"input {number + 1}: {drawn}")
        elif drawn not in seen:
            seen.add(drawn)
            _judge(Case(drawn[0], tuple(json.loads(drawn[1]))), number, running, thresholds, taken, is_json=bool(function))
        progress(number + 1)
    return _made(taken, function, thresholds)


def _made(taken: _Taken, function: str, thresholds: Thresholds) -> Made:
    refused = ""
    if len(taken.kept) < thresholds.least:
        refused = f"{len(taken.kept)} cases were kept, {thresholds.least} are needed"
    elif len(taken.passing) < thresholds.admit:
        refused = f"{len(taken.passing)} submissions pass all kept cases, {thresholds.admit} are needed"
    return Made(Cases(function, tuple(taken.kept)), tuple(taken.dropped), len(taken.passing), refused)


Runner = Callable[[Case], str | None]


def _draw(generator: Program, seed: int, function: str) -> tuple[str, str] | str:
    """An input as (standard input, arguments as JSON), or why there is none."""
    ended = generator.run(f"{seed}\n".encode(), LIMITS)
    if ended.status != 0 or ended.stopped:
        return f"the generator failed: {ended.stopped or excerpt(ended.stderr.decode(errors='replace').strip()[-100:])}"
    if len(ended.stdout) > LONGEST:
        return f"the generator wrote more than {LONGEST} bytes"
    try:
        text = ended.stdout.decode()
        arguments = strict_json.decode(text) if function else []
    except (UnicodeDecodeError, strict_json.NotStrictJson) as error:
        return f"what the generator wrote cannot be read: {error}"
    if not isinstance(arguments, list) or "\0" in text:
        return "the generator wrote no list of arguments" if function else "the generator wrote the NUL character"
    return ("" if function else text, json.dumps(arguments))


def _runner(submission: Submission, function: str) -> Runner:
    """Gives a case's output, in a form in which equal ones are equal texts; None where it failed."""
    if function:
        return lambda case: _called(submission, Call(function, case.arguments))
    try:
        program = sandbox.prepare(submission.code, submission.language)
    except DoesNotCompile:
        return lambda case: None
    return lambda case: _printed(program, case)


def _called(submission: Submission, call: Call) -> str | None:
    outcome = sandbox.call(submission.code, submission.language, call, LIMITS)
    return None if outcome.error else json.dumps(outcome.value, sort_keys=True)


def _printed(program: Program, case: Case) -> str | None:
    ended = program.run(case.stdin.encode(), LIMITS)
    if ended.status != 0 or ended.stopped:
        return None
    text = ended.stdout.decode(errors="replace").replace("\0", "\ufffd")
    return "".join(f"{line.rstrip()}\n" for line in text.rstrip().split("\n"))


def _judge(case: Case, number: int, running: Sequence[Runner], thresholds: Thresholds, taken: _Taken, *, is_json: bool) -> None:
    outputs = [run(case) for run in running]
    counted = Counter(output for output in outputs if output is not None).most_common(1)
    wanted, agreed = counted[0] if counted else ("", 0)
    if agreed < thresholds.agree:
        taken.dropped.append(f"input {number + 1}: {agreed} of {len(running)} submissions agree, {thresholds.agree} are needed")
        return
    value = json.loads(wanted) if is_json else wanted
    taken.kept.append(Case(case.stdin, case.arguments, (value,)))
    taken.passing &= {place for place, output in enumerate(outputs) if output == wanted}


def read_submissions(meta: Mapping[str, Any]) -> tuple[list[str], list[Submission]]:
    """`generators` and `submissions` ({"code", "language"} or plain code in Python) of a task's meta. Raises ValueError."""
    generators, submissions = meta.get("generators"), meta.get("submissions")
    if not isinstance(generators, list) or not all(isinstance(one, str) for one in generators):
        raise ValueError("meta.generators: a list of programs is wanted")
    if not isinstance(submissions, list):
        raise ValueError("meta.submissions: a list is wanted")
    return generators, [_submission(one, f"meta.submissions.{place}") for place, one in enumerate(submissions)]


def _submission(one: Any, place: str) -> Submission:
    said = {"code": one} if isinstance(one, str) else one
    if not isinstance(said, dict) or not isinstance(said.get("code"), str):
        raise ValueError(f"{place}: code is wanted")
    if said.get("language", "python") not in sandbox.LANGUAGES:
        raise ValueError(f"{place}.language: known are {', '.join(sandbox.LANGUAGES)}")
    return Submission(said["code"], said.get("language", "python"))
