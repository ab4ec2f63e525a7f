"""The web process is killed repeatedly while eight people rate: each acknowledged decision is
stored exactly once.
"""

import http.client
import json
import random
import re
import threading
import time
import uuid
from collections import Counter
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import psutil
import pytest

from rftweb.supervisor.child import CRASH_LOOP, QUICK_DEATH_S
from tests.stack.conftest import PATIENCE_S

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.stack,
    pytest.mark.slow,
    pytest.mark.timeout(3600),
]
RATERS = 8
# Each kill takes 10 to 20 seconds, most of it the start of the next process.
KILLS = 20
# Only people decide, no other worker continues, and there is always something to decide.
PEOPLE = {
    "people": {
        "per_group": 4,
        "deadline_s": 3600,
        "at_deadline": "machine_only",
        "open_claims": 5,
        "lease_s": 20,
    }
}
SIGNED_IN = f"""
import json
from django.conf import settings
from django.middleware.csrf import get_token
from django.test import Client, RequestFactory
from apps.accounts.models import Membership, Project, User
found = []
for n in range({RATERS}):
    user, _ = User.objects.get_or_create(username=f"rater-{{n}}")
    demo = Project.objects.get(slug="demo")
    Membership.objects.get_or_create(project=demo, user=user, defaults={{"role": "rater"}})
    client, asked = Client(), RequestFactory().get("/")
    client.force_login(user)
    token = get_token(asked)
    session = client.cookies[settings.SESSION_COOKIE_NAME].value
    found.append({{"token": token, "cookie": f"{{settings.SESSION_COOKIE_NAME}}={{session}}; "
                  f"{{settings.CSRF_COOKIE_NAME}}={{asked.META['CSRF_COOKIE']}}"}})
print(json.dumps(found))
"""


@dataclass
class Rater(threading.Thread):
    """Decides items until stopped; a failed request is sent again with the same uuid, as a browser
    does.
    """

    host: str
    cookie: str
    token: str
    over: threading.Event = field(default_factory=threading.Event)
    acknowledged: list[str] = field(default_factory=list)
    refused: Counter = field(default_factory=Counter)
    faults: int = 0

    def __post_init__(self) -> None:
        super().__init__(daemon=True)

    __hash__ = threading.Thread.__hash__

    def run(self) -> None:
        while not self.over.is_set():
            held = self.until_answered("POST", "/rate/next/", {})
            if held is None or held[0] != 200:
                self.over.wait(0.2)
                continue
            slot, fence, version = (
                int(re.search(rf'data-{name}="(\d+)"', held[1]).group(1))
                for name in ("slot", "fence", "version")
            )
            self.decide(slot, fence, version)

    def decide(self, slot: int, fence: int, version: int) -> None:
        said = {
            "fence": fence,
            "version": version,
            "client_uuid": str(uuid.uuid4()),
            "form": "stars",
            "answer": {"stars": random.randint(1, 5)},
            "seconds": 1.0,
        }
        answered = self.until_answered("POST", f"/rate/slots/{slot}/", said)
        if answered is None:
            return
        if answered[0] in (200, 201):
            self.acknowledged.append(said["client_uuid"])
        else:
            self.refused[answered[0]] += 1

    def until_answered(
        self, method: str, path: str, body: dict | None = None
    ) -> tuple[int, str] | None:
        """Return status and text, or None if it was stopped before a response came.

        Retry while the server is unreachable.
        """
        while not self.over.is_set():
            try:
                status, words = self.ask(method, path, body)
                if status < 500:
                    return status, words
            except (OSError, http.client.HTTPException):
                pass
            self.faults += 1
            self.over.wait(0.1)
        return None

    def ask(self, method: str, path: str, body: dict | None) -> tuple[int, str]:
        connection = http.client.HTTPConnection(self.host, timeout=20)
        try:
            headers = {
                "Cookie": self.cookie,
                "X-CSRFToken": self.token,
                "Content-Type": "application/json",
            }
            connection.request(method, path, json.dumps(body) if body else None, headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()


def test_no_acknowledged_decision_is_lost_or_doubled_when_web_is_killed_repeatedly(
    installation, tmp_path
):
    installation.begin("many-kills", tmp_path, steps=1000, max_staleness=1000, **PEOPLE)
    people = json.loads(installation.must("shell", "-v", "0", "-c", SIGNED_IN).splitlines()[-1])
    raters = [Rater(urlsplit(installation.stack.address).netloc, **person) for person in people]
    for rater in raters:
        rater.start()
    for number in range(KILLS):
        more = sum(len(rater.acknowledged) for rater in raters) + 1
        # Sometimes the process lives long enough not to count as crashing at its start.
        # create_time() may be a second early, because the boot time has whole seconds.
        lives_s = QUICK_DEATH_S + 2 if number % (CRASH_LOOP - 1) == 0 else 0
        until = psutil.Process(installation.stack.pid("web")).create_time() + lives_s
        installation.wait(
            "people rate",
            lambda more=more, until=until: (
                sum(len(r.acknowledged) for r in raters) >= more and time.time() >= until
            ),
        )
        killed = installation.stack.kill("web")
        installation.stack.wait_restarted("web", since=killed, stall_s=PATIENCE_S)
    for rater in raters:
        rater.over.set()
    for rater in raters:
        rater.join(60)
    acknowledged = [sent for rater in raters for sent in rater.acknowledged]
    assert len(acknowledged) >= KILLS and sum(rater.faults for rater in raters) >= KILLS, (
        "too few ratings, or no kill hit a request"
    )
    found = Counter(
        str(sent) for (sent,) in installation.sql("SELECT client_uuid FROM feedback_rating")
    )
    assert {sent: found[sent] for sent in acknowledged if found[sent] != 1} == {}
    twice = (
        "SELECT item_id, rater_id FROM feedback_rating WHERE is_current AND item_id IS NOT NULL"
        " GROUP BY 1, 2 HAVING count(*) > 1"
    )
    assert installation.sql(twice) == []
    doubled = """SELECT rating_id, count(*)
        FROM feedback_ratingreward GROUP BY rating_id HAVING count(*) > 1"""
    assert installation.sql(doubled) == [], "one decision about one rollout must create one reward"
    lost = """SELECT t.id FROM feedback_rating t
        JOIN feedback_slot s ON s.item_id = t.item_id AND s.rater_id = t.rater_id
              WHERE t.is_current AND s.state <> 'done'"""
    assert installation.sql(lost) == [], (
        "a slot is done when its rating is there: both are one transaction"
    )
    installation.must("runs", "stop", "many-kills")
