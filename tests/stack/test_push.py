"""An environment in another language plays over HTTP, and the policy trains on its rewards."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = [pytest.mark.stack, pytest.mark.slow]
SORTER = Path(__file__).parent / "push" / "sorter.mjs"
TOKEN = """
from apps.accounts.models import Token, User
print(Token.issue(User.objects.get(username="root"), "node", ["env:write:sorter", "read"])[1])
"""
ROLLOUTS = 4 * 4 * 4  # steps, groups in each, rollouts in each
WORDS = """SELECT count(*), count(DISTINCT w.rollout_id), min(w.value), max(w.value)
    FROM rewards_reward w
           JOIN rollouts_rollout o ON o.id = w.rollout_id JOIN rollouts_group g ON g.id = o.group_id
           JOIN runs_run r ON r.id = g.run_id WHERE r.slug = 'pushed' AND w.scorer = 'sorter'"""
ANSWERED = """SELECT count(*) FROM environments_episode e JOIN runs_run r ON r.id = e.run_id
              JOIN environments_episodeturn t ON t.episode_id = e.id
              WHERE r.slug = 'pushed' AND t.answered_at IS NOT NULL"""


@pytest.fixture
def sorter(installation) -> Iterator[subprocess.Popen]:
    """Yield the environment's process once it is registered; it ends when its input is closed."""
    secret = installation.must("shell", "-c", TOKEN).split()[-1]
    command = [shutil.which("node"), str(SORTER), installation.stack.address, secret, "8"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "registered\n"
        yield process
        process.kill()


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_policy_trains_with_an_environment_in_another_language(installation, sorter, tmp_path):
    installation.begin(
        "pushed",
        tmp_path,
        environment={"name": "sorter"},
        rewards=[],
        steps=4,
        sampling={"max_tokens": 24},
    )
    installation.wait_completed("pushed")
    said, _ = sorter.communicate("", timeout=300)
    played = json.loads(said)
    assert sorter.returncode == 0 and played["answers"] >= ROLLOUTS, played
    assert played["replays"] > 0 and played["busy"] > 0
    words, rollouts, least, most = installation.sql(WORDS)[0]
    assert words == rollouts >= ROLLOUTS and 0 <= least <= most <= 2
    assert installation.one(ANSWERED) >= played["answers"]
    assert installation.step("pushed") == 4
    assert installation.violations() == {}
