"""Runs share an explorer's engines: runs with work come first; engines stay loaded if possible."""

from collections import Counter

import pytest

from apps.environments.models import Episode
from apps.evaluation.asking import start_evaluation
from apps.rollouts.models import Group
from apps.runs.evaluation import Questions
from apps.runs.models import Run
from tests.serving import SERVED, asked
from workers.explorer import loop as loop_module
from workers.explorer.session import RunSession
from workers.trainer.metrics import describe_missing_groups

pytestmark = pytest.mark.django_db(transaction=True)
QUICK = {"engine": "transformers", "sampling": {"max_tokens": 4}, "max_staleness": 0}


@pytest.fixture
def small_run(new_run, tiny_policy):
    """Return a function that creates runs of two groups per step, which wait for a trainer."""
    return lambda **changes: new_run(**{**QUICK, **changes})


@pytest.fixture
def little_room(settings):
    settings.ENGINES_PER_WORKER = 2
    settings.RESIDENT_MEMORY_MB = 0
    return settings


@pytest.fixture
def built(monkeypatch) -> list[int]:
    """Return the ids of the runs for which an engine was built, in order."""
    runs: list[int] = []
    real = RunSession.take

    def note(run, worker, gpu) -> RunSession:
        runs.append(run.pk)
        return real(run, worker, gpu)

    monkeypatch.setattr(RunSession, "take", note)
    return runs


def wait_for_people(run: Run) -> None:
    """Let all groups that the run may open wait for people."""
    opened = Group.open(run, "another", 60, 1000, 0)
    held = Group.objects.filter(pk__in=[group.pk for group in opened])
    held.update(state=Group.State.WAITING, lease_owner="", lease_until=None)


def sampled(run: Run) -> int:
    return Group.objects.filter(run=run, state=Group.State.SCORING).count()


def served_until(stage, is_so) -> None:
    def look() -> bool:
        stage.explorer.serve()
        return is_so()

    stage.eventually(look, 300)


def test_no_engine_is_built_for_a_run_that_has_nothing_to_sample(
    small_run, stage, little_room, built, monkeypatch
):
    monkeypatch.setattr(loop_module, "QUIET_SECONDS", 0.0)
    waiting = [small_run() for _ in range(9)]
    working = [small_run() for _ in range(3)]
    for run in waiting:
        wait_for_people(run)
    served_until(stage, lambda: [sampled(run) for run in working] == [2, 2, 2])
    assert Counter(built) == {run.pk: 1 for run in working}
    assert len(stage.explorer.sessions) == 2


def test_engines_stay_loaded_while_memory_allows(small_run, stage, settings, built):
    settings.ENGINES_PER_WORKER = 1
    settings.RESIDENT_MEMORY_MB = 1024
    runs = [small_run() for _ in range(4)]
    served_until(stage, lambda: [sampled(run) for run in runs] == [2, 2, 2, 2])
    Run.objects.update(groups_dropped=2)  # so that each may open as many again
    served_until(stage, lambda: [sampled(run) for run in runs] == [4, 4, 4, 4])
    assert Counter(built) == {run.pk: 1 for run in runs}


@pytest.mark.slow
def test_twelve_runs_that_always_have_work_take_turns(small_run, stage, little_room, built):
    little_room.ENGINE_TURN_SECONDS = 1
    runs = [small_run(max_staleness=1000, steps=100_000) for _ in range(12)]
    served_until(stage, lambda: all(sampled(run) for run in runs))
    # no run gets a second turn before each had one
    assert sorted(built[:12]) == sorted(run.pk for run in runs)


def test_engine_is_not_rebuilt_within_a_turn_and_the_run_shows_that_it_waits(
    small_run, stage, settings, built, monkeypatch
):
    settings.ENGINES_PER_WORKER = 1
    settings.RESIDENT_MEMORY_MB = 0
    monkeypatch.setattr(loop_module, "QUIET_SECONDS", 0.0)
    monkeypatch.setattr(loop_module, "REPORT_SECONDS", 0.0)
    first = small_run()
    served_until(stage, lambda: sampled(first) == 2)
    second = small_run()
    served_until(stage, lambda: sampled(second) == 2)
    Run.objects.filter(pk=first.pk).update(groups_dropped=2)
    for _ in range(5):
        stage.explorer.looked_at = 0.0
        stage.explorer.serve()
    assert Counter(built) == {first.pk: 1, second.pk: 1}
    Group.objects.filter(run=first).delete()
    cause = "2 more groups (waiting for an engine: its last one was built less than 60 s ago)"
    assert describe_missing_groups(first) == cause
    stage.explorer.made_way[first.pk] -= 60  # the turn is over
    served_until(stage, lambda: sampled(first) == 2)
    assert built.count(first.pk) == 2


def test_run_with_work_keeps_its_turn_and_a_waiting_run_names_the_holders(
    small_run, stage, settings, monkeypatch
):
    settings.ENGINES_PER_WORKER = 1
    settings.RESIDENT_MEMORY_MB = 0
    settings.ENGINE_TURN_SECONDS = 1
    monkeypatch.setattr(loop_module, "REPORT_SECONDS", 0.0)
    greedy = small_run(max_staleness=1000, steps=100_000)
    stage.streaming(tokens=1)
    waiting, _ = start_evaluation(
        greedy.weight_versions.get(version=0), Questions(taskset="sort", samples=1)
    )
    stage.explorer.looked_at = 0.0
    stage.explorer.serve()
    waiting.refresh_from_db()
    assert waiting.waiting_on == f"an engine: 1 of 1 are used by {greedy.slug}"
    served_until(stage, lambda: sampled(waiting) == 4)
    waiting.refresh_from_db()
    assert waiting.waiting_on == ""


def test_serving_run_gets_an_engine_before_its_first_call_only_where_a_slot_is_free(
    small_run, new_run, stage, little_room, alice
):
    busy = [small_run(max_staleness=1000, steps=100_000)]
    callers = new_run(
        **SERVED, serve={}, engine="transformers", sampling={"max_tokens": 4}, max_staleness=9
    )
    served_until(stage, lambda: callers.pk in stage.explorer.sessions)
    late = new_run(
        **SERVED, serve={}, engine="transformers", sampling={"max_tokens": 4}, max_staleness=9
    )
    for _ in range(3):
        stage.explorer.looked_at = 0.0
        stage.explorer.serve()
    assert set(stage.explorer.sessions) == {busy[0].pk, callers.pk}
    assert late.pk not in stage.explorer.without_engine
    episode = asked(callers, alice)
    served_until(
        stage,
        lambda: Episode.objects.get(pk=episode.pk).seen.filter(answered_at__isnull=False).exists(),
    )
