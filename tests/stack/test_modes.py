"""One number makes a run synchronous, one step off or asynchronous; runs share workers; people
pause and resume.
"""

import pytest

from tests import profiles
from tests.stack.conftest import FURNISH, running

pytestmark = [pytest.mark.stack, pytest.mark.slow]
LAG = """SELECT coalesce(max(s.version - e.weight_version), 0)
    FROM buffer_stepitem i JOIN runs_trainstep s ON s.id = i.step_id
         JOIN buffer_experience e ON e.id = i.experience_id JOIN runs_run r ON r.id = s.run_id
             WHERE r.slug = %s"""
FIRST_GAP = """SELECT m.value FROM runs_metric m JOIN runs_run r ON r.id = m.run_id
               WHERE r.slug = %s AND m.name = 'behaviour_gap' AND m.step = 1"""


@pytest.mark.parametrize("bound", profiles.nightly_but((0, 1, 4), kept=(1,)))
def test_no_rollout_older_than_the_staleness_bound_is_trained(installation, tmp_path, bound):
    installation.begin(f"stale-{bound}", tmp_path, max_staleness=bound)
    installation.wait_completed(f"stale-{bound}")
    assert installation.one(LAG, f"stale-{bound}") <= bound
    # The first batch was sampled with the same weights with which its logprobs are recomputed.
    assert installation.one(FIRST_GAP, f"stale-{bound}") <= 0.02
    assert installation.violations() == {}


def test_run_publishes_once_per_sync_interval(installation, tmp_path):
    installation.begin("interval", tmp_path, sync_interval=3, max_staleness=0)
    installation.wait_completed("interval")
    assert installation.one("SELECT published_version FROM runs_run WHERE slug = 'interval'") == 4


def test_paused_run_makes_no_steps_until_it_is_resumed(installation, tmp_path):
    # Enough steps that the run cannot end before a command starts, on a machine of any speed.
    installation.begin("pause", tmp_path, steps=1_000_000)
    installation.wait("it learns", lambda: installation.step("pause") >= 1)
    installation.must("runs", "pause", "pause")
    idle = """SELECT count(*) = 0 FROM rollouts_group g JOIN runs_run r ON r.id = g.run_id
              WHERE r.slug = 'pause' AND g.state = 'sampling'
                  AND g.lease_until > statement_timestamp()"""
    installation.wait(
        "what was in flight is in, or was lost with its lease", lambda: installation.one(idle)
    )
    installation.begin("beside", tmp_path, steps=2)
    installation.wait_completed("beside")  # so the trainer has finished its step of the other run
    at = installation.step("pause")
    assert installation.violations() == {}
    assert installation.step("pause") == at
    installation.must("runs", "resume", "pause")
    installation.wait("it learns again", lambda: installation.step("pause") > at)


def test_stopped_run_ends_with_a_clean_ledger(installation, tmp_path):
    installation.begin("stop", tmp_path, steps=1000)
    installation.wait("it learns", lambda: installation.step("stop") >= 2)
    installation.must("runs", "stop", "stop")
    left = """SELECT count(*) FROM rollouts_group g JOIN runs_run r ON r.id = g.run_id
              WHERE r.slug = 'stop' AND g.state IN ('sampling', 'scoring', 'waiting', 'judged')"""
    installation.wait("no group is left open", lambda: installation.one(left) == 0)
    assert installation.violations() == {}


@pytest.mark.nightly
def test_two_runs_share_the_workers(installation, tmp_path):
    for slug in ("share-1", "share-2"):
        installation.begin(slug, tmp_path, steps=15)
    installation.wait(
        "both have begun",
        lambda: min(installation.step("share-1"), installation.step("share-2")) >= 1,
    )
    for slug in ("share-1", "share-2"):
        installation.wait_completed(slug)
    assert installation.violations() == {}


@pytest.mark.nightly
def test_two_explorers_serve_one_run(tmp_path, tiny_folder):
    with running(tmp_path / "var", counts={"explorer": 2}) as installation:
        installation.must("shell", "-c", FURNISH % str(tiny_folder))
        installation.begin("pair", tmp_path, steps=20)
        installation.wait_completed("pair")
        acknowledged = "SELECT count(DISTINCT worker_id) FROM runs_acknowledgement"
        assert installation.one(acknowledged) == 2
        assert installation.violations() == {}
