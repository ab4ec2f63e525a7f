"""An engine whose process hangs breaks nothing: the explorer checks its health and replaces it."""

import os
import signal

import pytest

from apps.policies.manifest import read_manifest
from apps.policies.models import Policy
from apps.rollouts.models import Group
from apps.runs.models import Worker
from tests.descent import descendants, is_called
from workers.explorer import loop
from workers.policies.tiny import build_tiny

pytestmark = [pytest.mark.vllm, pytest.mark.slow, pytest.mark.timeout(600)]
PATIENCE = 300  # vLLM starts twice, in three processes each time


@pytest.fixture
def sampled_run(new_run, policy, tmp_path):
    build_tiny(tmp_path / "base")
    Policy.objects.filter(pk=policy.pk).update(
        folder=str(tmp_path / "base"), fingerprint=read_manifest(tmp_path / "base").fingerprint
    )
    policy.refresh_from_db()
    return new_run(sampling={"max_tokens": 100}, engine="vllm")


@pytest.fixture
def explorer(transactional_db):
    made = loop.ExplorerLoop(
        Worker.objects.create(key="explorer@test", role=Worker.Role.EXPLORER, host="test", pid=1)
    )
    yield made
    made.stop()


def computing(pid: int) -> list[int]:
    """Return vLLM's worker processes among the descendants of a process."""
    return [child for child in descendants(pid) if is_called(child, "VLLM::Worker")]


@pytest.mark.nightly
def test_a_hanging_engine_is_replaced_and_its_groups_are_sampled_again(
    sampled_run, explorer, eventually, monkeypatch
):
    monkeypatch.setattr(loop, "DRAIN_SECONDS", 0.0)

    def served(enough) -> bool:
        explorer.serve()
        explorer.kept_at = 0.0
        return enough()

    eventually(
        lambda: served(lambda: any(session.rollouts for session in explorer.sessions.values())),
        PATIENCE,
    )
    hanging = explorer.sessions[sampled_run.pk]
    for pid in computing(os.getpid()):
        os.kill(pid, signal.SIGSTOP)
    with monkeypatch.context() as impatient:  # only for this engine: a starting one may be slow
        impatient.setattr(loop, "SILENCE_SECONDS", 1.0)
        impatient.setattr(loop, "HEALTH_SECONDS", 1.0)
        eventually(
            lambda: served(lambda: explorer.sessions.get(sampled_run.pk) is not hanging), PATIENCE
        )
    eventually(
        lambda: served(lambda: not Group.objects.filter(state=Group.State.SAMPLING).exists()),
        PATIENCE,
    )
    assert set(Group.objects.values_list("state", flat=True)) == {Group.State.SCORING}
