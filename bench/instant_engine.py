"""An engine without a model that answers at once, to measure everything around an engine."""

import threading
import time
from pathlib import Path

from workers.engines.interface import Delta, Health, LoadReport, ProbeLike, Request

SAID = 5
LOGPROB = (
    -0.5
)  # the token of each answer, the stop token, and the log-probability reported for both


class InstantEngine:
    """An engine that returns one token and the stop token.

    It has no weights: it confirms whatever the caller expects of them.
    """

    name = "instant"

    def __init__(self) -> None:
        self.version: int | None = None
        self.news: list[Delta] = []
        self.came = threading.Condition()

    def start(self, folder: Path, version: int, probe: ProbeLike) -> LoadReport:
        return self.load(folder, version, probe)

    def load(self, folder: Path, version: int, probe: ProbeLike) -> LoadReport:
        self.version = version
        return LoadReport(version, "0" * 16, 0.0, 0.0)

    def submit(self, requests: list[Request]) -> None:
        with self.came:
            for request in requests:
                token_ids = (SAID, *request.sampling.stop_token_ids[:1])
                self.news.append(
                    Delta(
                        request.id, 0, token_ids, (LOGPROB,) * len(token_ids), self.version, "stop"
                    )
                )
            self.came.notify_all()

    def drain(self, timeout: float) -> list[Delta]:
        with self.came:
            ends = time.monotonic() + timeout
            while not self.news and (remaining_s := ends - time.monotonic()) > 0:
                self.came.wait(remaining_s)
            news = self.news
            self.news = []
        return news

    def abort(self, ids: list[str]) -> None:
        with self.came:
            self.news = [delta for delta in self.news if delta.request_id not in ids]

    def health(self, deadline_s: float) -> Health:
        return Health(True, self.version, self.in_flight(), "")

    def in_flight(self) -> int:
        return len(self.news)

    def stop(self) -> None:
        """Do nothing: there is nothing to release."""
