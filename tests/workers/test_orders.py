"""Drained workers finish their work, quarantined ones release it at once, and both continue when
they are told to serve.
"""

import os

import pytest

from apps.policies.manifest import read_manifest
from apps.policies.models import Policy
from apps.rewards.fencing import quarantine
from apps.rollouts.models import Group, Rollout
from apps.runs import code_versions
from apps.runs.models import Run, Worker
from apps.runs.resource_usage import Sampler
from apps.runs.worker_registry import WorkerRegistration
from tests.workers.trainer.feeding import feed
from workers import refiner, scorer
from workers.explorer.loop import ExplorerLoop
from workers.policies.tiny import build_tiny
from workers.trainer.loop import TrainerLoop

DRAIN = Worker.Order.DRAIN
SERVE = Worker.Order.SERVE


@pytest.fixture
def tiny_run(transactional_db, new_run, policy, tmp_path, settings) -> Run:
    """Create a run of a real untrained policy: 2 groups of 4 per step."""
    settings.WEIGHTS_ROOT = tmp_path / "weights"
    build_tiny(tmp_path / "base")
    manifest = read_manifest(tmp_path / "base")
    Policy.objects.filter(pk=policy.pk).update(
        folder=str(tmp_path / "base"), fingerprint=manifest.fingerprint
    )
    policy.refresh_from_db()
    return new_run(group_size=4, engine="transformers", optimizer={"warmup_steps": 0})


def told(worker: Worker, order: str, admin) -> None:
    """Store an order, and read it as the worker does with its next heartbeat."""
    Worker.objects.get(pk=worker.pk).tell(order, admin)
    worker.order = worker.beat()


def a_worker(role: str) -> Worker:
    return Worker.objects.create(key=f"{role}@test", role=role, host="test", pid=1)


@pytest.fixture
def trainer(tiny_run):
    made = TrainerLoop(a_worker(Worker.Role.TRAINER))
    yield made
    made.stop()


@pytest.fixture
def explorer(tiny_run):
    made = ExplorerLoop(a_worker(Worker.Role.EXPLORER))
    yield made
    made.stop()


def test_drained_trainer_releases_its_runs_and_claims_them_again_when_it_serves(
    trainer, tiny_run, admin
):
    feed(tiny_run)
    assert trainer.serve()
    told(trainer.worker, DRAIN, admin)
    feed(tiny_run)
    assert not trainer.serve() and not trainer.run_trainers
    tiny_run.refresh_from_db()
    assert (tiny_run.step, tiny_run.lease_owner) == (1, "")
    told(trainer.worker, SERVE, admin)
    assert trainer.serve()
    tiny_run.refresh_from_db()
    assert tiny_run.step == 2


def test_quarantined_trainer_commits_no_step(trainer, tiny_run, admin):
    feed(tiny_run)
    trainer.serve()
    quarantine(
        Worker.objects.get(pk=trainer.worker.pk), admin
    )  # and the worker does not know it yet
    feed(tiny_run)
    assert not trainer.serve()
    tiny_run.refresh_from_db()
    assert (tiny_run.step, tiny_run.state, trainer.run_trainers) == (1, Run.State.RUNNING, {})


def test_drained_explorer_finishes_its_rollouts_and_opens_none(
    explorer, tiny_run, admin, eventually
):
    explorer.serve()
    opened = Group.objects.count()
    assert opened
    told(explorer.worker, DRAIN, admin)
    Run.objects.filter(pk=tiny_run.pk).update(published_version=0, groups_dropped=0)
    tiny_run.change_config(admin, max_staleness=9)

    def has_left() -> bool:
        explorer.looked_at = 0.0
        explorer.serve()
        return not explorer.sessions

    eventually(has_left, 300)
    assert Group.objects.count() == opened
    assert set(Rollout.objects.values_list("state", flat=True)) == {Rollout.State.FINISHED}


def test_quarantined_explorer_releases_its_groups_and_writes_no_rollout(explorer, tiny_run, admin):
    explorer._look_for_work()  # opens groups without reading tokens
    held = Group.objects.filter(lease_owner=explorer.worker.key).count()
    assert held and quarantine(Worker.objects.get(pk=explorer.worker.pk), admin)["groups"] == held
    explorer.worker.refresh_from_db()
    assert not explorer.serve() and not explorer.sessions
    assert set(Rollout.objects.values_list("state", flat=True)) == {Rollout.State.SAMPLING}
    assert not Group.objects.exclude(lease_owner="").exists()


@pytest.mark.parametrize("module", [scorer, refiner])
def test_a_drained_scorer_or_refiner_claims_nothing(run, finish, admin, module, monkeypatch):
    finish(run)
    worker = a_worker(Worker.Role.SCORER)
    monkeypatch.setattr(module, "own_worker_row", lambda: worker)
    told(worker, DRAIN, admin)
    assert not module.serve()
    assert set(Group.objects.values_list("lease_owner", flat=True)) == {""}


def test_heartbeat_reports_memory_and_receives_the_order(admin, db):
    worker = a_worker(Worker.Role.SCORER)
    Worker.objects.get(pk=worker.pk).tell(DRAIN, admin)
    WorkerRegistration(worker).keep()
    assert worker.takes_nothing
    assert Worker.objects.get().metrics["rss_bytes"] > 2**20


def test_sample_measures_memory_and_cpu_of_the_process():
    sampler = Sampler()
    first = sampler.sample()
    assert sum(n * n for n in range(300_000))  # uses the CPU for a moment
    second = sampler.sample()
    assert first["rss_bytes"] > 2**20 and "cpu_share" not in first
    assert 0 <= second["cpu_share"] <= (os.cpu_count() or 1) + 1


def test_code_versions_are_known():
    told = code_versions.read_code_versions()
    assert (
        told["code"] and told["code"] != "unknown" and {"python", "celery", "django"} <= told.keys()
    )
