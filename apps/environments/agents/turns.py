"""A call becomes a turn: its episode is found or taken, and what is new in the call is the policy's next observation."""

import math
from dataclasses import replace

from django.db import transaction

from apps.environments.agents.asked import Asked
from apps.environments.agents.conversation import New, news
from apps.environments.agents.keys import HEADER, Caller
from apps.environments.agents.refusals import Refused, of_play, unsupported
from apps.environments.agents.serving import begun_for, ended, turned_away
from apps.environments.errors import CannotPlay
from apps.environments.models import Episode, EpisodeTurn
from apps.environments.opening import take
from apps.environments.playing import heard_of, locked, observe
from apps.environments.refusing import why_none_waits
from apps.rollouts.serving import NoRoom
from apps.runs.models import Run
from apps.tasksets.selection import chance

ENDED = "episode_ended"


def begin(caller: Caller, asked: Asked) -> list[EpisodeTurn]:
    """The turns that answer this call; the policy may have acted on them already. Nothing is taken for a call that is refused.

    Raises Refused: 404 no such episode, 409 a turn is under way, 410 it has ended, 422 other words than were recorded, 429 no
    episode is free, or the bound has no room.
    """
    if caller.episode and asked.choices > 1:
        raise unsupported(
            "n", "must be 1 in a named episode: it goes on from one answer; without a name each is an episode of its own"
        )
    if caller.episode and asked.wishes.raw:
        raise unsupported(HEADER, "a bare text is an episode of its own: leave the name out, or use /v1/chat/completions")
    try:
        with transaction.atomic():
            return [_begun(caller, asked, place) for place in range(asked.choices)]
    except NoRoom as why:
        raise turned_away(caller.run, why) from why


def _begun(caller: Caller, asked: Asked, place: int) -> EpisodeTurn:
    episode = locked(_episode(caller, asked).pk)
    turns = list(episode.seen.order_by("number"))
    new = news(turns, asked.messages, asked.tools)
    if turns and turns[0].tools and not asked.tools:  # shown to the policy already, but not to be called now
        asked = replace(asked, wishes=replace(asked.wishes, no_calls=True))
    if new.messages:
        _say(episode, new, asked, place)
    else:
        heard_of(episode.pk)
    return episode.seen.select_related("episode").get(number=new.number)


def _say(episode: Episode, new: New, asked: Asked, place: int) -> None:
    """Answers to one call with one seed are not all the same."""
    said = [{"role": message.role, "content": message.content} for message in new.messages]
    wishes = asked.wishes
    if wishes.seed is not None and place:  # seed + place would be another caller's seed
        wishes = replace(wishes, seed=chance.seed("choice", wishes.seed, place))
    try:
        observe(episode.pk, new.number, said, tools=asked.tools if new.number == 0 else (), wishes=wishes, pictures=asked.pictures)
    except CannotPlay as why:
        raise of_play(why) from why


def _episode(caller: Caller, asked: Asked) -> Episode:
    """The episode the call names, by its id or by the agent's own name for it; for a new name, or none, one that nobody plays, or a
    new one where the run serves.

    Raises Refused (404, 409, 429), NoRoom.
    """
    if caller.episode.isdigit():
        return known(caller)
    return begun_for(caller, asked) if caller.run.settings.serve else taken(caller)


def known(caller: Caller) -> Episode:
    """The episode the call names, which is there. Raises Refused (404, 422)."""
    name = caller.episode
    if not name:
        raise Refused(422, "missing_episode", f"{HEADER}: must name the episode", HEADER)
    mine = Episode.objects.filter(run=caller.run, environment=caller.environment, client=caller.user)
    found = mine.filter(pk=int(name)) if name.isdigit() and len(name) < 19 else mine.filter(key=name)
    episode = found.select_related("environment", "run").first()
    if episode is None:
        raise Refused(404, "episode_not_found", f"{HEADER}: you play no episode {name!r} of this run", HEADER)
    return episode


def taken(caller: Caller) -> Episode:
    """The episode of this name, or one that nobody plays. Raises Refused (409, 429)."""
    try:
        episode = take(caller.environment, caller.user, caller.episode, caller.run.pk)
    except CannotPlay as why:
        raise of_play(why) from why
    if episode is not None:
        return episode
    if caller.run.state in Run.ENDED:
        raise ended(caller.run)
    why, seconds = why_none_waits(caller.environment, caller.run.pk)
    raise Refused(429, "no_episode_free", why, retry_after_s=math.ceil(seconds))
