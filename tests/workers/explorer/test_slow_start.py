"""A starting explorer: what it reports about itself, and the leases it keeps while an engine
starts slowly.
"""

from importlib.metadata import version

import pytest

from apps.rollouts.models import Group
from apps.runs.models import Worker
from workers.engines.transformers_loop import TransformersEngine
from workers.explorer import job
from workers.explorer.loop import ExplorerLoop


@pytest.fixture
def explorer(transactional_db):
    made = ExplorerLoop(
        Worker.objects.create(key="explorer@test", role=Worker.Role.EXPLORER, host="test", pid=1)
    )
    yield made
    made.stop()


def test_explorer_reports_its_device_and_library_versions(db):
    job.explorer.cache_clear()
    worker = job.explorer().worker
    job.explorer.cache_clear()
    assert worker.device
    assert (worker.details["torch"], worker.details["transformers"]) == (
        version("torch"),
        version("transformers"),
    )


def test_leases_and_heartbeat_are_renewed_while_another_engine_starts(
    explorer, watched_run, new_run, monkeypatch, settings, eventually
):
    settings.LEASE_SECONDS = 3.0
    explorer.serve()
    held = Group.objects.filter(run=watched_run)
    start = TransformersEngine.start

    def start_late(engine, *how):
        """Start only after another thread has renewed both twice."""
        for _ in range(2):
            heard = Worker.objects.get(pk=explorer.worker.pk).heartbeat_at
            until = min(held.values_list("lease_until", flat=True))
            eventually(lambda: Worker.objects.get(pk=explorer.worker.pk).heartbeat_at > heard, 20)  # noqa: B023
            eventually(lambda: min(held.values_list("lease_until", flat=True)) > until, 20)  # noqa: B023
        return start(engine, *how)

    monkeypatch.setattr(TransformersEngine, "start", start_late)
    second = new_run(engine="transformers")
    explorer.looked_at = 0.0
    eventually(lambda: explorer.serve() and second.pk in explorer.sessions)
    assert set(held.values_list("attempts", flat=True)) == {0}
