"""Loops in what a policy says, seen while it says them: the same tokens again and again, to no end.

Kimi k1.5 stops such rollouts early (arXiv 2501.12599, §2.6.2, repeat detection); its figures are not public, ours are defaults of a
run's `sampling.repeats`.
"""

from collections import deque


class LoopWatch:
    """Watches one turn, token by token: O(period) time for each, O(period) memory.

    A loop of period p is there when the newest tokens are the same p again and again, at least `times` times and over at least
    `tokens` tokens.
    """

    def __init__(self, period: int, times: int, tokens: int) -> None:
        self.times, self.tokens = times, tokens
        self.recent: deque[int] = deque(maxlen=period)
        self.same = [0] * (period + 1)  # by period: how many of the newest tokens in a row are the one that far before them

    def push(self, token: int) -> int:
        """The shortest period of the loop that this token completes or goes on with; 0 where there is none."""
        found = 0
        for period, before in enumerate(reversed(self.recent), start=1):
            same = self.same[period] = self.same[period] + 1 if before == token else 0
            if same and not found and same + period >= max(self.times * period, self.tokens):
                found = period
        self.recent.append(token)
        return found
