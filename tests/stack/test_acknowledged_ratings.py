"""No acknowledged rating is ever lost, whichever process is killed while people rate."""

import http.client
import json
import threading
import uuid
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.stack.conftest import PATIENCE_S

pytestmark = [pytest.mark.stack, pytest.mark.slow]
# The run waits for people: otherwise it could continue while a service starts, and end before
# all services were killed.
PEOPLE = {"people": {"per_group": 2, "deadline_s": 3600, "at_deadline": "machine_only"}}
NEW_TOKEN = """
from apps.accounts.models import Token, User
print(Token.issue(User.objects.get(username="root"), "test", ["rate"])[1])
"""
MIN_ACKNOWLEDGED = 20


class Rater(threading.Thread):
    """Rates waiting items until stopped, and records every acknowledged rating."""

    def __init__(self, address: str, secret: str, ledger: Path) -> None:
        super().__init__(daemon=True)
        self.host = urlsplit(address).netloc
        self.ledger = ledger
        self.headers = {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"}
        self.over = threading.Event()
        self.acknowledged = self.faults = 0

    def run(self) -> None:
        with self.ledger.open("a") as ledger:
            while not self.over.is_set():
                try:
                    self.rate(ledger)
                except (OSError, http.client.HTTPException, ValueError):
                    self.faults += 1  # not acknowledged: it may be stored or not
                self.over.wait(0.05)

    def rate(self, ledger) -> None:
        waiting = self.ask("GET", "/api/v1/rating-queue/?limit=8")["items"]
        ratings = [
            {"rollout": item["id"], "stars": 1 + item["id"] % 5, "client_uuid": str(uuid.uuid4())}
            for item in waiting
        ]
        if not ratings:
            return
        results = self.ask("POST", "/api/v1/ratings/", {"ratings": ratings})["results"]
        for rating, result in zip(ratings, results, strict=True):
            if result["status"] < 400:
                ledger.write(json.dumps({"client_uuid": rating["client_uuid"]}) + "\n")
                ledger.flush()
                self.acknowledged += 1

    def ask(self, method: str, path: str, body: dict | None = None) -> dict:
        connection = http.client.HTTPConnection(self.host, timeout=10)
        try:
            connection.request(method, path, json.dumps(body) if body else None, self.headers)
            answer = connection.getresponse()
            if answer.status >= 300:
                raise ValueError(f"{answer.status}: {answer.read()[:200]!r}")
            return json.loads(answer.read())
        finally:
            connection.close()


def test_no_acknowledged_rating_is_lost_when_processes_are_killed(installation, tmp_path):
    installation.begin("rated", tmp_path, steps=12, **PEOPLE)
    secret = installation.must("shell", "-v", "0", "-c", NEW_TOKEN).split()[-1]
    ledger = tmp_path / "acknowledged.jsonl"
    rater = Rater(installation.stack.address, secret, ledger)
    rater.start()
    for victim in ("web", "postgres", "valkey", "web"):
        more = rater.acknowledged + MIN_ACKNOWLEDGED // 4
        installation.wait("people rate", lambda more=more: rater.acknowledged >= more)
        killed = installation.stack.kill(victim)
        installation.stack.wait_restarted(victim, since=killed, stall_s=PATIENCE_S)
    installation.wait_completed("rated")
    rater.over.set()
    rater.join(30)
    assert rater.acknowledged >= MIN_ACKNOWLEDGED and rater.faults > 0, (
        "too few ratings, or no request failed"
    )
    done = installation.manage("reconcile", "--json", "--acknowledged", str(ledger))
    assert {check: found for check, found in json.loads(done.stdout).items() if found} == {}
