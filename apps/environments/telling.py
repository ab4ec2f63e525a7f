"""What who plays an episode tells us, whichever way it comes (REST, a socket, a page), and how a turn stands in answer."""

from apps.environments.closing import close
from apps.environments.contract import observed
from apps.environments.errors import CannotPlay
from apps.environments.judging import heard
from apps.environments.models import Episode
from apps.environments.observations import Observation
from apps.environments.playing import observe_in, pay
from apps.environments.waiting import Standing, standings

SAID = {"done": "the environment ended it", "failed": "the environment failed", "abandoned": "the environment left it"}


def say(
    episode: Episode, observation: Observation, *, number: int | None = None, reward: float | None = None, done: bool = False,
    info: dict | None = None,
) -> Standing:  # fmt: skip
    """What the policy of a locked episode sees next; `number` None: it is the next observation. Returns how that turn stands.

    Raises CannotPlay.
    """
    number = episode.turns if number is None else number
    is_new = number == episode.turns
    observe_in(episode, number, observed(episode.environment, observation), reward=reward, done=done, info=info)
    if is_new:  # nobody can have acted on it
        return Standing(episode.pk, number, episode.state, episode.reason, action=None, tokens=0)
    [standing] = standings([(episode.pk, number)])
    return standing


def finish(episode: Episode, outcome: str, last: float | None = None, reason: str = "", is_final: bool = False) -> None:
    """This locked episode is over (`outcome`: done, failed or abandoned), and this is what its last action earned.

    `is_final`: no further reward comes. Raises CannotPlay.
    """
    if last is not None:
        _reward_last(episode, last)
    close(episode, Episode.State(outcome), reason or SAID[outcome])
    heard([episode], [episode.pk] if is_final else [])


def _reward_last(episode: Episode, value: float) -> None:
    acted = episode.seen.filter(answered_at__isnull=False).order_by("-number")
    last = acted.only("episode", "number", "reward", "late_reward").first()  # what was seen and done may be long
    if last is None:
        raise CannotPlay("bad_reward", "reward: nothing was done yet; leave it out")
    pay(episode, last, value)


def document(standing: Standing) -> dict:
    """How a turn stands: `apps.environments.schemas.TurnDocument`."""
    return {
        "episode": standing.episode_id, "number": standing.number, "state": standing.state, "reason": standing.reason,
        "action": standing.action, "tokens": standing.tokens, "next": standing.number + 1,
    }  # fmt: skip
