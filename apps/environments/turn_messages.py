"""Record messages from an episode's player, and return the state.

They come by any channel: REST, a socket, or the page.
"""

from apps.environments.action_waiters import TurnState, standings
from apps.environments.closing import close_episode
from apps.environments.contract import convert_observation
from apps.environments.errors import CannotPlay
from apps.environments.judging import judge_complete_episodes
from apps.environments.models import Episode
from apps.environments.observations import Observation
from apps.environments.playing import observe_in, pay

SAID = {
    "done": "the environment ended it",
    "failed": "the environment failed",
    "abandoned": "the environment left it",
}


def record_observation(
    episode: Episode,
    observation: Observation,
    *,
    number: int | None = None,
    reward: float | None = None,
    done: bool = False,
    info: dict | None = None,
) -> TurnState:
    """Record the next observation of a locked episode and return the state of that turn.

    `number` None means the next observation. Raises CannotPlay.
    """
    number = episode.turns if number is None else number
    is_new = number == episode.turns
    observe_in(
        episode,
        number,
        convert_observation(episode.environment, observation),
        reward=reward,
        done=done,
        info=info,
    )
    if is_new:  # the policy cannot have acted on it yet
        return TurnState(episode.pk, number, episode.state, episode.reason, action=None, tokens=0)
    [turn_state] = standings([(episode.pk, number)])
    return turn_state


def finish_episode(
    episode: Episode,
    outcome: str,
    last: float | None = None,
    reason: str = "",
    is_final: bool = False,
) -> None:
    """End this locked episode with an outcome (done, failed or abandoned) and its last reward.

    `is_final` means that no further reward comes. Raises CannotPlay.
    """
    if last is not None:
        _reward_last(episode, last)
    close_episode(episode, Episode.State(outcome), reason or SAID[outcome])
    judge_complete_episodes([episode], [episode.pk] if is_final else [])


def _reward_last(episode: Episode, value: float) -> None:
    answered_turns = episode.seen.filter(answered_at__isnull=False).order_by("-number")
    # Observations and actions may be long.
    last = answered_turns.only("episode", "number", "reward", "late_reward").first()
    if last is None:
        raise CannotPlay("bad_reward", "reward: there is no action yet; leave it out")
    pay(episode, last, value)


def turn_document(turn_state: TurnState) -> dict:
    """Return the state of a turn in the form of `apps.environments.schemas.TurnDocument`."""
    return {
        "episode": turn_state.episode_id,
        "number": turn_state.number,
        "state": turn_state.state,
        "reason": turn_state.reason,
        "action": turn_state.action,
        "tokens": turn_state.tokens,
        "next": turn_state.number + 1,
    }
