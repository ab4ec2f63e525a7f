"""A session of an agent is an episode under a name: begun, rewarded, ended, taken away."""

from django.db import transaction

from apps.environments.agents.answers import turn_named
from apps.environments.agents.exporting import exported
from apps.environments.agents.keys import HEADER, NAME, Caller
from apps.environments.agents.refusals import of_play, wrong
from apps.environments.agents.serving import ended
from apps.environments.agents.turns import known, taken
from apps.environments.closing import abandon, end
from apps.environments.errors import CannotPlay
from apps.environments.judging import heard
from apps.environments.models import Episode, EpisodeTurn
from apps.runs.models import Run

ENDED_BY_AGENT = "the agent ended it"
UNUSED = "the agent ended it before it said anything"


def start(caller: Caller, name: object, secret: str) -> dict:
    """The session, a key that is bound to it, and its task. The same name again is the same session. Raises Refused."""
    name = caller.episode or name
    if not isinstance(name, str) or not NAME.fullmatch(name) or name.isdigit():
        raise wrong("task_id", "must be letters, digits, - and _, not digits alone; at most 100")
    named = Caller(caller.user, caller.run, caller.environment, name)
    if caller.run.settings.serve:
        return _to_be_begun(named, secret)
    episode = Episode.objects.select_related("rollout__group__task").get(pk=taken(named).pk)
    task = episode.rollout.group.task
    return {
        "session_id": name, "api_key": f"{secret}.{name}", "episode": episode.pk, "seed": episode.seed, "options": episode.options,
        "task": {"id": task.pk, "messages": task.prompt}, "turn_limit": episode.turn_limit,
    }  # fmt: skip


def _to_be_begun(caller: Caller, secret: str) -> dict:
    """Where the run serves a session begins with its first call, whose words are the task: until then there is none."""
    if caller.run.state in Run.ENDED:
        raise ended(caller.run)
    return {
        "session_id": caller.episode, "api_key": f"{secret}.{caller.episode}", "episode": None, "seed": None,
        "options": {}, "task": None, "turn_limit": caller.environment.turn_limit,
    }  # fmt: skip


def place(caller: Caller, interaction: object) -> tuple[int, int | None]:
    """(episode, turn) of an interaction, or of the session's last one. Raises Refused (404, 422)."""
    if interaction is not None:
        return turn_named(interaction)
    return known(caller).pk, None


@transaction.atomic
def finish(caller: Caller, is_final: bool = False) -> dict:
    """`is_final`: no further reward comes. Raises Refused (404, 410)."""
    episode = known(caller)
    has_answers = EpisodeTurn.objects.filter(episode=episode, answered_at__isnull=False).exists()
    try:
        episode = end(episode.pk, ENDED_BY_AGENT) if has_answers else abandon(episode.pk, UNUSED)
    except CannotPlay as why:
        raise of_play(why) from why
    heard([episode], [episode.pk] if is_final else [])
    rewards = [value for value in episode.seen.values_list("reward", flat=True) if value is not None]
    return {"session_id": caller.episode, HEADER: episode.pk, "state": episode.state, "reason": episode.reason, "rewards": rewards}


def export(caller: Caller) -> dict:
    """Raises Refused (404, 422)."""
    return exported(Episode.objects.select_related("rollout").get(pk=known(caller).pk))
