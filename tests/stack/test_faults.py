"""Any process may die at any moment: the run reaches its planned step without intervention, and
the ledger is clean.
"""

import os
import signal

import pytest

from tests import profiles
from tests.descent import children
from tests.stack.conftest import LEASE_SECONDS, PATIENCE_S

pytestmark = [pytest.mark.stack, pytest.mark.slow]
PLANNED = 12


def in_the_middle(installation, slug: str) -> None:
    installation.wait(f"{slug} at step 3", lambda: installation.step(slug) >= 3)


VICTIMS = [
    "explorer",
    "scorer",
    "refiner",
    "trainer",
    "control",
    "beat",
    "web",
    "valkey",
    "postgres",
]
POOLS = ["explorer", "trainer"]
SLEEPERS = ["explorer", "scorer", "refiner", "trainer"]


@pytest.mark.parametrize("victim", profiles.nightly_but(VICTIMS, kept=("trainer",)))
def test_run_survives_kill_9_of_a_process(installation, tmp_path, victim):
    slug = f"kill-{victim}"
    installation.begin(slug, tmp_path)
    in_the_middle(installation, slug)
    if victim == "valkey":
        # otherwise it would restore its data from its file
        installation.empty_redis()
    killed = installation.stack.kill(victim)
    installation.stack.wait_restarted(victim, since=killed, stall_s=PATIENCE_S)
    installation.wait_completed(slug)
    assert installation.step(slug) == PLANNED
    assert installation.violations() == {}
    assert (
        installation.one(
            "SELECT max(uses) FROM buffer_experience e JOIN runs_run r ON r.id = e.run_id WHERE"
            " r.slug = %s",
            slug,
        )
        == 1
    )


@pytest.mark.nightly
@pytest.mark.parametrize("victim", POOLS)
def test_run_survives_kill_9_of_a_pool_child(installation, tmp_path, victim):
    slug = f"child-{victim}"
    installation.begin(slug, tmp_path)
    in_the_middle(installation, slug)
    for child in children(installation.stack.pid(victim)):
        os.kill(child, signal.SIGKILL)
    installation.wait_completed(slug)
    assert installation.violations() == {}


@pytest.mark.parametrize("sleeper", profiles.nightly_but(SLEEPERS, kept=("explorer",)))
def test_worker_suspended_past_its_lease_writes_nothing(installation, tmp_path, stopped, sleeper):
    slug = f"sleep-{sleeper}"
    installation.begin(slug, tmp_path)
    in_the_middle(installation, slug)
    parent = installation.stack.pid(sleeper)
    pool = children(parent)
    stopped += pool
    for child in pool:
        os.kill(child, signal.SIGSTOP)
    installation.wait("it is silent past its lease", lambda: is_silent(installation, sleeper))
    before = installation.step(slug)
    for child in pool:
        os.kill(child, signal.SIGCONT)
    installation.wait_completed(slug)
    assert installation.step(slug) == PLANNED >= before
    assert installation.violations() == {}


def is_silent(installation, role: str) -> bool:
    """Return whether the role's newest heartbeat is older than a lease, by the database's clock."""
    silence = (
        "SELECT extract(epoch FROM now() - max(heartbeat_at)) FROM runs_worker WHERE role = %s"
    )
    return (installation.one(silence, role) or 0) > LEASE_SECONDS + 1


PIPELINE = [
    {"operator": "arithmetic", "options": {"operand": "tokens", "weight": -0.01}},
    {"operator": "spread_most", "options": {"keep": 3}},
    {"operator": "reward_spread"},
]
OPEN = """SELECT count(*) FROM rollouts_group g JOIN runs_run r ON r.id = g.run_id
          WHERE r.slug = %s AND g.state NOT IN ('admitted', 'dropped')"""
THROUGH = """SELECT operator, given, kept
    FROM pipelines_operatorcount c JOIN runs_run r ON r.id = c.run_id
             WHERE r.slug = %s ORDER BY place"""
JUDGED = """SELECT count(*)
    FROM rollouts_rollout o JOIN rollouts_group g ON g.id = o.group_id
    JOIN runs_run r ON r.id = g.run_id
            WHERE r.slug = %s AND o.state = 'finished' AND g.judged_at IS NOT NULL
                AND g.reason <> 'the run ended'"""
LEARNED = (
    "SELECT count(*) FROM buffer_experience e JOIN runs_run r ON r.id = e.run_id WHERE r.slug = %s"
)
CUT = (
    "SELECT count(*) FROM pipelines_cutrollout c JOIN runs_run r ON r.id = c.run_id WHERE r.slug"
    " = %s"
)


@pytest.mark.nightly
def test_operators_count_each_rollout_once_although_their_refiner_is_killed(installation, tmp_path):
    installation.begin("piped", tmp_path, pipeline=PIPELINE)
    installation.wait("its third step", lambda: installation.step("piped") >= 3)
    installation.stack.kill("refiner")
    installation.wait_completed("piped")
    installation.wait("every group closed", lambda: installation.one(OPEN, "piped") == 0)
    shaped, widest, spread = installation.sql(THROUGH, "piped")
    assert (
        shaped[1] == shaped[2] == widest[1] == installation.one(JUDGED, "piped")
        and widest[2] == spread[1] < widest[1]
    )
    assert (
        spread[2]
        == installation.one(LEARNED, "piped")
        == widest[1] - installation.one(CUT, "piped")
    )
    assert installation.violations() == {}
