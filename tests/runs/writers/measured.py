"""A run with metrics, for the tests of all targets."""

from collections.abc import Callable

import pytest

from apps.runs.models import Metric, TrainStep


@pytest.fixture
def measured(run) -> Callable[..., object]:
    """Return a function that commits steps with two metrics each and returns the run."""

    def commit(*steps: int):
        for step in steps:
            TrainStep.objects.create(
                run=run, number=step, state="committed", version=step // 2, fence=1
            )
            Metric.record(run, step, {"reward_mean": step / 7, "kl": step / 100})
        return run

    return commit
