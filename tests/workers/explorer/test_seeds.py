"""No two samples of a run share random numbers, whichever explorer samples them, and a repeated
run samples the same replies.
"""

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from django.db import connection

from apps.rollouts.models import Group, Rollout
from apps.runs.models import Run, Worker
from workers.explorer import loop

pytestmark = pytest.mark.django_db(transaction=True)
ROOT = Path(__file__).parents[3]
LONG = 8  # tokens: equal replies of this length do not occur by chance
SAMPLING = {"max_tokens": 40}


@pytest.fixture
def make_run(new_run, tiny_policy) -> Callable[..., Run]:
    """Return a function that creates runs of 6 groups of 4 that may all be open at once."""

    def make(**sampling: object) -> Run:
        return new_run(
            sampling={**SAMPLING, **sampling},
            engine="transformers",
            group_size=4,
            groups_per_step=6,
            max_staleness=0,
        )

    return make


@pytest.fixture
def explorers(settings, monkeypatch) -> Callable[[], loop.ExplorerLoop]:
    settings.LEASE_SECONDS = 300
    monkeypatch.setattr(loop, "DRAIN_SECONDS", 0.005)
    monkeypatch.setattr(
        loop, "ROLLOUTS_IN_FLIGHT", 8
    )  # two groups at a time: the rest is left to other explorers
    made: list[loop.ExplorerLoop] = []

    def make() -> loop.ExplorerLoop:
        key = f"explorer-{len(made)}@test"
        made.append(
            loop.ExplorerLoop(Worker.objects.create(key=key, role="explorer", host="test", pid=1))
        )
        return made[-1]

    yield make
    for explorer in made:
        explorer.stop()


def sample_all(run: Run, eventually, *explorers: loop.ExplorerLoop) -> None:
    def ended() -> bool:
        for explorer in explorers:
            explorer.serve()
        return run.groups.count() == 6 and not run.groups.filter(state="sampling").exists()

    eventually(ended, 300)


def replies(run: Run) -> dict[tuple[int, int], tuple[int, ...]]:
    """Return the sampled tokens by draw and sample index."""
    rows = Rollout.objects.filter(run=run, state="finished").select_related("group", "payload")
    return {(row.group.draw_index, row.sample_index): row.tokens.completion_ids for row in rows}


def copies(run: Run) -> int:
    said = Counter(ids for ids in replies(run).values() if len(ids) >= LONG)
    assert len(said) > 6, "too few long replies to compare"
    return sum(said.values()) - len(said)


def test_two_explorers_together_sample_no_copies_and_the_same_replies_as_one(
    make_run, explorers, eventually
):
    first = explorers()
    second = explorers()
    third = explorers()
    run = make_run()
    sample_all(run, eventually, first, second)
    assert len(set(run.groups.filter(rollouts__state="finished").values_list("pk", flat=True))) == 6
    assert copies(run) == 0
    run.stop()
    again = make_run()
    sample_all(again, eventually, third)
    assert replies(again) == replies(run)


def test_restarted_engine_samples_no_copies(make_run, explorers, eventually):
    first = explorers()
    second = explorers()
    run = make_run()

    def some_are_in() -> bool:
        first.serve()
        return run.groups.exclude(state="sampling").exists()

    eventually(some_are_in, 300)
    first.stop()
    sample_all(run, eventually, second)
    assert copies(run) == 0


def test_reply_in_slices_equals_the_reply_in_one_piece(make_run, explorers, eventually):
    whole = make_run()
    sliced = None
    sample_all(whole, eventually, explorers())
    whole.stop()
    sliced = make_run(slice_tokens=8)
    sample_all(sliced, eventually, explorers(), explorers())
    assert replies(sliced) == replies(whole)


def test_explorer_after_kill_9_of_another_samples_no_copies(make_run, explorers, eventually):
    run = make_run()
    command = [
        sys.executable,
        "-m",
        "tests.workers.explorer.mortal_explorer",
        connection.settings_dict["NAME"],
        "begun",
    ]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as mortal:
        try:
            assert mortal.stdout.readline() == "begun\n"
        finally:
            os.kill(mortal.pid, signal.SIGKILL)
    before = replies(run)
    assert before
    Group.objects.filter(lease_owner="mortal").update(lease_until="2020-01-01T00:00:00Z")
    sample_all(run, eventually, explorers())
    assert before.items() <= replies(run).items() and len(replies(run)) == 24
    assert copies(run) == 0


def test_attempt_after_a_failure_gives_different_replies(make_run, explorers, eventually):
    def of_attempt(count: int) -> dict[tuple[int, int], tuple[int, ...]]:
        run = make_run()
        explorer = explorers()
        Group.open(run, "gone", 300, 6, 0)
        Group.objects.filter(run=run).update(attempts=count, lease_owner="", lease_until=None)
        sample_all(run, eventually, explorer)
        run.stop()
        return replies(run)

    first = of_attempt(0)
    second = of_attempt(1)
    assert not [key for key in first if len(first[key]) >= LONG and first[key] == second[key]]
