"""The engine time of an answer, compared with its limit (`sampling.time_s`, `meta.limits.time_s`).

Time counts from the first output of a request to the end of the request, over all slices of the
answer and all turns of a dialogue. It does not count while the engine has not begun (queue and
prefill), nor while a person holds the answer. The answer causes neither.
"""

from dataclasses import dataclass


@dataclass
class Stopwatch:
    """A stopwatch of an answer. All times are in seconds; `now` is on the monotonic clock.

    `spent` is the time of earlier requests. `since` is the start of the current one.
    """

    limit: float | None = None
    spent: float = 0.0
    since: float | None = None

    def run(self, now: float) -> None:
        """Start the clock at the first output of the current request."""
        if self.since is None:
            self.since = now

    def stand(self, now: float) -> None:
        """Stop the clock when the request is over."""
        self.spent = self.at(now)
        self.since = None

    def at(self, now: float) -> float:
        return self.spent + (0.0 if self.since is None else now - self.since)

    def is_over(self, now: float) -> bool:
        return self.limit is not None and self.at(now) >= self.limit
