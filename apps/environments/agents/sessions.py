"""Sessions of agents: named episodes that are started, rewarded, ended and exported."""

from django.db import transaction

from apps.environments.agents.answers import turn_named
from apps.environments.agents.exporting import session_document
from apps.environments.agents.keys import HEADER, NAME, Caller
from apps.environments.agents.refusals import of_play, refuse_field
from apps.environments.agents.serving import refuse_ended_run
from apps.environments.agents.turns import find_named_episode, take_episode
from apps.environments.closing import abandon, end_episode
from apps.environments.errors import CannotPlay
from apps.environments.judging import judge_complete_episodes
from apps.environments.models import Episode, EpisodeTurn
from apps.runs.models import Run

ENDED_BY_AGENT = "the agent ended it"
UNUSED = "the agent ended it before its first call"


def start_session(caller: Caller, name: object, secret: str) -> dict:
    """Return the session, a key that is bound to it, and its task.

    The same name returns the same session. Raises Refused.
    """
    name = caller.episode or name
    if not isinstance(name, str) or not NAME.fullmatch(name) or name.isdigit():
        raise refuse_field(
            "task_id", "must be letters, digits, - and _, not only digits; at most 100"
        )
    named_caller = Caller(caller.user, caller.run, caller.environment, name)
    if caller.run.settings.serve:
        return _session_without_episode(named_caller, secret)
    episode = Episode.objects.select_related("rollout__group__task").get(
        pk=take_episode(named_caller).pk
    )
    task = episode.required_rollout.group.task
    return {
        "session_id": name,
        "api_key": f"{secret}.{name}",
        "episode": episode.pk,
        "seed": episode.seed,
        "options": episode.options,
        "task": {"id": task.pk, "messages": task.prompt},
        "turn_limit": episode.turn_limit,
    }


def _session_without_episode(caller: Caller, secret: str) -> dict:
    """Return a session without an episode, for a run that serves.

    Its first call begins the episode, and that call's messages are the task.
    """
    if caller.run.state in Run.ENDED:
        raise refuse_ended_run(caller.run)
    return {
        "session_id": caller.episode,
        "api_key": f"{secret}.{caller.episode}",
        "episode": None,
        "seed": None,
        "options": {},
        "task": None,
        "turn_limit": caller.environment.turn_limit,
    }


def place(caller: Caller, interaction: object) -> tuple[int, int | None]:
    """Return (episode, turn) of an interaction, or of the session's last one.

    Raises Refused (404, 422).
    """
    if interaction is not None:
        return turn_named(interaction)
    return find_named_episode(caller).pk, None


@transaction.atomic
def finish_session(caller: Caller, is_final: bool = False) -> dict:
    """End the session; `is_final` means that no further reward comes. Raises Refused (404, 410)."""
    episode = find_named_episode(caller)
    has_answers = EpisodeTurn.objects.filter(episode=episode, answered_at__isnull=False).exists()
    try:
        episode = (
            end_episode(episode.pk, ENDED_BY_AGENT) if has_answers else abandon(episode.pk, UNUSED)
        )
    except CannotPlay as why:
        raise of_play(why) from why
    judge_complete_episodes([episode], [episode.pk] if is_final else [])
    rewards = [
        value for value in episode.seen.values_list("reward", flat=True) if value is not None
    ]
    return {
        "session_id": caller.episode,
        HEADER: episode.pk,
        "state": episode.state,
        "reason": episode.reason,
        "rewards": rewards,
    }


def export_session(caller: Caller) -> dict:
    """Return the session with its turns. Raises Refused (404, 422)."""
    return session_document(
        Episode.objects.select_related("rollout").get(pk=find_named_episode(caller).pk)
    )
