"""What callers leave is learned from when somebody said what it is worth, and dropped with the
reason when not.
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
    """All groups, whose time for words is over, after the stations they go through."""
    Episode.objects.filter(reward_until__isnull=False).update(reward_until=timezone.now())
    send_on()
    claimed = Group.objects.claim(Group.State.SCORING, "s", 60, 10)
    assert open_questions(claimed) == []
    record_verdicts(claimed, [])
    refine(Group.objects.claim(Group.State.JUDGED, "r", 60, 10))
    return list(Group.objects.order_by("pk"))


def test_an_answer_that_was_judged_is_learned_from(run, alice):
    record_turn_reward(written(answered(run, alice)).pk, 0, 0.25)
    assert [group.state for group in refined()] == ["admitted"]
    assert Experience.objects.get().reward == 0.25


def test_an_answer_of_which_nobody_said_anything_is_no_zero(run, alice):
    written(answered(run, alice))
    [group] = refined()
    assert (group.state, group.reason) == ("dropped", "no feedback came in time")


def test_what_was_answered_only_is_kept_with_its_reward_and_not_learned_from(run, alice):
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
