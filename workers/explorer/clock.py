"""How long an answer has been under way at the engine, against the time it has (`sampling.time_s`, a task's `meta.limits.time_s`).

It runs from the first news of a request to that request's end, over all slices of the answer and all turns of a dialogue. While the
engine has not begun (its queue, the reading of the prompt) and while a person holds the answer it stands: neither is the answer's
doing.
"""

from dataclasses import dataclass


@dataclass
class Clock:
    """All in seconds; `now` is on the monotonic clock. `spent`: by the requests before this one; `since`: when this one began."""

    limit: float | None = None
    spent: float = 0.0
    since: float | None = None

    def run(self, now: float) -> None:
        """There is news of the request under way."""
        if self.since is None:
            self.since = now

    def stand(self, now: float) -> None:
        """Its request is over."""
        self.spent, self.since = self.at(now), None

    def at(self, now: float) -> float:
        return self.spent + (0.0 if self.since is None else now - self.since)

    def is_over(self, now: float) -> bool:
        return self.limit is not None and self.at(now) >= self.limit
