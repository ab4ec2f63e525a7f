"""Served replies are trained on when they got feedback, and dropped with the reason when they did
not.
"""

import pytest
from django.utils import timezone

from apps.buffer.models import Experience
from apps.environments.judging import send_on
from apps.environments.models import Episode
from apps.environments.playing import record_turn_reward
from apps.pipelines.refining import refine
from apps.rewards.scoring import open_questions, record_verdicts
from apps.rollouts.models import Group
from tests.serving import SERVED, answered, written


@pytest.fixture
def run(new_run):
    return new_run(**SERVED, serve={"over_bound": "answer_only"}, max_staleness=0)


def refined() -> list[Group]:
    """End the time for feedback, run scoring and refining, and return all groups."""
    Episode.objects.filter(reward_until__isnull=False).update(reward_until=timezone.now())
    send_on()
    claimed = Group.objects.claim(Group.State.SCORING, "s", 60, 10)
    assert open_questions(claimed) == []
    record_verdicts(claimed, [])
    refine(Group.objects.claim(Group.State.JUDGED, "r", 60, 10))
    return list(Group.objects.order_by("pk"))


def test_served_answer_with_feedback_is_trained(run, alice):
    record_turn_reward(written(answered(run, alice)).pk, 0, 0.25)
    assert [group.state for group in refined()] == ["admitted"]
    assert Experience.objects.get().reward == 0.25


def test_served_answer_without_feedback_is_dropped_and_has_no_reward(run, alice):
    written(answered(run, alice))
    [group] = refined()
    assert (group.state, group.reason) == ("dropped", "no feedback came in time")


def test_answer_beyond_the_staleness_limit_keeps_its_reward_and_is_not_trained(run, alice):
    episodes = [written(answered(run, alice)) for _ in range(3)]
    for episode in episodes:
        record_turn_reward(episode.pk, 0, 1.0)
    *within, beyond = refined()
    assert [group.state for group in within] == ["admitted", "admitted"]
    assert (beyond.state, beyond.reason.partition(":")[0]) == (
        "dropped",
        "answered but not trained on",
    )
    assert beyond.rollouts.get().rewards.get().value == 1.0 and Experience.objects.count() == 2
