"""Record many rewards at once: each is checked alone, and the valid ones are one transaction."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db import connection

from apps.accounts.locking import lock_rows, unit_of_work
from apps.environments.errors import CannotPlay
from apps.environments.judging import judge_complete_episodes, judged_among
from apps.environments.models import Environment, Episode, EpisodeTurn
from apps.environments.observations import checked_reward


@dataclass(frozen=True)
class TurnReward:
    """The reward of a turn's action; `turn` None means the last action.

    `is_final` means that no further reward comes for its episode.
    """

    episode_id: int
    turn: int | None
    value: float
    is_final: bool = False


@dataclass(frozen=True)
class AcceptedReward:
    turn: int
    is_late: bool


# Only turns without a reward get one.
REWARD = """
    UPDATE environments_episodeturn t SET rewarded_at = statement_timestamp(),
        reward = CASE WHEN s.late THEN t.reward ELSE s.value END, late_reward = CASE WHEN s.late
            THEN s.value ELSE t.late_reward END
    FROM unnest(%s::bigint[], %s::float8[], %s::bool[]) AS s(id, value, late)
    WHERE t.id = s.id AND t.reward IS NULL AND t.late_reward IS NULL"""


@unit_of_work
def reward_many(rewards: Sequence[TurnReward]) -> list[AcceptedReward | CannotPlay]:
    """Return the outcome of each reward, in order; repeating a reward changes nothing.

    Every episode must exist. A reward of a rollout that is already judged is stored as late, and
    not trained on.
    """
    ids = {reward.episode_id for reward in rewards}
    episodes = lock_rows(Episode.objects.filter(pk__in=ids).select_related("environment"))
    book = RewardBook(episodes)
    outcomes = [book.outcome(reward) for reward in rewards]
    if book.new:
        with connection.cursor() as cursor:
            cursor.execute(REWARD, [list(column) for column in zip(*book.new, strict=True)])
    accepted = [
        reward
        for reward, outcome in zip(rewards, outcomes, strict=True)
        if isinstance(outcome, AcceptedReward)
    ]
    judge_complete_episodes(episodes, {reward.episode_id for reward in accepted if reward.is_final})
    return outcomes


class RewardBook:
    """The turns of some locked episodes, and their rewards."""

    def __init__(self, episodes: list[Episode]) -> None:
        acted = EpisodeTurn.objects.filter(
            episode__in=episodes, answered_at__isnull=False
        ).order_by("episode", "number")
        self.environments: dict[int, Environment] = {
            episode.pk: episode.environment for episode in episodes
        }
        self.turns = {
            (turn.episode_id, turn.number): turn
            for turn in acted.only("episode", "number", "reward", "late_reward")
        }
        self.last = dict(self.turns.keys())  # the last turn of each episode, by order
        self.judged = judged_among([episode.pk for episode in episodes])
        self.new: list[tuple[int, float | None, bool]] = []  # turn's id, value, whether it is late

    def outcome(self, turn_reward: TurnReward) -> AcceptedReward | CannotPlay:
        number = (
            self.last.get(turn_reward.episode_id) if turn_reward.turn is None else turn_reward.turn
        )
        turn = None if number is None else self.turns.get((turn_reward.episode_id, number))
        if turn is None:
            return CannotPlay(
                "not_your_move", f"turn: there is no action in turn {number or 0} yet"
            )
        try:
            value = checked_reward(self.environments[turn_reward.episode_id], turn_reward.value)
        except CannotPlay as why:
            return why
        return self._store_reward(turn, value)

    def _store_reward(self, turn: EpisodeTurn, value: float | None) -> AcceptedReward | CannotPlay:
        previous = turn.late_reward if turn.reward is None else turn.reward
        if previous is not None and previous != value:
            return CannotPlay(
                "changed",
                f"turn {turn.number} already has the reward {previous:g}; it cannot change",
            )
        is_late = turn.late_reward is not None
        if previous is None:
            is_late = turn.episode_id in self.judged
            setattr(turn, "late_reward" if is_late else "reward", value)
            self.new.append((turn.pk, value, is_late))
        return AcceptedReward(turn.number, is_late)
