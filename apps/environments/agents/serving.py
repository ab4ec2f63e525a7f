"""Calls of a run that serves: a new name, or none, starts a session whose messages are the task."""

from apps.environments.agents.keys import Caller
from apps.environments.agents.parameters import ChatCall
from apps.environments.agents.refusals import Refused, of_play
from apps.environments.closing import rests
from apps.environments.episode_opening import open_for_agent
from apps.environments.errors import CannotPlay
from apps.environments.models import Episode, TurnedAway
from apps.rollouts.serving import NoRoom
from apps.runs.models import Run
from apps.tasksets.rows import TaskRow

AGAIN_S = 1
LATER_S = 5


def begun_for(caller: Caller, chat_call: ChatCall) -> Episode:
    """Return the episode of this name, or a new one in its own group.

    Raises Refused (409), NoRoom.
    """
    if caller.run.state in Run.ENDED:
        raise refuse_ended_run(caller.run)
    if rests(caller.environment):
        raise NoRoom(f"Its breaker is open: {caller.environment.open_reason}")
    try:
        episode = open_for_agent(
            caller.environment, caller.user, caller.episode, caller.run, call_as_task(chat_call)
        )
    except CannotPlay as why:
        raise of_play(why) from why
    return episode


def call_as_task(chat_call: ChatCall) -> TaskRow:
    """Return the call's messages as a task; a bare text is a user message marked `raw`."""
    prompt = [{"role": message.role, "content": message.content} for message in chat_call.messages]
    return TaskRow(
        prompt,
        meta={"raw": True} if chat_call.wishes.raw else {},
        pictures=tuple(chat_call.pictures.values()),
    )


def turned_away(run: Run, why: NoRoom) -> Refused:
    """Count a refused session and return the error for its caller.

    Call it outside the transaction that was rolled back.
    """
    TurnedAway.note(run)
    return Refused(429, "no_room", str(why), retry_after_s=AGAIN_S if run.is_live else LATER_S)


def refuse_ended_run(run: Run) -> Refused:
    """Return a 410 error: OpenAI's clients retry a 409."""
    return Refused(
        410,
        "run_ended",
        (f"Run {run.slug} is {run.get_state_display()} and accepts no new requests."),
    )
