"""When rewards may come after an episode's end, its rollout waits until all have come or the time
is over.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from apps.environments.closing import Ending, settle_episodes
from apps.environments.episode_opening import open_episodes
from apps.environments.judging import send_on
from apps.environments.ledger import (
    episodes_are_rewarded_once,
    episodes_end_with_their_rollouts,
)
from apps.environments.models import Environment, Episode
from apps.environments.playing import Action, observe, record_actions, record_turn_reward
from apps.environments.rewarding import TurnReward, reward_many
from apps.rewards.models import Reward
from apps.rollouts.models import Group, Outcome, Rollout
from apps.runs.models import Run
from tests.conftest import tokens_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def patient(guessing) -> Environment:
    """Create an environment whose rewards may come an hour after the end."""
    guessing.reward_s = 3600
    guessing.save()
    return guessing


@pytest.fixture
def played(patient, opened) -> Callable[..., list[Episode]]:
    """Return a function that ends a group's episodes after two turns and writes their rollouts;
    `paid` is the reward of the first turn.
    """

    def play(paid: float | None = None) -> list[Episode]:
        episodes = opened(patient)
        for episode in episodes:
            for number, earned in ((0, None), (1, paid)):
                observe(episode.pk, number, f"see {number}", reward=earned)
                record_actions([Action(episode.pk, number, f"do {number}", number, 1)])
            observe(episode.pk, 2, "over", done=True)
        written(episodes)
        return [Episode.objects.get(pk=episode.pk) for episode in episodes]

    return play


def written(episodes: list[Episode], failure: str = "") -> None:
    group = Group.objects.get(rollouts=episodes[0].rollout_id)
    tokens = None if failure else tokens_of("12")
    Group.finish_rollouts(
        {group.pk: group.claimed},
        [Outcome(one.rollout_id, tokens, "12", failure or "stop") for one in episodes],
    )
    settle_episodes([Ending(one.pk, one.rollout_id, "stop", failure) for one in episodes])


def word(episode: Episode) -> Reward | None:
    return Reward.objects.filter(rollout=episode.rollout_id).first()


def claimed() -> list[Group]:
    send_on()
    return Group.objects.claim(Group.State.SCORING, "scorer@test", 60, 8)


def over(*episodes: Episode) -> None:
    """Set the reward deadline of these episodes to a moment ago."""
    Episode.objects.filter(pk__in=[one.pk for one in episodes]).update(
        reward_until=timezone.now() - timedelta(milliseconds=1)
    )


def violations() -> list[str]:
    return [*episodes_end_with_their_rollouts(), *episodes_are_rewarded_once()]


def test_group_is_scored_only_when_all_its_rewards_have_come(played):
    first, second = played()
    assert word(first) is None and claimed() == [] and violations() == []
    assert reward_many([TurnReward(first.pk, turn, 0.25) for turn in (0, 1)])[0].is_late is False
    assert word(first).value == 0.5 and claimed() == []  # its neighbour is still waited for
    reward_many([TurnReward(second.pk, turn, 1.0) for turn in (0, 1)])
    assert word(second).value == 2.0 and len(claimed()) == 1 and violations() == []


def test_episode_with_all_rewards_does_not_wait(patient, opened):
    episodes = opened(patient)
    for episode in episodes:
        observe(episode.pk, 0, "see")
        record_actions([Action(episode.pk, 0, "do", 0, 1)])
        observe(episode.pk, 1, "over", reward=1, done=True)
    written(episodes)
    assert [word(episode).value for episode in episodes] == [1.0, 1.0] and len(claimed()) == 1


def test_final_reward_ends_the_waiting(played):
    first, second = played()
    record_turn_reward(first.pk, 1, 1.0, is_final=True)
    reward_many([TurnReward(second.pk, None, 0.5, is_final=True)])
    assert (word(first).value, word(second).value) == (1.0, 0.5) and len(claimed()) == 1


def test_final_reward_before_the_end_applies_at_the_end(patient, opened):
    episodes = opened(patient)
    for episode in episodes:
        observe(episode.pk, 0, "see")
        record_actions([Action(episode.pk, 0, "do", 0, 1)])
        record_turn_reward(episode.pk, 0, 1.0, is_final=True)
        observe(episode.pk, 1, "more")
        record_actions([Action(episode.pk, 1, "do", 1, 1)])
        observe(episode.pk, 2, "over", done=True)
    written(episodes)
    assert [word(episode).value for episode in episodes] == [1.0, 1.0]


def test_after_the_deadline_partial_rewards_count_and_episodes_without_any_get_none(played):
    first, second = played()
    record_turn_reward(first.pk, 0, 0.25)
    over(first, second)
    assert len(claimed()) == 1 and violations() == []
    assert word(first).value == 0.25
    assert (word(second).value, word(second).reason) == (
        None,
        "the environment gave no reward within 3600 s of its end",
    )
    assert set(second.seen.filter(done=False).values_list("reason", flat=True)) == {
        word(second).reason
    }


def test_reward_after_the_deadline_is_late_even_before_settlement(played):
    first, second = played()
    over(first)
    assert record_turn_reward(first.pk, 0, 1.0).late_reward == 1.0
    [late, timely] = reward_many([TurnReward(first.pk, 1, 1.0), TurnReward(second.pk, 1, 1.0)])
    assert (late.is_late, timely.is_late) == (True, False)
    send_on()
    assert word(first).value is None and word(second) is None


def test_failed_rollout_does_not_wait_for_rewards(patient, opened):
    episodes = opened(patient)
    written(episodes, "environment failed: it crashed")
    assert [word(episode).reason for episode in episodes] == [
        "environment failed: it crashed"
    ] * 2 and len(claimed()) == 1


def test_group_that_became_stale_while_waiting_is_dropped_with_the_reason(played, new_run):
    first, second = played(paid=0.5)
    run = first.run
    Run.objects.filter(pk=run.pk).update(published_version=run.settings.max_staleness + 1)
    send_on()
    group = Group.objects.get()
    assert (group.state, group.reason) == (
        "dropped",
        "stale: it waited for its rewards until it was older than version 1",
    )
    assert Run.objects.get(pk=run.pk).groups_dropped == 1
    assert word(first).value == word(second).value == 0.5  # rewards until then are stored
    assert record_turn_reward(first.pk, 1, 1.0).late_reward == 1.0 and violations() == []


def test_reward_time_of_the_run_overrides_that_of_the_environment(pushed, opened, new_run):
    run = new_run(environment={"name": pushed.name, "reward_s": 5}, rewards=[])
    assert {episode.reward_s for episode in opened(pushed, run)} == {5.0}


def test_abandoned_attempt_does_not_wait_for_rewards(patient, opened):
    before = opened(patient)
    for episode in before:
        observe(episode.pk, 0, "over at once", done=True)
    group = Group.objects.get()
    group.fence += 1
    open_episodes(patient, group.run.settings.environment, [group], list(Rollout.objects.all()))
    assert not Episode.objects.filter(reward_until__isnull=False).exists()


def test_checks_report_an_episode_that_waits_in_vain(played):
    first, second = played()
    Episode.objects.filter(pk=first.pk).update(reward_until=timezone.now() - timedelta(days=1))
    assert "it has not been judged since" in next(episodes_are_rewarded_once())
    send_on()
    Group.objects.update(awaits_rewards=False)
    assert "waits for rewards, but group" in next(episodes_are_rewarded_once())
    assert word(second) is None


@pytest.mark.django_db(transaction=True)
def test_same_reward_sent_fifty_times_at_once_counts_once(played):
    first, _ = played()

    def send(_: int) -> bool:
        try:
            return (
                reward_many(
                    [TurnReward(first.pk, 0, 0.25), TurnReward(first.pk, 1, 0.5, is_final=True)]
                )[0].turn
                == 0
            )
        finally:
            connection.close()

    with ThreadPoolExecutor(10) as pool:
        assert all(pool.map(send, range(50)))
    assert (
        word(first).value == 0.75 and Reward.objects.filter(rollout=first.rollout_id).count() == 1
    )
    assert list(first.seen.filter(done=False).values_list("reward", "late_reward")) == [
        (0.25, None),
        (0.5, None),
    ]
