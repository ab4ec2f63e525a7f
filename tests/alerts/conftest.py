"""A run whose station workers are alive, and ways to make something the matter with it."""

from datetime import timedelta

import pytest
from django.db.models.functions import Now

from apps.runs.models import Metric, Run, WeightVersion, Worker


@pytest.fixture
def healthy(new_run) -> Run:
    """A live run about which there is nothing to say, whatever the disk of the machine that tests
    it.
    """
    for role in Worker.Role.values:
        Worker.objects.create(key=f"{role}@lab:1:1", role=role, host="lab", pid=1)
    Worker.every.filter(role="control").update(swept_at=Now())
    run = new_run(alerts={"disk": None, "unacknowledged": None})
    WeightVersion.objects.filter(run=run).update(published_at=Now())
    return run


@pytest.fixture
def stalled(healthy) -> Run:
    """Live for two hours, and no update."""
    return stall(healthy)


def stall(run: Run) -> Run:
    Run.objects.filter(pk=run.pk).update(state_since=Now() - timedelta(hours=2, minutes=5))
    run.refresh_from_db()
    return run


def go_on(run: Run) -> None:
    """As if an update had just been committed."""
    Run.objects.filter(pk=run.pk).update(trained_at=Now())


def measure(run: Run, name: str, *values: float) -> None:
    """These are the newest values of the metric, the run's step that of the last."""
    for value in values:
        Run.objects.filter(pk=run.pk).update(step=run.step + 1)
        run.refresh_from_db()
        Metric.record(run, run.step, {name: value})
