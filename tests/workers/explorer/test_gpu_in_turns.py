"""An explorer and a trainer share one GPU in turns: the engine sleeps during each update and wakes
with the new weights.
"""

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from apps.buffer.models import Experience
from apps.pipelines.refining import refine
from apps.rewards.scoring import AnsweredQuestion, open_questions, record_verdicts
from apps.rollouts.models import Group, Rollout
from apps.runs.models import Run, Worker
from tests.workers.trainer.feeding import LEASE, _verdict
from workers import gpu_turns
from workers.engines.interface import EngineDied, LoadReport
from workers.engines.transformers_loop import TransformersEngine
from workers.engines.vllm_options import UnsupportedOption
from workers.explorer import session as sessions
from workers.explorer.loop import ExplorerLoop
from workers.trainer.host import TrainerHost
from workers.trainer.loop import TrainerLoop


class SleepingTransformers(TransformersEngine):
    """A CPU engine that records when it sleeps, wakes and loads."""

    is_asleep = False

    def __init__(self, *args: object, diary: list[str], **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        self.diary = diary

    def sleep(self) -> None:
        assert self.in_flight() == 0
        self.is_asleep = True
        self.diary.append("sleep")

    def wake(self) -> None:
        self.is_asleep = False
        self.diary.append("wake")

    def load(self, folder: Path, version: int, probe: object) -> LoadReport:
        self.is_asleep = False
        self.diary.append(f"load {version}")
        return super().load(folder, version, probe)

    def submit(self, requests: list) -> None:
        assert not self.is_asleep
        super().submit(requests)


@pytest.fixture
def diary(monkeypatch, settings, tmp_path) -> list[str]:
    """Record what engine and trainer do with a GPU, on a machine that has none."""
    told: list[str] = []

    def build(choice: str, **asked: object) -> tuple[SleepingTransformers, str]:
        return SleepingTransformers(asked["temperature"], 0, diary=told), "a test asks for it"

    update = TrainerHost.update

    def noted(host: TrainerHost, *args: object, **kwargs: object) -> object:
        told.append("update")
        return update(host, *args, **kwargs)

    settings.VAR = tmp_path / "var"
    settings.WEIGHTS_ROOT = tmp_path / "weights"
    monkeypatch.setattr(gpu_turns, "visible_gpus", lambda: ["GPU-test"])
    monkeypatch.setattr(sessions, "build_engine", build)
    monkeypatch.setattr(TrainerHost, "update", noted)
    return told


@pytest.fixture
def run(new_run, tiny_policy) -> Run:
    return new_run(
        steps=2,
        group_size=4,
        max_staleness=0,
        sampling={"max_tokens": 6},
        vllm={"sleep_level": 1},
        optimizer={"warmup_steps": 0, "learning_rate": 1e-3},
    )


@pytest.fixture
def both(transactional_db) -> Iterator[tuple[ExplorerLoop, TrainerLoop]]:
    """Create an explorer and a trainer, as in two separate processes."""
    workers = [
        Worker.objects.create(key=f"{role}@test", role=role, host="test", pid=1)
        for role in (Worker.Role.EXPLORER, Worker.Role.TRAINER)
    ]
    explorer = ExplorerLoop(workers[0])
    trainer = TrainerLoop(workers[1])
    yield explorer, trainer
    explorer.stop()
    trainer.stop()


def judge_what_was_sampled(run: Run) -> None:
    scored = Group.objects.claim(Group.State.SCORING, "scorer", LEASE, 1000, run)
    record_verdicts(
        scored, [AnsweredQuestion(asked, [_verdict(asked)]) for asked in open_questions(scored)]
    )
    refine(Group.objects.claim(Group.State.JUDGED, "refiner", LEASE, 1000, run))


def test_the_engine_sleeps_during_each_update_and_wakes_with_its_weights(
    both, run, diary, eventually
):
    explorer, trainer = both

    def is_completed() -> bool:
        explorer.serve()
        judge_what_was_sampled(run)
        trainer.serve()
        run.refresh_from_db()
        return run.state == Run.State.COMPLETED

    eventually(is_completed, 300)
    assert [before for before, act in pairwise(diary) if act == "update"] == ["sleep", "sleep"]
    assert diary.index("load 1") > diary.index("update")
    versions = set(Rollout.objects.filter(run=run).values_list("group__opened_version", flat=True))
    assert versions == {0, 1}


def sampled(both: tuple[ExplorerLoop, TrainerLoop], run: Run, eventually: Callable) -> None:
    explorer, _ = both

    def is_sampled() -> bool:
        explorer.serve()
        judge_what_was_sampled(run)
        return Experience.objects.filter(rollout__run=run).count() == 8

    eventually(is_sampled, 300)


def test_trainer_waits_while_an_engine_holds_the_gpu_and_the_run_shows_it(
    both, run, diary, eventually, settings
):
    _, trainer = both
    sampled(both, run, eventually)
    somebody = gpu_turns.GpuTurn(["GPU-test"], settings.VAR / "run" / "gpu")
    eventually(lambda: both[0].serve() or somebody.take(), 60)
    assert not trainer.serve()
    run.refresh_from_db()
    assert run.waiting_on == gpu_turns.ENGINE_IS_THERE
    somebody.give_back()
    assert trainer.serve()
    assert "update" in diary


def test_engine_that_dies_releases_the_gpu(both, run, diary, monkeypatch, eventually):
    explorer, _ = both

    def dies(engine: SleepingTransformers, timeout: float) -> list:
        raise EngineDied("a test ended it")

    monkeypatch.setattr(SleepingTransformers, "drain", dies)
    turn = gpu_turns.turn_for(run.settings)

    def is_free() -> bool:
        explorer.serve()
        return not explorer.sessions and turn.take()

    assert eventually(is_free, 60)


def test_unsupported_option_pauses_the_run_with_the_field_name(both, run, diary, monkeypatch):
    def refuse(choice: str, **asked: object) -> None:
        raise UnsupportedOption("vllm.tensor_parallel_size: 2 GPUs are more than 1")

    monkeypatch.setattr(sessions, "build_engine", refuse)
    both[0].serve()
    run.refresh_from_db()
    assert (run.state, run.state_reason) == (
        Run.State.PAUSED,
        "vllm.tensor_parallel_size: 2 GPUs are more than 1",
    )
    assert gpu_turns.turn_for(run.settings).take()
