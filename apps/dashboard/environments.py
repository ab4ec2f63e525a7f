"""Status of environments from their newest episodes: live ones, rewards, and latency per side.

Everything is bounded: only the newest NEWEST ended episodes of an environment are read, and their
first TURNS turns. The number of queries does not depend on the number of environments.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.db import connection
from django.db.models import Count, Max, Sum
from django.utils import timezone

from apps.accounts.models import User
from apps.environments.models import FAILURES_ALLOWED, Environment, Episode, EpisodeTurn
from apps.runs.blind_review import open_among
from apps.runs.models import Run

NEWEST = 100
TURNS = 32
REASONS_SHOWN = 6
PERCENTILES = [0.5, 0.95]


@dataclass(frozen=True)
class Latency:
    """Milliseconds per turn of each side; None if no turn was measured."""

    p50: float | None = None
    p95: float | None = None


UNMEASURED = (Latency(), Latency())


@dataclass(frozen=True)
class EnvironmentStatus:
    """The status of one environment.

    Rewards are those of episodes whose run the user does not rate blind; the rewards of an outside
    client say nothing about a policy.
    """

    environment: Environment
    live: dict[str, int] = field(default_factory=dict)
    heard_at: datetime | None = None
    ended: dict[str, int] = field(default_factory=dict)
    reasons: list[tuple[str, int]] = field(default_factory=list)
    earned: dict[int, float] = field(default_factory=dict)
    succeeded: int = 0
    hidden: bool = False
    environment_turn: Latency = Latency()
    policy_turn: Latency = Latency()

    @property
    def live_count(self) -> int:
        return sum(self.live.values())

    @property
    def ended_count(self) -> int:
        return sum(self.ended.values())

    @property
    def mean_reward(self) -> float | None:
        return sum(self.earned.values()) / len(self.earned) if self.earned else None

    @property
    def success(self) -> float | None:
        return self.succeeded / len(self.earned) if self.earned else None

    @property
    def is_resting(self) -> bool:
        """Tell whether its circuit breaker is open now."""
        until = self.environment.open_until
        return until is not None and until > timezone.now()

    @property
    def failures_left(self) -> int:
        """Return the consecutive failures left until its circuit breaker opens."""
        return max(0, FAILURES_ALLOWED - self.environment.failures)


def describe_environments(
    environments: Sequence[Environment], user: User
) -> list[EnvironmentStatus]:
    """Return the status of each environment as the user may see it, in the same order.

    Five queries, however many environments there are.
    """
    newest = newest_ended(environments)
    episodes_by_environment = defaultdict(list)
    for episode in newest:
        episodes_by_environment[episode.environment_id].append(episode)
    open_runs = open_among(
        user, {episode.run_id for episode in newest if episode.run_id is not None}
    )
    live, last_contact = _live(environments)
    earned = earned_by(
        [
            ended.pk
            for ended in newest
            if ended.state == Episode.State.DONE and ended.run_id in open_runs
        ]
    )
    times = _latencies([episode.pk for episode in newest])
    return [
        EnvironmentStatus(
            environment,
            live[environment.pk],
            _latest(last_contact.get(environment.pk), episodes_by_environment[environment.pk]),
            Counter(episode.state for episode in episodes_by_environment[environment.pk]),
            _reasons(episodes_by_environment[environment.pk]),
            **_rewards(environment, episodes_by_environment[environment.pk], earned, open_runs),
            environment_turn=times.get(environment.pk, UNMEASURED)[0],
            policy_turn=times.get(environment.pk, UNMEASURED)[1],
        )
        for environment in environments
    ]


# One query per state, which reads the index from its end: an environment may have millions of
# episodes.
ENDED = """
    SELECT newest.* FROM unnest(%s::bigint[]) AS e(id) CROSS JOIN LATERAL (
        SELECT one.* FROM unnest(%s::text[]) AS s(state) CROSS JOIN LATERAL (
            SELECT id, environment_id, run_id, rollout_id, state, reason, heard_at
                FROM environments_episode
            WHERE environment_id = e.id AND state = s.state ORDER BY id DESC LIMIT %s) AS one
        ORDER BY one.id DESC LIMIT %s) AS newest"""


def newest_ended(environments: Sequence[Environment]) -> list[Episode]:
    """Return the newest NEWEST ended episodes of each environment, newest first.

    Fields that lists do not show are deferred. One query.
    """
    states = [state.value for state in Episode.CLOSED]
    return list(
        Episode.objects.raw(
            ENDED, [[environment.pk for environment in environments], states, NEWEST, NEWEST]
        )
    )


def earned_by(episodes: Sequence[int]) -> dict[int, tuple[float, float]]:
    """Return {episode: (sum, maximum)} of the rewards of its turns, where it has any.

    One query.
    """
    turns = EpisodeTurn.objects.filter(episode__in=episodes, reward__isnull=False).order_by()
    return {
        episode: (total, maximum)
        for episode, total, maximum in turns.values_list("episode").annotate(
            total=Sum("reward"), highest=Max("reward")
        )
    }


def _rewards(
    environment: Environment, ended: list[Episode], earned: dict, open_runs: set[int]
) -> dict:
    rewards_by_episode = {
        episode.pk: earned[episode.pk] for episode in ended if episode.pk in earned
    }
    return {
        "earned": {pk: total for pk, (total, _) in rewards_by_episode.items()},
        "succeeded": sum(
            maximum >= environment.reward_high for _, maximum in rewards_by_episode.values()
        ),
        "hidden": any(
            episode.run_id is not None and episode.run_id not in open_runs for episode in ended
        ),
    }


def _live(
    environments: Sequence[Environment],
) -> tuple[dict[int, dict[str, int]], dict[int, datetime | None]]:
    """Return the open episodes by environment and state, and the time of the last sign of life."""
    rows = (
        Episode.objects.open()
        .filter(environment__in=environments)
        .order_by()
        .values_list("environment", "state")
    )
    live: dict[int, dict[str, int]] = defaultdict(dict)
    last_contact: dict[int, datetime | None] = {}
    for environment, state, count, at in rows.annotate(count=Count("pk"), at=Max("heard_at")):
        live[environment][state] = count
        last_contact[environment] = max(
            filter(None, (last_contact.get(environment), at)), default=None
        )
    return live, last_contact


def _latest(last_contact: datetime | None, ended: list[Episode]) -> datetime | None:
    return max(filter(None, (last_contact, *(episode.heard_at for episode in ended))), default=None)


def _reasons(ended: list[Episode]) -> list[tuple[str, int]]:
    """Return why the newest episodes failed or were abandoned, the most common first."""
    return Counter(
        episode.reason for episode in ended if episode.state != Episode.State.DONE
    ).most_common(REASONS_SHOWN)


# The environment's time per turn: from the action to its observation; the first observation is a
# reset, not a turn.
TIMES = """
    WITH timed AS (
        SELECT e.environment_id AS environment, t.answered_at - t.requested_at AS policy,
               t.requested_at - lag(t.answered_at) OVER (PARTITION BY t.episode_id
                   ORDER BY t.number) AS environment_took
        FROM environments_episodeturn t JOIN environments_episode e ON e.id = t.episode_id
        WHERE t.episode_id = ANY(%s) AND t.number <= %s)
    SELECT environment,
           percentile_cont(%s::float8[]) WITHIN GROUP (ORDER BY extract(epoch
               FROM environment_took) * 1000),
           percentile_cont(%s::float8[]) WITHIN GROUP (ORDER BY extract(epoch FROM policy) * 1000)
    FROM timed GROUP BY environment"""


def _latencies(episodes: Sequence[int]) -> dict[int, tuple[Latency, Latency]]:
    """Return {environment: its latency, the policy's} over the first TURNS turns of the episodes.

    One query.
    """
    with connection.cursor() as cursor:
        cursor.execute(TIMES, [list(episodes), TURNS, PERCENTILES, PERCENTILES])
        return {
            environment: (Latency(*(environment_times or ())), Latency(*(policy_times or ())))
            for environment, environment_times, policy_times in cursor.fetchall()
        }


@dataclass(frozen=True)
class PlayedEnvironment:
    """The environment a run plays in, with its live episodes and its newest ended ones."""

    environment: Environment
    live: int
    newest: dict[str, int]


def find_played_environment(run: Run) -> PlayedEnvironment | None:
    """Return the environment that the run plays in; None if it has none or is not registered.

    Three queries.
    """
    choice = run.settings.environment
    environment = (
        Environment.objects.filter(project=run.project_id, name=choice.name)
        .select_related("project")
        .first()
        if choice
        else None
    )
    if environment is None:
        return None
    live = Episode.objects.open().filter(environment=environment, run=run).count()
    newest = run.episodes.order_by("-pk").values_list("state", flat=True)[:NEWEST]
    return PlayedEnvironment(environment, live, Counter(newest))


def share_of_best(environment: Environment, value: float | None) -> float | None:
    """Return a reward's place on the environment's scale, from 0 (least) to 1 (most)."""
    if value is None:
        return None
    width = environment.reward_high - environment.reward_low
    return (value - environment.reward_low) / width if width else 1.0
