"""Interventions pass through the whole system: sampled by a real engine, scored by the real
grader, refined, trained.
"""

import pytest

from apps.buffer.models import Experience
from apps.feedback.models import Demonstration, Preference
from apps.rewards.models import Reward
from apps.rollouts.models import Rollout
from apps.rollouts.turns import list_turns, said_by_policy
from apps.runs.models import Run, Worker
from workers import refiner, scorer, scorer_dispatch
from workers.trainer.loop import TrainerLoop
from workers.trainer.run_trainer import build_training_row

pytestmark = pytest.mark.django_db(transaction=True)
BEGUN = "I am so sorry about your lamp."
POLITE = f"{BEGUN} We will gladly repair your lamp today. Have a lovely day!"


@pytest.fixture(autouse=True)
def fresh_workers():
    for worker in (scorer, refiner):
        worker.own_worker_row.cache_clear()
    yield
    if scorer_dispatch.grader.cache_info().currsize:
        scorer_dispatch.grader().stop()
        scorer_dispatch.grader.cache_clear()


@pytest.fixture
def trainer(transactional_db, settings, tmp_path):
    settings.WEIGHTS_ROOT = tmp_path / "weights"
    made = TrainerLoop(
        Worker.objects.create(key="trainer@test", role=Worker.Role.TRAINER, host="test", pid=2)
    )
    yield made
    made.stop()


def train_once(stage, trainer: TrainerLoop, run: Run) -> None:
    """Sample all groups that the run may open, score them, and make the first update."""
    stage.eventually(lambda: not stage.explorer.serve(), 300)
    while scorer.serve() or refiner.serve():
        pass

    def stepped() -> bool:
        trainer.serve()
        run.refresh_from_db()
        return run.step == 1

    stage.eventually(stepped, 300)


def test_policys_tokens_of_an_edited_rollout_are_trained_and_typed_ones_are_not(
    tone_run, stage, alice, trainer
):
    edited, stopped = stage.caught(2, alice)
    assert stage.ask(alice, edited, "edit", BEGUN).state == "done"
    assert stage.ask(alice, stopped, "stop").state == "done"
    train_once(stage, trainer, tone_run)
    trained = {e.rollout_id: e for e in Experience.objects.filter(state=Experience.State.TRAINED)}
    assert len(trained) == 8 and {edited.rollout_id, stopped.rollout_id} <= set(trained)
    row = build_training_row(trained[edited.rollout_id])
    typed = [
        token for token, mask in zip(row.completion_ids, row.action_mask, strict=True) if not mask
    ]
    assert 1 <= len(typed) <= 8 and set(stage.session.chat_tokenizer.text(typed).split()) <= set(
        BEGUN.replace(".", " .").split()
    ) | {"lamp."}
    assert sum(row.action_mask) == len(row.completion_ids) - len(typed) > 0
    said = Reward.objects.get(rollout=edited.rollout_id, scorer="tone")
    assert said.details["manners"][0] == "polite"


def test_completely_typed_answer_becomes_a_demonstration_and_no_experience(
    tone_run, stage, alice, trainer
):
    (typed,) = stage.caught(1, alice)
    act = stage.ask(alice, typed, "seat", POLITE)
    train_once(stage, trainer, tone_run)
    assert Reward.objects.get(rollout=typed.rollout_id, scorer="tone").value == 1.0
    assert (
        not Experience.objects.filter(rollout=typed.rollout_id).exists()
        and Experience.objects.count() == 7
    )
    demonstration = Demonstration.objects.get()
    preference = Preference.objects.get()
    task = Rollout.objects.get(pk=typed.rollout_id).group.task
    assert (demonstration.answer, demonstration.author, demonstration.task) == (POLITE, alice, task)
    assert (preference.chosen, preference.rejected) == (POLITE, act.before) and act.before


def test_dialogue_is_scored_turn_by_turn_and_only_the_policys_turns_are_trained(
    tone_run, stage, alice, trainer, taskset
):
    taskset.tasks.update(follow_ups=["Hello, my session is broken."])
    (in_flight,) = stage.caught(1, alice)
    assert stage.ask(alice, in_flight, "seat", POLITE).state == "done"
    train_once(stage, trainer, tone_run)
    rollout = Rollout.objects.get(pk=in_flight.rollout_id)
    turns = list_turns(rollout)
    assert [turn.role for turn in turns] == ["assistant", "user", "assistant"]
    assert [turn.text for turn in turns[:2]] == [POLITE, "Hello, my session is broken."]
    replies = Reward.objects.get(rollout=rollout, scorer="tone_dialogue").details["replies"]
    assert (
        replies[0]["value"] == 1.0
        and len(replies) == len(said_by_policy(rollout.text, rollout.turns)) == 2
    )
    experience = Experience.objects.get(rollout=rollout)
    mask = build_training_row(experience).action_mask
    assert experience.state == Experience.State.TRAINED
    assert mask == (0,) * turns[2].first_token + (1,) * turns[2].tokens
    # The typed turn answers only the first message, so it is not a complete answer to this
    # dialogue task.
    lesson = Demonstration.objects.get()
    assert (lesson.answer, lesson.prompt, lesson.task) == (
        POLITE,
        [{"role": "user", "content": "My lamp is late."}],
        None,
    )
