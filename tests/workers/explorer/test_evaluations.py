"""A real explorer samples an evaluation's tasks with the named version, and runs take turns where
there are fewer engines.
"""

import pytest

from apps.dashboard.dry_start import load_dry_start, start_dry_start
from apps.evaluation.asking import start_evaluation
from apps.rollouts.models import Group, Rollout
from apps.runs.evaluation import Questions
from apps.runs.models import Acknowledgement, Run

pytestmark = pytest.mark.django_db(transaction=True)
QUICK = {"engine": "transformers", "sampling": {"max_tokens": 6}}


@pytest.fixture
def evaluation(new_run, tiny_policy) -> Run:
    """Start an evaluation of the base weights of a paused run."""
    run = new_run(**QUICK)
    made, _ = start_evaluation(
        run.weight_versions.get(version=0), Questions(taskset="sort", samples=3)
    )
    run.pause()
    return made


def test_every_task_is_sampled_the_requested_number_of_times_with_the_named_weights(
    evaluation, stage
):
    def sampled() -> bool:
        stage.explorer.serve()
        return Group.objects.filter(run=evaluation, state="scoring").count() == 4

    stage.eventually(sampled, 300)
    rollouts = Rollout.objects.filter(run=evaluation).order_by("pk")
    assert [one.group.task.index for one in rollouts] == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert {(one.state, one.last_version) for one in rollouts} == {("finished", 0)}
    word = Acknowledgement.objects.get(weight_version__run=evaluation)
    assert word.fingerprint == evaluation.evaluates.fingerprint
    stage.explorer.serve()
    assert Group.objects.filter(run=evaluation).count() == 4


def test_a_dry_start_samples_four_replies_to_the_first_task(new_run, tiny_policy, alice, stage):
    like = new_run(**QUICK)
    like.pause()
    dry = start_dry_start(like.project, like.settings, alice)

    def sampled() -> bool:
        stage.explorer.serve()
        return Group.objects.filter(run=dry, state="scoring").exists()

    stage.eventually(sampled, 300)
    replies = [one["rollout"] for one in load_dry_start(dry, alice).replies]
    assert [one.group.task.index for one in replies] == [0, 0, 0, 0]
    assert {one.state for one in replies} == {"finished"}
    assert not Group.objects.filter(run=like).exists()


def test_busy_run_makes_room_for_a_run_without_an_engine(new_run, tiny_policy, stage, settings):
    settings.ENGINES_PER_WORKER = 1
    settings.ENGINE_TURN_SECONDS = 1
    settings.RESIDENT_MEMORY_MB = 0
    greedy = new_run(**{**QUICK, "max_staleness": 1000, "steps": 100_000})
    stage.streaming(tokens=1)
    waiting, _ = start_evaluation(
        greedy.weight_versions.get(version=0), Questions(taskset="sort", samples=2)
    )

    def both_were_served() -> bool:
        stage.explorer.serve()
        return Group.objects.filter(run=waiting, state="scoring").count() == 4

    stage.eventually(both_were_served, 300)
    assert not Rollout.objects.filter(
        run=greedy, group__state="dropped"
    ).exists()  # rollouts in flight ended normally
    before = Rollout.objects.filter(run=greedy).count()

    def greedy_goes_on() -> bool:
        stage.explorer.serve()
        return Rollout.objects.filter(run=greedy).count() > before

    stage.eventually(greedy_goes_on, 300)


def test_run_keeps_its_engine_when_another_worker_serves_the_waiting_run(
    new_run, tiny_policy, stage, settings
):
    settings.ENGINES_PER_WORKER = 1
    settings.ENGINE_TURN_SECONDS = 1
    settings.RESIDENT_MEMORY_MB = 0
    here = new_run(**{**QUICK, "max_staleness": 1000, "steps": 100_000})
    stage.streaming(tokens=1)
    elsewhere, _ = start_evaluation(
        here.weight_versions.get(version=0), Questions(taskset="sort", samples=2)
    )
    Group.open(elsewhere, "another@machine", 300, 4, 0)
    turns = stage.explorer.time_sharing
    turns.taken_at[here.pk] -= 100
    for later in (0.0, 50.0, 100.0):
        turns.look(
            stage.explorer.sessions, list(Run.objects.exploring()), turns.looked_at + later + 1
        )
        assert not turns.over and not turns.waiting_since
