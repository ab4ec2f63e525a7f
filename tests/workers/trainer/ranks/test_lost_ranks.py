"""A process of a run's trainer can die at any moment: the update is repeated and counted once."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from apps.runs.models import Run, TrainStep
from tests.workers.trainer.batches import rows
from tests.workers.trainer.feeding import feed, train_to_the_end
from tests.workers.trainer.ranks.measuring import other_ranks
from workers.trainer import checkpoint
from workers.trainer.batch_queue import LeadingBatchQueue
from workers.trainer.buffer_grpo_trainer import BufferGRPOTrainer
from workers.trainer.host import TRAINERS, TrainerHost
from workers.trainer.launching import RankFailed, RankLost

ROOT = Path(__file__).parents[4]
TWO = {"processes": 2}
CUT = {"micro_batch_rows": 2, "warmup_steps": 0, "learning_rate": 1e-3}


def kill_in_second_micro_batch(monkeypatch, of_update: int = 1) -> list[int]:
    """Kill rank 1 once during an update; return the list of killed process ids."""
    raise_if_interrupted = LeadingBatchQueue.raise_if_interrupted
    killed: list[int] = []
    asked = []

    def kill(batch_queue) -> None:
        asked.append(batch_queue)
        if len(asked) == 2 * of_update and not killed:
            (victim,) = other_ranks()
            victim.kill()
            killed.append(victim.pid)
        raise_if_interrupted(batch_queue)

    monkeypatch.setattr(LeadingBatchQueue, "raise_if_interrupted", kill)
    return killed


def test_killed_process_ends_the_update_and_leaves_no_process(spec, started, monkeypatch):
    host = started(spec(processes=2, micro_batch_rows=3))
    assert host.trainer.ranks.size == 2 and len(other_ranks()) == 1
    host.update(rows(1), save=True)
    killed = kill_in_second_micro_batch(monkeypatch)
    with pytest.raises(RankLost, match="process 1 of the trainer was killed by SIGKILL"):
        host.update(rows(2))
    host.stop()
    assert killed and not other_ranks()
    newest, damage = checkpoint.newest_intact(host.spec.output, max_step=2)
    assert (newest.name, damage) == ("step-00000001", [])


@pytest.mark.nightly
def test_error_of_another_process_is_reported_with_its_message(spec, in_two, started, monkeypatch):
    """The second process does not know this kind of trainer."""
    monkeypatch.setitem(TRAINERS, "unheard of", BufferGRPOTrainer)
    monkeypatch.setattr(TrainerHost, "kind", "unheard of")
    with pytest.raises(RankFailed, match="process 1: KeyError: 'unheard of'"):
        started(in_two(spec()))


@pytest.mark.slow
def test_run_repeats_the_recorded_update_with_new_processes(tiny_run, new_loop, monkeypatch):
    """All six updates count once, and the weights equal those of a run that lost no process."""
    alone = train_to_the_end(new_loop(), tiny_run(optimizer=CUT, trainer=TWO))
    run = tiny_run(optimizer=CUT, trainer=TWO)
    killed = kill_in_second_micro_batch(monkeypatch, of_update=3)
    ended = train_to_the_end(new_loop(), run)
    assert len(killed) == 1
    assert (ended.state, ended.step) == (Run.State.COMPLETED, 6)
    assert set(ended.steps.values_list("state", flat=True)) == {TrainStep.State.COMMITTED}
    assert set(ended.experiences.values_list("uses", flat=True)) == {1}
    (lost,) = ended.topic.events.filter(kind="rank_lost").values_list("payload", flat=True)
    assert "was killed by SIGKILL" in lost["reason"]
    assert ended.weight_versions.first().fingerprint == alone.weight_versions.first().fingerprint


@pytest.mark.nightly
@pytest.mark.slow
def test_run_that_loses_processes_repeatedly_is_paused(tiny_run, new_loop, monkeypatch):
    raise_if_interrupted = LeadingBatchQueue.raise_if_interrupted

    def kill(batch_queue) -> None:
        for victim in other_ranks():
            with suppress(psutil.NoSuchProcess):  # the previous one may end at this moment
                victim.kill()
        raise_if_interrupted(batch_queue)

    monkeypatch.setattr(LeadingBatchQueue, "raise_if_interrupted", kill)
    run = tiny_run(trainer=TWO)
    loop = new_loop()
    feed(run)
    for _ in range(3):
        loop.serve()
    run.refresh_from_db()
    assert (run.state, run.step) == (Run.State.PAUSED, 0)
    assert "process 1 of the trainer was killed by SIGKILL" in run.state_reason


KILLED_ITSELF = """
import os, signal, sys
from pathlib import Path
from tests.workers.trainer.batches import rows
from tests.workers.trainer.ranks.measuring import other_ranks
from workers.trainer.batch_queue import LeadingBatchQueue
from workers.trainer.host import TrainerHost
from workers.trainer.spec import TrainerSpec

host = TrainerHost(TrainerSpec(Path(sys.argv[1]), Path(sys.argv[2]), 8, 12, warmup_steps=0,
                               micro_batch_rows=3, processes=2, sharding="fsdp2"))
host.start()
host.update(rows(1), save=True)
print(*(one.pid for one in other_ranks()), flush=True)
raise_if_interrupted = LeadingBatchQueue.raise_if_interrupted
asked = []

def die(batch_queue):
    asked.append(batch_queue)
    if len(asked) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    raise_if_interrupted(batch_queue)

LeadingBatchQueue.raise_if_interrupted = die
host.update(rows(2))
"""


@pytest.mark.nightly
@pytest.mark.slow
def test_other_processes_end_when_rank_0_is_killed_during_an_update(
    base, tmp_path, eventually, spec, started
):
    command = [sys.executable, "-c", KILLED_ITSELF, str(base), str(tmp_path / "two")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, timeout=600
    )
    assert done.returncode == -signal.SIGKILL
    (pid,) = map(int, done.stdout.split()[-1:])
    assert eventually(lambda: not psutil.pid_exists(pid))
    newest, damage = checkpoint.newest_intact(tmp_path / "two", max_step=2)
    assert (newest.name, damage) == ("step-00000001", [])
    straight = started(spec(output=tmp_path / "one"))
    wanted = [straight.update(rows(step)).metrics["loss"] for step in (1, 2)]
    again = started(spec(output=tmp_path / "two"), newest)
    assert again.update(rows(2)).metrics["loss"] == pytest.approx(wanted[1], abs=1e-6)
