"""Calls of a run that serves: a new name, or none, is a session of its own, and its first words are the task."""

from apps.environments.agents.asked import Asked
from apps.environments.agents.keys import Caller
from apps.environments.agents.refusals import Refused, of_play
from apps.environments.closing import rests
from apps.environments.errors import CannotPlay
from apps.environments.models import Episode, TurnedAway
from apps.environments.opening import open_for_agent
from apps.rollouts.serving import NoRoom
from apps.runs.models import Run
from apps.tasksets.rows import TaskRow

AGAIN_S, LATER_S = 1, 5


def begun_for(caller: Caller, asked: Asked) -> Episode:
    """The episode of this name, or a new one in a group of its own. Raises Refused (409), NoRoom."""
    if caller.run.state in Run.ENDED:
        raise ended(caller.run)
    if rests(caller.environment):
        raise NoRoom(f"Its breaker is open: {caller.environment.open_reason}")
    try:
        episode = open_for_agent(caller.environment, caller.user, caller.episode, caller.run, task_of(asked))
    except CannotPlay as why:
        raise of_play(why) from why
    return episode


def task_of(asked: Asked) -> TaskRow:
    """What is asked, as the messages that the policy sees; a bare text is one of a user's, and says so."""
    prompt = [{"role": said.role, "content": said.content} for said in asked.messages]
    return TaskRow(prompt, meta={"raw": True} if asked.wishes.raw else {}, pictures=tuple(asked.pictures.values()))


def turned_away(run: Run, why: NoRoom) -> Refused:
    """The answer to who was refused, which is counted. Call it outside the transaction that was given up."""
    TurnedAway.note(run)
    return Refused(429, "no_room", str(why), retry_after_s=AGAIN_S if run.is_live else LATER_S)


def ended(run: Run) -> Refused:
    """410: OpenAI's clients try again what is 409."""
    return Refused(410, "run_ended", f"Run {run.slug} is {run.get_state_display()}; it answers no more.")
