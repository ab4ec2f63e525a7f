"""Convert a call to a turn: find or take an episode, and record new messages as an observation."""

import math
from dataclasses import replace

from django.db import transaction

from apps.environments.agents.conversation import NewMessages, news
from apps.environments.agents.keys import HEADER, Caller
from apps.environments.agents.parameters import ChatCall
from apps.environments.agents.refusals import Refused, of_play, unsupported
from apps.environments.agents.serving import begun_for, refuse_ended_run, turned_away
from apps.environments.episode_opening import assign_episode
from apps.environments.errors import CannotPlay
from apps.environments.models import Episode, EpisodeTurn
from apps.environments.playing import locked, observe, record_sign_of_life
from apps.environments.rest_errors import why_none_waits
from apps.rollouts.serving import NoRoom
from apps.runs.models import Run
from apps.tasksets.selection import chance

ENDED = "episode_ended"


def begin_turns(caller: Caller, chat_call: ChatCall) -> list[EpisodeTurn]:
    """Return the turns that answer this call; the policy may have acted on them already.

    A refused call takes no episode. Raises Refused: 404 no such episode, 409 a turn is in progress,
    410 it has ended, 422 messages differ from the recorded ones, 429 no episode is free, or the
    bound has no room.
    """
    if caller.episode and chat_call.choices > 1:
        raise unsupported(
            "n",
            (
                "must be 1 in a named episode, which continues from one reply; without a name, "
                "each choice is an episode of its own"
            ),
        )
    if caller.episode and chat_call.wishes.raw:
        raise unsupported(
            HEADER,
            (
                "a plain prompt is an episode of its own: leave out the name, or use "
                "/v1/chat/completions"
            ),
        )
    try:
        with transaction.atomic():
            return [_begin_episode(caller, chat_call, place) for place in range(chat_call.choices)]
    except NoRoom as why:
        raise turned_away(caller.run, why) from why


def _begin_episode(caller: Caller, chat_call: ChatCall, place: int) -> EpisodeTurn:
    episode = locked(_episode(caller, chat_call).pk)
    turns = list(episode.seen.order_by("number"))
    new_messages = news(turns, chat_call.messages, chat_call.tools)
    # The tools are in the prompt already, but must not be called now.
    if turns and turns[0].tools and not chat_call.tools:
        chat_call = replace(chat_call, wishes=replace(chat_call.wishes, no_calls=True))
    if new_messages.messages:
        _record_observation(episode, new_messages, chat_call, place)
    else:
        record_sign_of_life(episode.pk)
    return episode.seen.select_related("episode").get(number=new_messages.number)


def _record_observation(
    episode: Episode, new_messages: NewMessages, chat_call: ChatCall, place: int
) -> None:
    """Record the observation.

    Several answers to one call with one seed get different seeds.
    """
    messages = [
        {"role": message.role, "content": message.content} for message in new_messages.messages
    ]
    wishes = chat_call.wishes
    if wishes.seed is not None and place:  # seed + place could be another caller's seed
        wishes = replace(wishes, seed=chance.derive_seed("choice", wishes.seed, place))
    try:
        observe(
            episode.pk,
            new_messages.number,
            messages,
            tools=chat_call.tools if new_messages.number == 0 else (),
            wishes=wishes,
            pictures=chat_call.pictures,
        )
    except CannotPlay as why:
        raise of_play(why) from why


def _episode(caller: Caller, chat_call: ChatCall) -> Episode:
    """Return the episode that the call names, by id or by the agent's own name for it.

    For a new name, or none, it is an unplayed episode, or a new one if the run serves. Raises
    Refused (404, 409, 429), NoRoom.
    """
    if caller.episode.isdigit():
        return find_named_episode(caller)
    return begun_for(caller, chat_call) if caller.run.settings.serve else take_episode(caller)


def find_named_episode(caller: Caller) -> Episode:
    """Return the existing episode that the call names. Raises Refused (404, 422)."""
    name = caller.episode
    if not name:
        raise Refused(422, "missing_episode", f"{HEADER}: must name the episode", HEADER)
    own_episodes = Episode.objects.filter(
        run=caller.run, environment=caller.environment, client=caller.user
    )
    matches = (
        own_episodes.filter(pk=int(name))
        if name.isdigit() and len(name) < 19
        else own_episodes.filter(key=name)
    )
    episode = matches.select_related("environment", "run").first()
    if episode is None:
        raise Refused(
            404, "episode_not_found", f"{HEADER}: you have no episode {name!r} in this run", HEADER
        )
    return episode


def take_episode(caller: Caller) -> Episode:
    """Return the episode of this name, or an unplayed one. Raises Refused (409, 429)."""
    try:
        episode = assign_episode(caller.environment, caller.user, caller.episode, caller.run.pk)
    except CannotPlay as why:
        raise of_play(why) from why
    if episode is not None:
        return episode
    if caller.run.state in Run.ENDED:
        raise refuse_ended_run(caller.run)
    reason, seconds = why_none_waits(caller.environment, caller.run.pk)
    raise Refused(429, "no_episode_free", reason, retry_after_s=math.ceil(seconds))
