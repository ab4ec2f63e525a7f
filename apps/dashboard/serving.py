"""Activity of a serving run's callers, for the run's page.

No count grows with the run.
"""

from dataclasses import dataclass

from apps.environments.models import Episode, EpisodeTurn, TurnedAway
from apps.rollouts.models import Group
from apps.runs.models import Run

NEWEST = 1_000  # sessions whose answers are counted


@dataclass(frozen=True)
class Serving:
    """Counts of sessions and calls.

    `sessions` and `refused` calls are counted since the run began; `open` and `waiting` (over, and
    not rated yet) are present ones; `answered` (turns) and `answered_only` (sessions) are those of
    the `newest`.
    """

    sessions: int
    open: int
    waiting: int
    answered: int
    answered_only: int
    refused: int
    newest: int = NEWEST

    @property
    def is_cut(self) -> bool:
        """Tell whether there are more sessions than are counted."""
        return self.sessions > self.newest


def serving_now(run: Run) -> Serving:
    """Return the counts, in five bounded queries."""
    newest = Episode.objects.filter(run=run).order_by("-pk").values("pk")[:NEWEST]
    drawn = (
        run.groups.filter(draw_index__isnull=False).order_by("-draw_index").values("pk")[:NEWEST]
    )
    choice = run.settings.environment
    played_here = {
        "environment__project": run.project_id,
        "environment__name": choice.name if choice else "",
    }
    return Serving(
        sessions=run.groups_opened,
        open=Episode.objects.open().filter(run=run, **played_here).count(),
        waiting=Episode.objects.filter(run=run, reward_until__isnull=False).count(),
        answered=EpisodeTurn.objects.filter(episode__in=newest, answered_at__isnull=False).count(),
        answered_only=Group.objects.filter(pk__in=drawn, answer_only=True).count(),
        refused=TurnedAway.objects.filter(run=run).values_list("count", flat=True).first() or 0,
        newest=NEWEST,
    )
