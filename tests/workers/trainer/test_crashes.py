"""Wherever a trainer dies, the next one reaches exactly the same weights."""

import shutil
from pathlib import Path

import pytest

from apps.runs.models import Run, StaleFence, TrainStep, WeightVersion
from tests.workers.trainer.feeding import feed, train_to_the_end
from workers.trainer.run_trainer import RunTrainer


class Killed(BaseException):
    """Simulates kill -9: nothing catches it and nothing is cleaned up."""


# The method in which the trainer dies during its fourth step, and the step that is then committed
# in the database.
POINTS = {
    "after planning": ("_update", 3),
    "after the update, before saving": ("_stage", 3),
    "after renaming, before the commit": ("_commit", 3),
    "after the commit, before publishing": ("_offer", 4),
}

ENDINGS: list[str] = []


@pytest.fixture
def undisturbed(tiny_run, new_loop) -> str:
    """Return the last weights of an undisturbed run; they are equal for all tests, so made once."""
    if not ENDINGS:
        run = train_to_the_end(new_loop(), tiny_run())
        ENDINGS.append(run.weight_versions.first().fingerprint)
    return ENDINGS[0]


def lapse(run: Run) -> None:
    """Let the dead trainer's lease expire."""
    Run.objects.filter(pk=run.pk).update(lease_until="2000-01-01T00:00Z")


def kill_in_step(loop, run, number: int, method: str, monkeypatch) -> None:
    original = getattr(RunTrainer, method)

    def die(trainer, *args):
        if trainer.run.pk == run.pk and run.steps.filter(number=number).exists():
            raise Killed
        return original(trainer, *args)

    with monkeypatch.context() as patch:
        patch.setattr(RunTrainer, method, die)
        with pytest.raises(Killed):
            train_to_the_end(loop, run)
    lapse(run)


@pytest.mark.parametrize("point", POINTS)
def test_run_reaches_the_same_weights_when_its_trainer_is_killed(
    tiny_run, new_loop, monkeypatch, undisturbed, point
):
    method, committed = POINTS[point]
    run = tiny_run()
    kill_in_step(new_loop(), run, 4, method, monkeypatch)
    run.refresh_from_db()
    assert run.step == committed
    run = train_to_the_end(new_loop(), run)
    assert (run.state, run.step, run.published_version) == (Run.State.COMPLETED, 6, 6)
    assert run.weight_versions.first().fingerprint == undisturbed
    assert set(run.steps.values_list("state", flat=True)) == {TrainStep.State.COMMITTED}
    assert set(run.experiences.values_list("uses", flat=True)) == {1}


def test_planned_batch_is_kept_after_the_planning_trainer_dies(tiny_run, new_loop, monkeypatch):
    run = tiny_run()
    kill_in_step(new_loop(), run, 4, "_update", monkeypatch)
    planned = list(
        run.steps.get(number=4).items.order_by("position").values_list("experience", flat=True)
    )
    feed(run)
    new_loop().serve()
    step = run.steps.get(number=4)
    assert step.state == TrainStep.State.COMMITTED
    assert list(step.items.order_by("position").values_list("experience", flat=True)) == planned


def test_replayed_steps_change_no_row(tiny_run, new_loop, monkeypatch):
    run = tiny_run()
    kill_in_step(new_loop(), run, 4, "_update", monkeypatch)

    def rows() -> list[dict]:
        return [
            *run.steps.filter(number__lte=3).order_by("number").values(),
            *run.metrics.filter(step__lte=3).order_by("pk").values(),
        ]

    before = rows()
    new_loop().serve()
    assert run.steps.get(number=4).state == TrainStep.State.COMMITTED
    assert rows() == before


def test_weight_folder_without_a_row_is_deleted(tiny_run, new_loop, monkeypatch, settings):
    run = tiny_run()
    kill_in_step(new_loop(), run, 4, "_commit", monkeypatch)
    orphan = next((settings.WEIGHTS_ROOT / f"run-{run.pk}").glob("v000004-f1"))
    new_loop().serve()
    assert not orphan.exists()


def test_trainer_with_an_expired_lease_commits_nothing(
    tiny_run, new_loop, monkeypatch, undisturbed
):
    run = tiny_run()
    asleep = new_loop()
    successor = new_loop()
    feed(run)
    asleep.serve()
    feed(run)
    original = RunTrainer._commit
    slept = []

    def sleep_before_committing(trainer, *args):
        """Simulate SIGSTOP until after the lease: another trainer finishes the step meanwhile."""
        if trainer.fence == 1 and not slept:
            slept.append(True)
            lapse(run)
            assert successor.serve()
        return original(trainer, *args)

    monkeypatch.setattr(RunTrainer, "_commit", sleep_before_committing)
    assert not asleep.serve()
    assert slept and not asleep.run_trainers
    run.refresh_from_db()
    assert (run.step, run.fence, run.steps.get(number=2).fence) == (2, 2, 2)
    assert train_to_the_end(successor, run).weight_versions.first().fingerprint == undisturbed


def test_trainer_with_an_expired_lease_publishes_nothing(tiny_run, new_loop):
    run = tiny_run()
    loop = new_loop()
    feed(run)
    loop.serve()
    trainer = loop.run_trainers[run.pk]
    WeightVersion.objects.filter(run=run, version=1).update(state=WeightVersion.State.STAGED)
    Run.objects.filter(pk=run.pk).update(published_version=0)
    lapse(run)
    trainer.run.refresh_from_db()
    with pytest.raises(StaleFence):
        trainer._offer()
    assert run.weight_versions.get(version=1).state == WeightVersion.State.STAGED


def test_expired_lease_is_acquired_again(tiny_run, new_loop):
    run = tiny_run()
    loop = new_loop()
    feed(run)
    loop.serve()
    lapse(run)
    loop.lease_renewer.renew()
    assert loop.lease_renewer.lost == {run.pk}
    feed(run)
    assert loop.serve()
    run.refresh_from_db()
    assert (run.step, run.fence) == (2, 2)


def test_damaged_staged_weights_are_written_again(tiny_run, new_loop, monkeypatch):
    run = tiny_run()
    kill_in_step(new_loop(), run, 4, "_offer", monkeypatch)
    version = run.weight_versions.get(version=4)
    assert version.state == WeightVersion.State.STAGED
    path = Path(version.folder) / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-9])
    new_loop().serve()
    version.refresh_from_db()
    assert version.state == WeightVersion.State.PUBLISHED
    assert version.folder.endswith("v000004-f2")


def test_checkpoint_of_a_step_whose_plan_the_database_lost_is_written_again(
    tiny_run, new_loop, monkeypatch, settings
):
    run = tiny_run()
    kill_in_step(new_loop(), run, 4, "_stage", monkeypatch)
    folder = settings.WEIGHTS_ROOT / f"run-{run.pk}" / "checkpoints" / "step-00000004"
    lost = (folder / "checkpoint.json").read_text()
    lost_step = run.steps.get(number=4)
    run.experiences.filter(step_items__step=lost_step).update(state="ready")
    lost_step.delete()
    run.change_config(None, optimizer={"learning_rate": 0.123})
    kill_in_step(new_loop(), run, 5, "_update", monkeypatch)
    assert run.steps.get(number=4).state == TrainStep.State.COMMITTED
    assert (folder / "checkpoint.json").read_text() != lost


def test_damaged_checkpoint_is_skipped_and_reported(
    tiny_run, new_loop, monkeypatch, settings, undisturbed
):
    run = tiny_run()
    kill_in_step(new_loop(), run, 5, "_update", monkeypatch)
    newest = settings.WEIGHTS_ROOT / f"run-{run.pk}" / "checkpoints" / "step-00000004"
    (newest / "optimizer.pt").write_bytes(b"")
    assert train_to_the_end(new_loop(), run).weight_versions.first().fingerprint == undisturbed
    assert (
        "step-00000004/optimizer.pt"
        in run.topic.events.get(kind="checkpoint_damaged").payload["reason"]
    )


def test_run_without_an_intact_checkpoint_pauses_and_names_the_file(
    tiny_run, new_loop, monkeypatch, settings
):
    run = tiny_run()
    kill_in_step(new_loop(), run, 5, "_update", monkeypatch)
    root = settings.WEIGHTS_ROOT / f"run-{run.pk}" / "checkpoints"
    for folder in root.glob("step-*"):
        (folder / "optimizer.pt").write_bytes(b"")
    new_loop().serve()
    run.refresh_from_db()
    assert run.state == Run.State.PAUSED
    assert "step-00000004/optimizer.pt" in run.state_reason
    shutil.rmtree(root)
    run.resume()
    assert train_to_the_end(new_loop(), run).state == Run.State.COMPLETED
