"""Detection of loops during sampling: the same tokens again and again.

Kimi k1.5 stops such rollouts early (arXiv 2501.12599, §2.6.2, repeat detection). It does not
publish its thresholds; ours are defaults of a run's `sampling.repeats`.
"""

from collections import deque


class LoopWatch:
    """A detector of loops in one turn: O(period) time for each token, O(period) memory.

    A loop of period p means that the newest tokens repeat the same p tokens at least `times` times
    and over at least `tokens` tokens.
    """

    def __init__(self, period: int, times: int, tokens: int) -> None:
        self.times = times
        self.tokens = tokens
        self.recent: deque[int] = deque(maxlen=period)
        # By period: how many of the newest tokens in a row equal the one a period before.
        self.same = [0] * (period + 1)

    def push(self, token: int) -> int:
        """Add a token; return the shortest period of a loop that ends with it, 0 without a loop."""
        shortest = 0
        for period, before in enumerate(reversed(self.recent), start=1):
            run_length = self.same[period] = self.same[period] + 1 if before == token else 0
            if (
                run_length
                and not shortest
                and run_length + period >= max(self.times * period, self.tokens)
            ):
                shortest = period
        self.recent.append(token)
        return shortest
