"""A run with a curriculum, refilling filters, demonstrations and replay: kill -9 of any process
changes none of its counts.
"""

import json
import random
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import pytest

from tests.stack.conftest import FURNISH, PATIENCE_S, Installation, running
from tests.warm_policies import warm_policy

pytestmark = [pytest.mark.nightly, pytest.mark.stack, pytest.mark.slow]
TASKS = 120
HARD_FROM = 6
STEPS = 20
VICTIMS = ("explorer", "scorer", "refiner", "trainer", "beat", "web", "valkey", "postgres")
# Every weight version samples for two steps, and its rollouts are too old for later ones: the
# second of the two steps replays one group of the first, so that no count depends on which worker
# was faster.
PLAN = {
    "policy": "sort",
    "taskset": "levels",
    "steps": STEPS,
    "group_size": 4,
    "groups_per_step": 4,
    "sync_interval": 2,
    "max_staleness": 0,
    "sampling": {"max_tokens": 8},
    "selection": {
        "name": "curriculum",
        "scale": "level",
        "from_step": HARD_FROM,
        "hard_share": 0.5,
    },
    "pipeline": [
        {"operator": "truncated", "options": {"action": "mask"}},
        {"operator": "dynamic_sampling"},
    ],
    "reading": {
        "order": "priority",
        "replay": {"name": "prioritized", "share": 0.25, "max_uses": 2},
    },
    "algorithm": {"name": "mix", "expert": {"ratio": 0.2, "mu": 0.1, "source": "buffer"}},
}
PER_STEP = """
    SELECT s.number, count(DISTINCT o.group_id) FILTER (WHERE e.kind = 'usual' AND NOT i.is_again),
           count(DISTINCT o.group_id) FILTER (WHERE i.is_again),
               count(*) FILTER (WHERE e.kind = 'expert')
    FROM runs_trainstep s JOIN runs_run r ON r.id = s.run_id
        JOIN buffer_stepitem i ON i.step_id = s.id
    JOIN buffer_experience e ON e.id = i.experience_id
        JOIN rollouts_rollout o ON o.id = e.rollout_id
    WHERE r.slug = %s AND s.state = 'committed' GROUP BY s.number ORDER BY s.number"""
COUNTERS = "SELECT state, step, published_version, groups_again FROM runs_run WHERE slug = %s"
DROPPED = (
    "SELECT count(*) FROM rollouts_group g JOIN runs_run r ON r.id = g.run_id WHERE r.slug = %s AND"
    " g.state = 'dropped'"
)
LATE_LEVELS = """SELECT min((t.meta->>'level')::int)
    FROM rollouts_group g JOIN runs_run r ON r.id = g.run_id
                 JOIN tasksets_task t ON t.id = g.task_id
                     WHERE r.slug = %s AND g.draw_index >= %s"""
MEDIAN_LEVEL = """SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY (t.meta->>'level')::int)
                  FROM tasksets_task t JOIN tasksets_taskset s ON s.id = t.taskset_id
                      WHERE s.slug = 'levels'"""


@pytest.fixture(scope="module")
def furnished(tmp_path_factory) -> Iterator[Installation]:
    """Create the demo's policy, tasks with their distance from sorted order, and a demonstration
    of each.
    """
    folder = tmp_path_factory.mktemp("furniture")
    with running(tmp_path_factory.mktemp("var")) as installation:
        policy = warm_policy("sort")
        installation.must("shell", "-c", FURNISH.replace('"tiny"', '"sort"') % str(policy))
        tasks, shown = _written(folder)
        installation.must(
            "taskset",
            "import",
            str(tasks),
            "--slug",
            "levels",
            "--prompt",
            "prompt",
            "--answer",
            "answer",
            "--answer-key",
            "sorted",
            "--meta",
            "level",
        )
        installation.must("demonstrations", "import", str(shown), "--taskset", "levels")
        yield installation


def _written(folder: Path) -> tuple[Path, Path]:
    numbers = [f"{number:05d}" for number in random.Random(0).sample(range(10**5), TASKS)]
    tasks = folder / "tasks.jsonl"
    shown = folder / "shown.jsonl"
    rows = [
        {"prompt": digits, "answer": "".join(sorted(digits)), "level": _inversions(digits)}
        for digits in numbers
    ]
    tasks.write_text("".join(json.dumps(row) + "\n" for row in rows))
    shown.write_text(
        "".join(
            json.dumps({"prompt": row["prompt"], "answer": row["answer"]}) + "\n" for row in rows
        )
    )
    return tasks, shown


def _inversions(digits: str) -> int:
    return sum(left > right for left, right in combinations(digits, 2))


def kill(installation: Installation, victim: str) -> None:
    if victim == "valkey":
        # otherwise it would restore its data from its file
        installation.empty_redis()
    killed = installation.stack.kill(victim)
    installation.stack.wait_restarted(victim, since=killed, stall_s=PATIENCE_S)


def test_run_whose_processes_are_all_killed_has_the_counts_of_an_undisturbed_run(
    furnished, tmp_path
):
    furnished.begin("calm", tmp_path, **PLAN)
    furnished.wait_completed("calm")
    furnished.begin("killed", tmp_path, **PLAN)
    for number, victim in enumerate(VICTIMS):
        furnished.wait(
            f"at step {2 * number + 1}", lambda at=2 * number + 1: furnished.step("killed") >= at
        )
        kill(furnished, victim)
    furnished.wait_completed("killed")
    assert furnished.violations() == {}
    assert (
        furnished.sql(COUNTERS, "killed")
        == furnished.sql(COUNTERS, "calm")
        == [("completed", STEPS, STEPS // 2, STEPS // 2)]
    )
    expected = [(step, 4 if step % 2 else 3, 1 - step % 2, 4) for step in range(1, STEPS + 1)]
    assert furnished.sql(PER_STEP, "killed") == furnished.sql(PER_STEP, "calm") == expected


def test_filter_drops_groups_and_curriculum_reaches_hard_tasks(furnished):
    for slug in ("calm", "killed"):
        assert furnished.one(DROPPED, slug) > 0
        assert furnished.one(
            LATE_LEVELS, slug, HARD_FROM * PLAN["groups_per_step"]
        ) >= furnished.one(MEDIAN_LEVEL)
