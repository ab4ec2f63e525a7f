"""A run over several tasksets on the real stack draws the tasks of a simple reference calculation,
even if processes die meanwhile.
"""

import pytest

from apps.tasksets.selection.chance import below
from apps.tasksets.shuffled_draws import draw_position
from tests.rollouts.mixed import expected
from tests.stack.conftest import PATIENCE_S

pytestmark = [pytest.mark.stack, pytest.mark.slow]
SIZES = {"sort": 200, "few": 7}
SHARES = {"sort": 2, "few": 1}
SEED = 5
DRAWN = """SELECT s.slug, t.index FROM rollouts_group g JOIN runs_run r ON r.id = g.run_id
           JOIN tasksets_task t ON t.id = g.task_id JOIN tasksets_taskset s ON s.id = t.taskset_id
           WHERE r.slug = 'mixed' AND g.draw_index IS NOT NULL ORDER BY g.draw_index"""


@pytest.mark.nightly
def test_mixed_run_draws_the_same_tasks_after_kill_9_of_explorer_and_database(
    installation, tmp_path
):
    few = ("--slug", "few", "--size", "7", "--seed", "1")
    installation.must("taskset", "generate", "sort", *few, "--project", "demo")
    installation.begin("mixed", tmp_path, taskset=None, tasksets=SHARES, seed=SEED)
    for victim, step in (("explorer", 2), ("postgres", 5)):
        installation.wait(
            f"mixed at step {step}", lambda step=step: installation.step("mixed") >= step
        )
        killed = installation.stack.kill(victim)
        installation.stack.wait_restarted(victim, since=killed, stall_s=PATIENCE_S)
    installation.wait_completed("mixed")
    drawn = installation.sql(DRAWN)
    assert len(drawn) >= 48
    assert drawn == expected(
        SHARES,
        len(drawn),
        lambda slug, nth: draw_position(nth, SIZES[slug], below(2**31, SEED, slug)),
    )
    assert installation.violations() == {}
