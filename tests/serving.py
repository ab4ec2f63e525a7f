"""Settings that make the test run a serving one, and a caller's question on its way through it."""

from apps.accounts.models import User
from apps.environments.closing import Ending, end_episode, settle_episodes
from apps.environments.environment_lookup import find_or_register
from apps.environments.episode_opening import open_for_agent
from apps.environments.models import Episode
from apps.environments.playing import Action, observe, record_actions
from apps.rollouts.models import Group, Outcome
from apps.runs.models import Run
from apps.tasksets.rows import TaskRow, user_message
from tests.conftest import tokens_of

SERVED = {
    "taskset": "asked",
    "environment": {"name": "agent"},
    "rewards": [],
    "group_size": 1,
    "algorithm": {"name": "reinforce_plus_plus"},
}


def asked(run: Run, by: User, key: str = "", question: str = "12") -> Episode:
    """Return the episode of a caller's first question, still unanswered."""
    said = user_message(question)
    episode = open_for_agent(find_or_register(run.project, "agent"), by, key, run, TaskRow(said))
    return observe(episode.pk, 0, said)


def answered(run: Run, by: User) -> Episode:
    """Ask once and answer; return the episode."""
    episode = asked(run, by)
    record_actions([Action(episode.pk, 0, "12", 0, 2, 3)])
    return episode


def written(episode: Episode) -> Episode:
    """Write the rollout of an answered episode, as the explorer does."""
    end_episode(episode.pk, "answered")
    group = Group.objects.claim(Group.State.SAMPLING, "e", 60, 1, episode.run)[0]
    Group.finish_rollouts(
        {group.pk: group.claimed}, [Outcome(episode.rollout_id, tokens_of("12"), "12", "stop")]
    )
    settle_episodes([Ending(episode.pk, episode.rollout_id, "answered")])
    episode.refresh_from_db()
    return episode
