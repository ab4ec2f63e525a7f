"""How a run that serves is doing by its callers: what the run's page says of them."""

from dataclasses import dataclass

from apps.environments.models import Episode, EpisodeTurn, TurnedAway
from apps.runs.models import Run


@dataclass(frozen=True)
class Serving:
    """Sessions but for `answered` (turns) and `refused` (calls). `waiting`: over, and still to be judged."""

    open: int
    answered: int
    waiting: int
    answered_only: int
    refused: int


def serving_now(run: Run) -> Serving:
    """Five counts."""
    refused = TurnedAway.objects.filter(run=run).values_list("count", flat=True).first()
    return Serving(
        open=Episode.objects.open().filter(run=run).count(),
        answered=EpisodeTurn.objects.filter(episode__run=run, answered_at__isnull=False).count(),
        waiting=Episode.objects.filter(run=run, reward_until__isnull=False).count(),
        answered_only=run.groups.filter(answer_only=True).count(),
        refused=refused or 0,
    )
