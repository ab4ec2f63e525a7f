"""Rewards told by themselves, many at once: each is looked at alone, and all that are good are one transaction."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db import connection

from apps.accounts.locking import lock, unit_of_work
from apps.environments.errors import CannotPlay
from apps.environments.judging import heard, judged_among
from apps.environments.models import Environment, Episode, EpisodeTurn
from apps.environments.observations import checked_reward


@dataclass(frozen=True)
class Earned:
    """What the action of a turn earned; `turn` None: of the last action there. `is_final`: nothing more comes for its episode."""

    episode_id: int
    turn: int | None
    value: float
    is_final: bool = False


@dataclass(frozen=True)
class Taken:
    turn: int
    is_late: bool


# Only what has no reward yet gets one.
REWARD = """
    UPDATE environments_episodeturn t SET rewarded_at = statement_timestamp(),
        reward = CASE WHEN s.late THEN t.reward ELSE s.value END, late_reward = CASE WHEN s.late THEN s.value ELSE t.late_reward END
    FROM unnest(%s::bigint[], %s::float8[], %s::bool[]) AS s(id, value, late)
    WHERE t.id = s.id AND t.reward IS NULL AND t.late_reward IS NULL"""


@unit_of_work
def reward_many(rewards: Sequence[Earned]) -> list[Taken | CannotPlay]:
    """What became of each of these, in their order; said again, a reward is the same reward. Every episode must be there.

    A reward of a rollout that is judged already is kept as late, and not trained on.
    """
    ids = {one.episode_id for one in rewards}
    episodes = lock(Episode.objects.filter(pk__in=ids).select_related("environment"))
    book = Book(episodes)
    outcomes = [book.outcome(one) for one in rewards]
    if book.new:
        with connection.cursor() as cursor:
            cursor.execute(REWARD, [list(column) for column in zip(*book.new, strict=True)])
    taken = [one for one, outcome in zip(rewards, outcomes, strict=True) if isinstance(outcome, Taken)]
    heard(episodes, {one.episode_id for one in taken if one.is_final})
    return outcomes


class Book:
    """The turns of some locked episodes, and what they earned."""

    def __init__(self, episodes: list[Episode]) -> None:
        acted = EpisodeTurn.objects.filter(episode__in=episodes, answered_at__isnull=False).order_by("episode", "number")
        self.environments: dict[int, Environment] = {episode.pk: episode.environment for episode in episodes}
        self.turns = {(turn.episode_id, turn.number): turn for turn in acted.only("episode", "number", "reward", "late_reward")}
        self.last = dict(self.turns.keys())  # of each episode, by their order
        self.judged = judged_among([episode.pk for episode in episodes])
        self.new: list[tuple[int, float, bool]] = []  # turn's id, value, whether it is late

    def outcome(self, said: Earned) -> Taken | CannotPlay:
        number = self.last.get(said.episode_id) if said.turn is None else said.turn
        turn = self.turns.get((said.episode_id, number))
        if turn is None:
            return CannotPlay("not_your_move", f"turn: nothing was done in turn {number or 0} yet")
        try:
            value = checked_reward(self.environments[said.episode_id], said.value)
        except CannotPlay as why:
            return why
        return self._kept(turn, value)

    def _kept(self, turn: EpisodeTurn, value: float) -> Taken | CannotPlay:
        known = turn.late_reward if turn.reward is None else turn.reward
        if known is not None and known != value:
            return CannotPlay("changed", f"turn {turn.number} has earned {known:g} already; it cannot change")
        is_late = turn.late_reward is not None
        if known is None:
            is_late = turn.episode_id in self.judged
            setattr(turn, "late_reward" if is_late else "reward", value)
            self.new.append((turn.pk, value, is_late))
        return Taken(turn.number, is_late)
