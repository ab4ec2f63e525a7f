"""A guessing game: the reply to each guess is whether the number is higher or lower."""

import random
import re
from typing import ClassVar

from apps.environments.library.protocol import Step

LOW = 1
HIGH = 16


class GuessNumber:
    """A secret number sampled with the seed.

    A right guess earns 1 and ends the episode, a wrong one 0. Options: `low`, `high`.
    """

    title: ClassVar = "Guess the number"
    reward_low: ClassVar = 0.0
    reward_high: ClassVar = 1.0
    turn_limit: ClassVar = 5
    turn_s: ClassVar = 2.0

    def reset(self, seed: int, options: dict) -> str:
        low = options.get("low", LOW)
        high = options.get("high", HIGH)
        if not (isinstance(low, int) and isinstance(high, int) and low <= high):
            raise ValueError(
                f"low and high must be whole numbers with low <= high, not {low!r} and {high!r}"
            )
        self.secret = random.Random(seed).randint(low, high)
        return ""  # the task's prompt has the rules

    def step(self, action: str) -> Step:
        match = re.search(r"-?[0-9]{1,9}(?![0-9])", action)
        if match is None:
            return Step("say a number", 0.0, False)
        guess = int(match[0])
        if guess == self.secret:
            return Step("yes", 1.0, True)
        return Step("higher" if guess < self.secret else "lower", 0.0, False)

    def close(self) -> None:
        """Do nothing: there is nothing to release."""
