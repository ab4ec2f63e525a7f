"""The explorer answers the callers of a serving run: a single call at once, a session until its
caller was silent for too long.
"""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.utils import timezone

from apps.environments.environment_lookup import find_or_register
from apps.environments.models import FAILURES_ALLOWED, Environment, Episode
from apps.rollouts.models import Group, Rollout
from apps.runs.models import Run
from tests.serving import SERVED, asked

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def agent(project) -> Environment:
    return find_or_register(project, "agent")


@pytest.fixture
def run(agent, new_run, tiny_policy) -> Run:
    return new_run(
        **SERVED,
        serve={"idle_s": 60},
        engine="transformers",
        sampling={"max_tokens": 40},
        max_staleness=9,
    )


def served_until(stage, is_so: Callable[[], object]) -> None:
    def look() -> object:
        stage.explorer.serve()
        return is_so()

    stage.eventually(look, 300)


def answered(stage, episode: Episode) -> None:
    served_until(stage, lambda: episode.seen.filter(answered_at__isnull=False).exists())


def test_call_without_a_session_name_ends_when_it_is_answered(stage, run, alice):
    episode = asked(run, alice)
    served_until(stage, lambda: Rollout.objects.get(pk=episode.rollout_id).state == "finished")
    episode.refresh_from_db()
    assert (episode.state, episode.reason, episode.seen.get().weight_version) == (
        "done",
        "answered",
        0,
    )
    assert Group.objects.get().awaits_rewards and episode.reward_until is not None


def test_session_waits_for_its_caller_for_the_runs_idle_time(stage, run, alice):
    episode = asked(run, alice, "mine")
    answered(stage, episode)
    run.change_config(None, serve={"idle_s": 30})
    Episode.objects.filter(pk=episode.pk).update(moved_at=timezone.now() - timedelta(seconds=31))
    served_until(stage, lambda: not Episode.objects.get(pk=episode.pk).is_open)
    assert Episode.objects.get(pk=episode.pk).reason == "the agent sent nothing for 30 s"


def test_call_taken_by_a_lost_explorer_is_not_answered_by_the_next(stage, run, alice):
    episode = asked(run, alice)
    Group.objects.update(fence=1)  # the first explorer took it, and its lease has expired
    served_until(stage, lambda: Group.objects.get().state == "dropped")
    assert not stage.session.rollouts and not episode.seen.get().answered_at


def test_call_without_room_for_a_reply_fails_without_blaming_the_agent(stage, run, agent, alice):
    for _ in range(FAILURES_ALLOWED):
        episode = asked(run, alice, question="1" * 200)
        served_until(stage, lambda pk=episode.pk: not Episode.objects.get(pk=pk).is_open)
    episode.refresh_from_db()
    assert (episode.state, "no room for a reply" in episode.reason) == ("failed", True)
    answered(stage, asked(run, alice))
    agent.refresh_from_db()
    assert agent.failures == 0
