"""How a run that serves is doing by its callers: what the run's page says of them. Nothing is counted that grows with the run."""

from dataclasses import dataclass

from apps.environments.models import Episode, EpisodeTurn, TurnedAway
from apps.rollouts.models import Group
from apps.runs.models import Run

NEWEST = 1_000  # sessions whose answers are counted


@dataclass(frozen=True)
class Serving:
    """`sessions` since the run began; `open` and `waiting` (over, and still to be judged) now; `answered` (turns) and
    `answered_only` (sessions) of the `newest`; `refused` calls since the run began.
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
        """Whether there are more sessions than are counted."""
        return self.sessions > self.newest


def serving_now(run: Run) -> Serving:
    """Five counts: of the newest sessions, of rows that a state's index holds, and of what is kept as a number."""
    newest = Episode.objects.filter(run=run).order_by("-pk").values("pk")[:NEWEST]
    drawn = run.groups.filter(draw_index__isnull=False).order_by("-draw_index").values("pk")[:NEWEST]
    played_here = {"environment__project": run.project_id, "environment__name": run.settings.environment.name}
    return Serving(
        sessions=run.groups_opened,
        open=Episode.objects.open().filter(run=run, **played_here).count(),
        waiting=Episode.objects.filter(run=run, reward_until__isnull=False).count(),
        answered=EpisodeTurn.objects.filter(episode__in=newest, answered_at__isnull=False).count(),
        answered_only=Group.objects.filter(pk__in=drawn, answer_only=True).count(),
        refused=TurnedAway.objects.filter(run=run).values_list("count", flat=True).first() or 0,
        newest=NEWEST,
    )
