"""Code, mathematics, school, pictures and tone in one run on the real stack: each task goes to the
scorers of its domain, tone to people.
"""

import json
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator

import httpx
import pytest

from tests.stack.conftest import ROOT, Installation, running
from tests.stack.test_agents import KEY

pytestmark = [pytest.mark.nightly, pytest.mark.stack, pytest.mark.slow]
SCHOOL = ("biology", "chemistry", "language", "maths", "physics")
REWARDS = [
    {"scorer": "code", "domains": ["code"], "options": {"bare_code": True, "partial": True}},
    {"scorer": "math", "domains": ["math"]},
    {"scorer": "school", "domains": list(SCHOOL)},
    {"scorer": "counting", "domains": ["counting"]},
    {"scorer": "ocr", "domains": ["ocr"]},
    {
        "scorer": "repetition",
        "weight": 0.5,
        "domains": ["code", "math", *SCHOOL, "counting", "ocr"],
    },
]
BUILD = """
from pathlib import Path
from workers.policies.tiny_vision import build_seeing
build_seeing(Path(%r), context=512)
"""
FURNISH = """
from pathlib import Path
from apps.accounts.models import Membership, Project, Token, User
from apps.policies.registering import register_policy
from apps.tasksets.importing import generate
from apps.tasksets.joining import join
from apps.tasksets.storing import Origin
project = Project.objects.create(slug="demo", title="Demo")
people = User.objects.create_superuser("root", password="correct horse battery")
Membership.objects.create(project=project, user=people, role=Membership.Role.OWNER)
register_policy(project, "tiny", Path(%r), "built for a test", "Tiny")
names = ("katas", "math", "k12", "shapes", "text_render", "tone")
sets = [generate(project, name, name, 20, 0) for name in names]
join(Origin(project, "mixed", "Mixed", "joined"), sets)
print(Token.issue(people, "rater", [Token.Scope.RATE])[1])
"""
SCORERS = """SELECT DISTINCT t.domain, w.scorer
    FROM rewards_reward w JOIN rollouts_rollout o ON o.id = w.rollout_id
             JOIN rollouts_group g ON g.id = o.group_id JOIN tasksets_task t ON t.id = g.task_id
                 WHERE w.by_id IS NULL"""
BY_PEOPLE = """SELECT DISTINCT t.domain
    FROM rewards_reward w JOIN rollouts_rollout o ON o.id = w.rollout_id
               JOIN rollouts_group g ON g.id = o.group_id JOIN tasksets_task t ON t.id = g.task_id
                   WHERE w.by_id IS NOT NULL"""
TRAINED = """SELECT DISTINCT t.domain
    FROM buffer_stepitem i JOIN buffer_experience e ON e.id = i.experience_id
             JOIN rollouts_rollout o ON o.id = e.rollout_id
                 JOIN rollouts_group g ON g.id = o.group_id
             JOIN tasksets_task t ON t.id = g.task_id"""
NAKED = """SELECT count(*) FROM rewards_reward WHERE by_id IS NULL AND scorer <> 'people'
           AND (seconds IS NULL OR reason = '' OR version < 1)"""


class Rater:
    """A person over REST, who gives longer replies more stars until stopped."""

    def __init__(self, address: str, secret: str) -> None:
        self.client = httpx.Client(
            base_url=f"{address}/api/v1", headers={"Authorization": f"Bearer {secret}"}, timeout=300
        )
        self.stopped = threading.Event()
        self.given = 0

    def work(self) -> None:
        while not self.stopped.wait(0.2):
            for item in self.client.post("/rating-queue/claim/", json={"count": 3}).json()["items"]:
                self.decide(item)

    def decide(self, item: dict) -> None:
        stars = 1 + len(item["replies"][0]["text"]) % 5
        said = {
            "client_uuid": f"6f1c2b1e-0000-4000-8000-{item['slot']:012d}",
            "answer": {"stars": stars},
        }
        kept = {name: item[name] for name in ("fence", "version", "form")}
        answer = self.client.post(f"/rating-slots/{item['slot']}/", json={**said, **kept})
        assert answer.status_code in (201, 409), answer.text  # its group may have moved on
        self.given += answer.status_code == 201


@pytest.fixture(scope="module")
def stage(tmp_path_factory) -> Iterator[tuple[Installation, str]]:
    """Start an installation whose policy sees pictures; yield it with a rater's token."""
    folder = tmp_path_factory.mktemp("policies") / "seeing"
    subprocess.run([sys.executable, "-c", BUILD % str(folder)], cwd=ROOT, check=True, timeout=240)
    with running(tmp_path_factory.mktemp("var")) as installation:
        yield installation, installation.must("shell", "-c", FURNISH % str(folder)).split()[-1]


@pytest.fixture(scope="module")
def ended(stage, tmp_path_factory) -> tuple[Installation, Rater]:
    """Complete a run over all domains while a person rates."""
    installation, secret = stage
    rater = Rater(installation.stack.address, secret)
    at_work = threading.Thread(target=rater.work)
    at_work.start()
    try:
        installation.begin(
            "mixed",
            tmp_path_factory.mktemp("runs"),
            taskset="mixed",
            steps=6,
            groups_per_step=6,
            max_staleness=2,
            rewards=REWARDS,
            people={"per_group": 4, "domains": ["tone"], "deadline_s": 120, "at_deadline": "drop"},
        )
        installation.wait_completed("mixed", 900)
    finally:
        rater.stopped.set()
        at_work.join()
    return installation, rater


def test_each_domain_is_judged_by_its_own_scorer_and_tone_by_people(ended):
    installation, rater = ended
    found = defaultdict(set)
    for domain, scorer in installation.sql(SCORERS):
        found[domain].add(scorer)
    of_people = found.pop("tone", set())
    assert of_people <= {"people"} and rater.given and installation.sql(BY_PEOPLE) == [("tone",)]
    own = {"code": "code", "math": "math", "counting": "counting", "ocr": "ocr"} | dict.fromkeys(
        SCHOOL, "school"
    )
    assert {"code", "math", "counting", "ocr"} < found.keys() <= own.keys()
    assert found == {domain: {own[domain], "repetition"} for domain in found}


def test_run_trains_on_tasks_judged_by_scorers_and_by_people(ended):
    trained = {domain for (domain,) in ended[0].sql(TRAINED)}
    assert {"tone", "math", "code", "counting"} <= trained


def test_every_scorer_reward_has_a_reason_version_and_duration(ended):
    assert ended[0].one(NAKED) == 0


def test_ledger_is_clean(ended):
    assert ended[0].violations() == {}


def test_policy_served_here_can_be_asked_as_a_judge(ended, tmp_path):
    """It babbles, so there is no value; but it was reached with its run's key, and its tokens were
    counted.
    """
    installation, _ = ended
    installation.begin(
        "judge",
        tmp_path,
        environment={"name": "agent"},
        rewards=[],
        taskset="asked-judge",
        group_size=1,
        steps=1,
        algorithm="reinforce_plus_plus",
        sampling={"max_tokens": 60},
        serve={"over_bound": "answer_only", "feedback_s": 600},
    )
    address = installation.stack.address
    here = address.removeprefix("http://")
    key = installation.must("shell", "-c", KEY % "judge").split()[-1]
    installation.env |= {
        "RFTWEB_JUDGE_KEYS": f"{here}=JUDGE_KEY",
        "JUDGE_KEY": key,
        "RFTWEB_ENVIRONMENT_HOSTS": here,
    }
    options = {
        "address": f"{address}/v1",
        "model": "tiny",
        "max_tokens": 32,
        "temperature": 1.0,
        "timeout_s": 300,
    }
    file = tmp_path / "lines.jsonl"
    file.write_text(
        json.dumps({"scorer": "judge", "response": "4", "answer": 4, "options": options})
    )
    said = json.loads(installation.must("score", str(file)).splitlines()[-1])
    assert said["value"] is None and "JSON object" in said["reason"]
    assert said["details"]["tokens_in"] > 100 and 0 < said["details"]["tokens_out"] <= 32
