"""The query by which the explorer reads what changed in its episodes: one statement for all."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from django.db import connection

from apps.environments.action_sampling import NO_WISHES, ActionSampling
from apps.environments.models import Episode
from apps.environments.observations import Observation


@dataclass(frozen=True)
class News:
    """An episode's state: the policy's move on observation `number`, or the end with its reason."""

    episode_id: int
    state: str
    reason: str
    number: int
    observation: Observation | None
    tools: tuple[dict, ...] = ()
    wishes: ActionSampling = NO_WISHES

    @property
    def has_ended(self) -> bool:
        return self.state in Episode.CLOSED

    @property
    def is_failure(self) -> bool:
        return self.has_ended and self.state != Episode.State.DONE


NEWS = """
    SELECT e.id, e.state, e.reason, e.turns - 1, t.observation, t.tools, t.wishes
    FROM unnest(%s::bigint[], %s::int[]) AS k(episode, turns)
    JOIN environments_episode e ON e.id = k.episode
    LEFT JOIN environments_episodeturn t ON t.episode_id = e.id AND t.number = e.turns - 1
    WHERE e.state IN ('done', 'failed', 'abandoned')
        OR (e.state = 'policy' AND e.turns > k.turns)"""


def list_news(observations_read: Mapping[int, int]) -> list[News]:
    """Return what changed in these episodes.

    `observations_read` holds the number of observations of each that were read already.
    """
    if not observations_read:
        return []
    with connection.cursor() as cursor:
        cursor.execute(NEWS, [list(observations_read), list(observations_read.values())])
        return [
            News(
                episode,
                state,
                reason,
                number,
                json.loads(observation) if observation else None,
                tuple(json.loads(tools or "[]")),
                ActionSampling.of(json.loads(wishes or "{}")),
            )
            for episode, state, reason, number, observation, tools, wishes in cursor.fetchall()
        ]
