"""A broken function is to be repaired: what the policy writes is run in the sandbox, on calls that it was shown and on others."""

import re
from collections.abc import Sequence
from typing import ClassVar

from apps.environments.library.katas import SHOWN, exercise, is_wrong
from apps.environments.library.protocol import Step
from apps.rewards import sandbox

FENCED = re.compile(r"```(?:python|py)?[ \t]*\n(.*?)```", re.DOTALL)
LONGEST = 8_000  # characters of an answer


class CodeRepair:
    """A short function in Python with one mistake, and calls that show it. The whole function, repaired, earns 1 and ends it.

    An answer is code, alone or between ``` fences; it is run in the sandbox of rewards, and without one nothing is.
    """

    title: ClassVar = "Code repair"
    reward_low: ClassVar = 0.0
    reward_high: ClassVar = 1.0
    turn_limit: ClassVar = 4
    turn_s: ClassVar = 30.0

    def reset(self, seed: int, options: dict) -> str:
        if options:
            raise ValueError(f"options: there are none, and {', '.join(sorted(options))} cannot be set")
        sandbox.require()
        self.exercise = exercise(seed)
        return f"{self.exercise.broken}\n{self._failing(self.exercise.given)[1]}"

    def step(self, action: str) -> Step:
        code = code_in(action)
        if f"def {self.exercise.name}(" not in code:
            return Step(f"write the whole function {self.exercise.name}", 0.0, False)
        if len(code) > LONGEST:
            return Step(f"write at most {LONGEST} characters", 0.0, False)
        failing, told = self._failing(sandbox.run(code, self.exercise.calls))
        return Step(told or "all is right", float(not failing), not failing)

    def close(self) -> None:
        """It holds nothing."""

    def _failing(self, outcomes: Sequence[sandbox.Outcome]) -> tuple[int, str]:
        """How many of the calls went wrong, and what may be told of them: the calls that are shown, and the number of others."""
        judged = zip(self.exercise.calls, self.exercise.wanted, outcomes, strict=True)
        told = [_told(*one) if is_wrong(one[2], one[1]) else "" for one in judged]
        shown = [words for words in told[:SHOWN] if words]
        others = sum(map(bool, told[SHOWN:]))
        return len(shown) + others, "\n".join([*shown, f"{others} other calls go wrong"] if others else shown)


def _told(call: sandbox.Call, wanted: object, outcome: sandbox.Outcome) -> str:
    given = f"fails: {_plain(outcome.error)}" if outcome.error else f"gives {_plain(repr(outcome.value))}"
    return f"{call.function}({', '.join(map(repr, call.arguments))}) {given}, not {wanted!r}"


def code_in(text: str) -> str:
    """What stands between the first fences, or all of it."""
    found = FENCED.search(text)
    return found[1] if found else text


def _plain(text: str) -> str:
    """What code of the policy's said, in characters that can be kept."""
    return text[:200].encode("ascii", "backslashreplace").decode().replace("\0", "")
