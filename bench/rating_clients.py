"""Clients that ask and answer repeatedly, each in a process: over HTTP, or in SQL alone."""

import gzip
import http.client
import json
import multiprocessing
import queue
import re
import sys
import time
import uuid
from dataclasses import dataclass, field

from bench.rating_stage import Rater

WAIT_S = 120.0


@dataclass
class Timing:
    """Measurements of a client: seconds of each request, and the slots that it leased."""

    next_s: list[float] = field(default_factory=list)
    submit_s: list[float] = field(default_factory=list)
    slots: list[int] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def rate(self) -> float:
        return len(self.submit_s) / self.seconds


class Browser:
    """A client that asks and answers as a rater's page does, over one persistent connection."""

    def __init__(self, port: int, run: int, rater: Rater) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self.run = run
        self.headers = {
            "Cookie": rater.cookie,
            "X-CSRFToken": rater.csrf,
            "HX-Request": "true",
            "Accept-Encoding": "gzip",
        }

    def next(self) -> tuple[int, int, int] | None:
        """Lease an item; return its slot, fence and version, or None if nothing waits."""
        status, body = self.ask("POST", f"/rate/next/?run={self.run}", "{}")
        if status == 204:
            return None
        fields = {
            name: int(re.search(rf'data-{name}="(\d+)"', body).group(1))
            for name in ("slot", "fence", "version")
        }
        return fields["slot"], fields["fence"], fields["version"]

    def submit(self, slot: int, fence: int, version: int) -> None:
        body = {
            "fence": fence,
            "version": version,
            "client_uuid": str(uuid.uuid4()),
            "form": "stars",
            "answer": {"stars": 1 + slot % 5},
            "critique": "",
            "seconds": 4.2,
            "first_key_ms": 900,
            "changes": 0,
        }
        self.ask("POST", f"/rate/slots/{slot}/", json.dumps(body))

    def ask(self, method: str, path: str, body: str | None = None) -> tuple[int, str]:
        headers = {**self.headers, "Content-Type": "application/json"} if body else self.headers
        self.connection.request(method, path, body, headers)
        answer = self.connection.getresponse()
        reply = answer.read()
        reply = (
            gzip.decompress(reply) if answer.headers.get("Content-Encoding") == "gzip" else reply
        ).decode()
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {reply[:300]}")
        return answer.status, reply


class Bare:
    """A client that does the same two steps in SQL, autocommitted, on a persistent connection."""

    CLAIM = """
        WITH next AS (SELECT id FROM feedback_slot
            WHERE run_id = %(run)s AND state = 'open' ORDER BY due_at, id LIMIT 1
                      FOR UPDATE SKIP LOCKED)
        UPDATE feedback_slot s SET state = 'held', rater_id = %(rater)s, fence = fence + 1,
            held_at = now(),
            lease_until = now() + interval '2 minutes', shown = i.members
        FROM next, feedback_item i, rollouts_rollout r
            WHERE s.id = next.id AND i.id = s.item_id AND r.id = i.members[1]
        RETURNING s.id, s.fence, i.version, r.text"""
    SUBMIT = """
        WITH done AS (UPDATE feedback_slot SET state = 'done'
            WHERE id = %(slot)s AND fence = %(fence)s AND state = 'held'
                      RETURNING item_id, run_id, shown)
        INSERT INTO feedback_rating (item_id, rollout_id, run_id, rater_id, form, answer, critique,
            shown, client_uuid,
            is_current, is_withdrawn, is_late, seconds, first_key_ms, changes)
        SELECT item_id, shown[1], run_id, %(rater)s, 'stars', %(answer)s, '', shown, %(uuid)s, true,
            false, false, 4.2, 900, 0
        FROM done"""

    def __init__(self, database: str, run: int, rater: Rater) -> None:
        import psycopg

        self.connection = psycopg.connect(database, autocommit=True)
        self.run = run
        self.rater = rater.pk

    def next(self) -> tuple[int, int, int] | None:
        row = self.connection.execute(self.CLAIM, {"run": self.run, "rater": self.rater}).fetchone()
        return None if row is None else row[:3]

    def submit(self, slot: int, fence: int, _version: int) -> None:
        answer = json.dumps({"stars": 1 + slot % 5})
        body = {
            "slot": slot,
            "fence": fence,
            "rater": self.rater,
            "answer": answer,
            "uuid": uuid.uuid4(),
        }
        if self.connection.execute(self.SUBMIT, body).rowcount != 1:
            raise RuntimeError(f"slot {slot} was lost")


def rate(face: Browser | Bare, start, seconds: float, at_most: int, timings) -> None:
    """Run one client: one decision to warm up, wait for the others, decide until the end."""
    timing = Timing()
    decide(face, Timing())
    start.wait(WAIT_S)
    began = time.perf_counter()
    while time.perf_counter() - began < seconds and len(timing.slots) < at_most:
        if not decide(face, timing):
            break
    timing.seconds = time.perf_counter() - began
    timings.put(timing)


def decide(face: Browser | Bare, timing: Timing) -> bool:
    began = time.perf_counter()
    claim = face.next()
    claimed_at = time.perf_counter()
    if claim is None:
        return False
    face.submit(*claim)
    timing.next_s.append(claimed_at - began)
    timing.submit_s.append(time.perf_counter() - claimed_at)
    timing.slots.append(claim[0])
    return True


def client(kind: str, where: object, run: int, rater: Rater, *arguments: object) -> None:
    rate(Browser(where, run, rater) if kind == "web" else Bare(where, run, rater), *arguments)


def together(
    kind: str,
    where: object,
    run: int,
    raters: tuple[Rater, ...],
    seconds: float,
    at_most: int = sys.maxsize,
) -> Timing:
    """Run all clients at once, each with its account; return their merged measurements.

    The duration is that of the slowest.
    """
    processes = multiprocessing.get_context("spawn")
    start = processes.Barrier(len(raters))
    timings = processes.Queue()
    crew = [
        processes.Process(
            target=client, args=(kind, where, run, rater, start, seconds, at_most, timings)
        )
        for rater in raters
    ]
    for member in crew:
        member.start()
    finished: list[Timing] = []
    while len(finished) < len(crew):
        try:
            finished.append(timings.get(timeout=1))
        except queue.Empty:
            if any(member.exitcode for member in crew):
                raise SystemExit("a client failed; its words stand above") from None
    for member in crew:
        member.join(WAIT_S)
    return Timing(
        [s for t in finished for s in t.next_s],
        [s for t in finished for s in t.submit_s],
        [slot for t in finished for slot in t.slots],
        max(t.seconds for t in finished),
    )
