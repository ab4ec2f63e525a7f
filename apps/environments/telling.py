"""What who plays an episode tells us, whichever way it comes (REST, a socket, a page), and how a turn stands in answer."""

from django.db import transaction

from apps.environments.closing import abandon, end, fail
from apps.environments.contract import observed
from apps.environments.errors import CannotPlay
from apps.environments.judging import heard
from apps.environments.models import Episode
from apps.environments.observations import Observation
from apps.environments.playing import locked, observe, pay
from apps.environments.waiting import Standing

ENDS = {"done": end, "failed": fail, "abandoned": abandon}
SAID = {"done": "the environment ended it", "failed": "the environment failed", "abandoned": "the environment left it"}


def say(
    episode: Episode, observation: Observation, *, number: int | None = None, reward: float | None = None, done: bool = False,
    info: dict | None = None,
) -> int:  # fmt: skip
    """What the policy sees next; `number` None: it is the next observation. Returns its number. Raises CannotPlay."""
    number = episode.turns if number is None else number
    observe(episode.pk, number, observed(episode.environment, observation), reward=reward, done=done, info=info)
    return number


@transaction.atomic
def finish(episode_id: int, outcome: str, last: float | None = None, reason: str = "", is_final: bool = False) -> None:
    """It is over (`outcome`: done, failed or abandoned), and this is what its last action earned. Raises CannotPlay.

    `is_final`: no further reward comes.
    """
    if last is not None:
        _reward_last(episode_id, last)
    episode = ENDS[outcome](episode_id, reason or SAID[outcome])
    heard([episode], [episode_id] if is_final else [])


def _reward_last(episode_id: int, value: float) -> None:
    episode = locked(episode_id)
    last = episode.seen.filter(answered_at__isnull=False).order_by("-number").first()
    if last is None:
        raise CannotPlay("bad_reward", "reward: nothing was done yet; leave it out")
    pay(episode, last, value)


def document(standing: Standing) -> dict:
    """How a turn stands: `apps.environments.schemas.TurnDocument`."""
    return {
        "episode": standing.episode_id, "number": standing.number, "state": standing.state, "reason": standing.reason,
        "action": standing.action, "tokens": standing.tokens, "next": standing.number + 1,
    }  # fmt: skip
