"""A run with groups in every state on its pages: trained, waiting, dropped, being sampled."""

from types import SimpleNamespace

import pytest

from apps.rollouts.models import Rollout
from apps.runs.models import Run
from tests.keeping import Kept
from tests.seeding import people_of


@pytest.fixture
def seeded(db, kept_run: Kept) -> SimpleNamespace:
    """Return `run` at step 3 and its cast: alice steers, bob rates, carol is a stranger."""
    kept_run.put_back()
    run = Run.objects.get()
    finished = run.rollouts.filter(state=Rollout.State.FINISHED).order_by("pk")
    waiting = finished.filter(group__state="waiting")
    return SimpleNamespace(
        run=run, rollout=finished.first(), waiting=waiting.first(), **people_of()
    )
