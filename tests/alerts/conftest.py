"""A run whose workers are alive, and functions that create a problem in it."""

from datetime import timedelta

import pytest
from django.db.models.functions import Now

from apps.runs.models import Metric, Run, WeightVersion, Worker


@pytest.fixture
def healthy(new_run) -> Run:
    """Create a live run without problems, whatever disk the test machine has."""
    for role in Worker.Role.values:
        Worker.objects.create(key=f"{role}@lab:1:1", role=role, host="lab", pid=1)
    Worker.every.filter(role="control").update(swept_at=Now())
    run = new_run(alerts={"disk": None, "unacknowledged": None})
    WeightVersion.objects.filter(run=run).update(published_at=Now())
    return run


@pytest.fixture
def stalled(healthy) -> Run:
    """Create a run that has been live for two hours without an update."""
    return stall(healthy)


def stall(run: Run) -> Run:
    Run.objects.filter(pk=run.pk).update(state_since=Now() - timedelta(hours=2, minutes=5))
    run.refresh_from_db()
    return run


def go_on(run: Run) -> None:
    """Make it look as if an update had just been committed."""
    Run.objects.filter(pk=run.pk).update(trained_at=Now())


def measure(run: Run, name: str, *values: float) -> None:
    """Set the newest values of the metric, and the run's step to that of the last value."""
    for value in values:
        Run.objects.filter(pk=run.pk).update(step=run.step + 1)
        run.refresh_from_db()
        Metric.record(run, run.step, {name: value})
