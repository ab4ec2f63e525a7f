"""Check of a scorer: as the workers run it, and against its contract."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from apps.rewards.scorers import RolloutView, Scorer, TaskView, Verdict, find_scorer
from apps.rewards.scorers.contract import require_verdict
from apps.rewards.scoring import Question
from apps.tasksets.rows import user_message
from rftweb.testing.failures import find_plugin, open_plugin, require_none
from workers.grading import Grader

ANY = object()
CLOSE = 1e-9
# Replies that a policy in training may write, and that break careless scorers.
HOSTILE = {
    "an empty reply": "",
    "white space": " \n\t ",
    "a NUL character": "\x00",
    "half a surrogate pair": "\ud800",
    "a huge power": "9**9**9**9",
    "100,000 brackets": "(" * 100_000,
    "a million letters": "a" * 1_000_000,
    "letters that are written to the left": "\u202eabc\u2066",
}


@dataclass(frozen=True)
class Example:
    """Reply with the value that it must get; None: it cannot be judged.

    For a scorer of groups, `reply` is the replies of a group, and `value` their values. Without a
    `value`, only the contract is checked.
    """

    reply: str | Sequence[str]
    value: Any = ANY
    answer: Mapping[str, Any] = field(default_factory=dict)
    prompt: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    domain: str = ""
    meta: Mapping[str, Any] = field(default_factory=dict)
    tokens: int | None = None
    title: str = ""

    @property
    def rollouts(self) -> tuple[RolloutView, ...]:
        replies = [self.reply] if isinstance(self.reply, str) else self.reply
        return tuple(RolloutView(text, (), self.tokens) for text in replies)

    @property
    def task(self) -> TaskView:
        prompt = user_message(self.prompt) if self.prompt else []
        return TaskView(prompt, self.answer, self.domain, self.meta)

    @property
    def expected(self) -> list[Any]:
        return [self.value] if isinstance(self.reply, str) else list(self.value)

    def __str__(self) -> str:
        return self.title or f"reply {str(self.reply)[:60]!r}"


class Died(Exception):
    """Raised for a reply whose judgement ended the child process, or took too long."""


def check_scorer(plugin: Path | str, examples: Sequence[Example] = ()) -> None:
    """Raise PluginFailed unless the scorer is usable, keeps its contract and judges the examples.

    Each example, and replies that break careless scorers, are judged in the workers' own child
    processes with their limits of time and memory, and then twice here: the verdicts must be the
    same, within the range, with reasons, and storable as JSON.
    """
    with open_plugin(plugin) as name:
        scorer = find_plugin(find_scorer, name)
        if scorer.of_group:
            hostile = [_like(examples, list(HOSTILE.values()), "hostile replies")]
        else:
            hostile = [_like(examples, text, title) for title, text in HOSTILE.items()]
        with _grading() as grader:
            problems = []
            for example in (*examples, *hostile):
                try:
                    found_wrong = _problems(scorer, example, grader)
                    problems += [f"{example}: {problem}" for problem in found_wrong]
                except Died as died:  # each further death would take as long
                    problems.append(f"{example}: {died}")
                    break
    require_none(name, problems)


@contextmanager
def _grading() -> Iterator[Grader]:
    grader = Grader(children=1)
    try:
        yield grader
    finally:
        grader.stop()


def _like(examples: Sequence[Example], reply: Any, title: str) -> Example:
    """Return a reply to the first example's task, with its options."""
    first = examples[0] if examples else Example("")
    return replace(first, reply=reply, value=ANY, tokens=None, title=title)


def _problems(scorer: Scorer, example: Example, grader: Grader) -> Iterator[str]:
    """Yield what is wrong with the judgement of an example. Raises Died."""
    try:
        options = scorer.read_options(example.options)
    except ValidationError as bad:
        yield f"options are refused: {bad}"
        return
    numbers = tuple(range(len(example.rollouts)))
    question = Question(
        0, scorer.name, numbers, example.rollouts, example.task, dict(example.options)
    )
    [answer] = grader.grade([question])
    if died := [verdict.reason for verdict in answer.verdicts if _has_died(scorer, verdict)]:
        raise Died(died[0])
    try:
        first = _judged(scorer, example, options)
        second = _judged(scorer, example, options)
    except Exception as error:  # the author is told whatever it is
        yield f"raises {type(error).__name__}: {error}; return Verdict(None, why) instead"
        return
    wrong = list(_problems_of_verdicts(scorer, example, first))
    yield from wrong
    if not wrong and not _plain(first) == _plain(second) == _plain(answer.verdicts):
        yield "gets another verdict when it is judged again: a scorer must be deterministic"


def _has_died(scorer: Scorer, verdict: Verdict) -> bool:
    """Tell whether the verdict is the grader's, of a process that ended."""
    return verdict.value is None and verdict.reason.startswith(f"scorer {scorer.name}: ")


def _judged(scorer: Scorer, example: Example, options: Any) -> list[Verdict]:
    result = scorer.called(example.rollouts, example.task, options)
    return [require_verdict(verdict) for verdict in result]


def _problems_of_verdicts(
    scorer: Scorer, example: Example, verdicts: Sequence[Verdict]
) -> Iterator[str]:
    if len(verdicts) != len(example.rollouts):
        yield f"gets {len(verdicts)} verdicts for {len(example.rollouts)} replies"
        return
    for verdict in scorer.check_verdicts(list(verdicts), example.rollouts):
        if verdict not in verdicts:
            yield verdict.reason  # its value is out of the range
    if any(not verdict.reason for verdict in verdicts):
        yield "gets a verdict without a reason"
    if example.value is ANY:
        return
    values = [verdict.value for verdict in verdicts]
    if not _are_close(values, example.expected):
        reasons = "; ".join(verdict.reason for verdict in verdicts)
        yield f"gets {_list_values(values)} instead of {_list_values(example.expected)} ({reasons})"


def _are_close(values: Sequence[float | None], expected: Sequence[float | None]) -> bool:
    pairs = zip(values, expected, strict=False)
    return len(values) == len(expected) and all(
        value is target if value is None or target is None else abs(value - target) <= CLOSE
        for value, target in pairs
    )


def _list_values(values: Sequence[float | None]) -> str:
    return ", ".join(map(str, values))


def _plain(verdicts: Sequence[Verdict]) -> str:
    return json.dumps([asdict(verdict) for verdict in verdicts], sort_keys=True)
