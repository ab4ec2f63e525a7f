"""How often the coordinator makes complete sweeps (0.1 s per test)."""

import time

import pytest

from apps.runs.models import Worker
from workers import coordinator

pytestmark = pytest.mark.django_db


@pytest.fixture
def complete_sweeps(monkeypatch) -> list[float]:
    """Pretend that a complete sweep has just ended; return the times of the next ones."""
    made: list[float] = []
    monkeypatch.setattr(coordinator, "_complete_at", time.monotonic())
    monkeypatch.setattr(coordinator, "expire_all", lambda: made.append(time.monotonic()) or {})
    return made


def test_sweep_without_a_live_run_only_checks_the_workers(complete_sweeps):
    control = Worker.every.create(key="control@here:1:1", role="control", host="here", pid=1)
    coordinator.sweep()
    control.refresh_from_db()
    assert control.swept_at and not complete_sweeps


def test_complete_sweep_is_made_periodically_without_a_live_run(complete_sweeps, monkeypatch):
    monkeypatch.setattr(coordinator, "_complete_at", time.monotonic() - coordinator.QUIET_S)
    coordinator.sweep()
    coordinator.sweep()
    assert len(complete_sweeps) == 1


@pytest.mark.parametrize("state", ["running", "paused", "just ended"])
def test_every_sweep_is_complete_while_a_run_is_live_or_just_ended(run, complete_sweeps, state):
    if state == "paused":
        run.pause()
    if state == "just ended":
        run.stop()
    coordinator.sweep()
    coordinator.sweep()
    assert len(complete_sweeps) == 2
