"""Repair of a broken function: the policy's code runs in the sandbox, on shown and hidden calls."""

import re
from collections.abc import Sequence
from typing import ClassVar

from apps.environments.library.katas import SHOWN, exercise, is_wrong
from apps.environments.library.protocol import Step
from apps.rewards import sandbox

FENCED = re.compile(r"```(?:python|py)?[ \t]*\n(.*?)```", re.DOTALL)
MAX_ANSWER_LENGTH = 8_000  # characters of an answer


class CodeRepair:
    """A short Python function with one mistake, and calls that show it.

    The whole function, repaired, earns 1 and ends the episode. An answer is code, alone or between
    ``` fences; it runs in the sandbox for rewards, and does not run without one.
    """

    title: ClassVar = "Code repair"
    reward_low: ClassVar = 0.0
    reward_high: ClassVar = 1.0
    turn_limit: ClassVar = 4
    turn_s: ClassVar = 30.0

    def reset(self, seed: int, options: dict) -> str:
        if options:
            raise ValueError(
                f"options: there are none, and {', '.join(sorted(options))} cannot be set"
            )
        sandbox.require_tool()
        self.exercise = exercise(seed)
        return f"{self.exercise.broken}\n{self._failing(self.exercise.outcomes)[1]}"

    def step(self, action: str) -> Step:
        code = code_in(action)
        if f"def {self.exercise.name}(" not in code:
            return Step(f"write the whole function {self.exercise.name}", 0.0, False)
        if len(code) > MAX_ANSWER_LENGTH:
            return Step(f"write at most {MAX_ANSWER_LENGTH} characters", 0.0, False)
        failing, messages = self._failing(sandbox.run_calls(code, self.exercise.calls))
        return Step(messages or "all is right", float(not failing), not failing)

    def close(self) -> None:
        """Do nothing: there is nothing to release."""

    def _failing(self, outcomes: Sequence[sandbox.Outcome]) -> tuple[int, str]:
        """Return how many calls failed, and a text with the shown ones and the number of others."""
        judged = zip(self.exercise.calls, self.exercise.expected, outcomes, strict=True)
        messages = [
            _describe_failure(*case) if is_wrong(case[2], case[1]) else "" for case in judged
        ]
        shown_failures = [words for words in messages[:SHOWN] if words]
        hidden_failures = sum(map(bool, messages[SHOWN:]))
        return len(shown_failures) + hidden_failures, "\n".join(
            [*shown_failures, f"{hidden_failures} other calls go wrong"]
            if hidden_failures
            else shown_failures
        )


def _describe_failure(call: sandbox.Call, expected: object, outcome: sandbox.Outcome) -> str:
    result = (
        f"fails: {_plain(outcome.error)}"
        if outcome.error
        else f"gives {_plain(repr(outcome.value))}"
    )
    return f"{call.function}({', '.join(map(repr, call.arguments))}) {result}, not {expected!r}"


def code_in(text: str) -> str:
    """Return the code between the first fences, or the whole text."""
    match = FENCED.search(text)
    return match[1] if match else text


def _plain(text: str) -> str:
    """Return output of the policy's code in characters that can be stored."""
    return text[:200].encode("ascii", "backslashreplace").decode().replace("\0", "")
