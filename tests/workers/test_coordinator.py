"""How often the coordinator sweeps completely (0.1 s a test)."""

import time

import pytest

from apps.runs.models import Worker
from workers import coordinator

pytestmark = pytest.mark.django_db


@pytest.fixture
def complete_sweeps(monkeypatch) -> list[float]:
    """Let a complete sweep have been made just now; return the times of those that follow."""
    made: list[float] = []
    monkeypatch.setattr(coordinator, "_complete_at", time.monotonic())
    monkeypatch.setattr(coordinator, "expire_all", lambda: made.append(time.monotonic()) or {})
    return made


def test_without_a_live_run_most_sweeps_only_look_at_the_workers(complete_sweeps):
    control = Worker.every.create(key="control@here:1:1", role="control", host="here", pid=1)
    coordinator.sweep()
    control.refresh_from_db()
    assert control.swept_at and not complete_sweeps


def test_without_a_live_run_a_complete_sweep_is_made_now_and_then(complete_sweeps, monkeypatch):
    monkeypatch.setattr(coordinator, "_complete_at", time.monotonic() - coordinator.QUIET_S)
    coordinator.sweep()
    coordinator.sweep()
    assert len(complete_sweeps) == 1


@pytest.mark.parametrize("state", ["running", "paused", "just ended"])
def test_every_sweep_is_complete_with_a_live_run(run, complete_sweeps, state):
    if state == "paused":
        run.pause()
    if state == "just ended":
        run.stop()
    coordinator.sweep()
    coordinator.sweep()
    assert len(complete_sweeps) == 2
