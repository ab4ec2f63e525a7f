"""How episodes end: a rollout's reward is written once, a failure has no reward but a reason, and a
breaker counts failures.
"""

from datetime import timedelta

import pytest
from django.utils import timezone

from apps.environments.closing import (
    Ending,
    abandon,
    close_left,
    end_episode,
    fail_episode,
    fail_overdue,
    rests,
    settle_episodes,
)
from apps.environments.episode_opening import assign_episode, open_episodes
from apps.environments.errors import CannotPlay
from apps.environments.ledger import (
    episodes_are_rewarded_once,
    episodes_end_with_their_rollouts,
)
from apps.environments.models import Environment, Episode
from apps.environments.playing import Action, observe, record_actions, record_turn_reward
from apps.rewards.combining import Judgement, combined
from apps.rewards.models import Reward
from apps.rollouts.models import Group, Rollout


def turn(episode: Episode, number: int, earned: float | None = None) -> None:
    """Send an observation with the reward of the previous action, and an action on it."""
    observe(episode.pk, number, f"see {number}", reward=earned)
    record_actions([Action(episode.pk, number, f"do {number}", number, 1)])


def settled(episode: Episode, failure: str = "") -> Reward:
    settle_episodes([Ending(episode.pk, episode.rollout_id, "turn limit", failure)])
    return Reward.objects.get(rollout=episode.rollout_id)


@pytest.fixture
def episode(guessing, opened) -> Episode:
    return opened(guessing)[0]


def test_rollout_gets_the_sum_of_its_turn_rewards_once(episode):
    turn(episode, 0)
    turn(episode, 1, 0.25)
    observe(episode.pk, 2, "over", reward=0.5, done=True)
    for _ in range(2):
        word = settled(episode)
    assert (word.source, word.scorer, word.value, word.details["rewards"]) == (
        "environment",
        "guess_number",
        0.75,
        [0.25, 0.5],
    )


def test_episode_without_any_reward_has_no_value_but_a_reason(episode):
    turn(episode, 0)
    word = settled(episode)
    assert (word.value, word.reason) == (None, "the environment gave no reward")
    assert episode.seen.get().reason == "the environment gave no reward"


def test_failed_episode_has_no_reward_whatever_it_earned_before(episode):
    turn(episode, 0)
    turn(episode, 1, 1.0)
    fail_episode(episode.pk, "it crashed")
    word = settled(episode, failure="environment failed: it crashed")
    assert (word.value, word.reason) == (None, "environment failed: it crashed")
    assert Episode.objects.get(pk=episode.pk).state == "failed"


def test_failure_on_our_side_does_not_count_against_the_environment(episode):
    settled(episode, failure="the engine returned nothing (error)")
    assert Episode.objects.get(pk=episode.pk).state == "abandoned"
    assert Environment.objects.get().failures == 0


def test_reward_after_settlement_is_stored_as_late(episode):
    turn(episode, 0)
    turn(episode, 1, 0.25)
    settled(episode)
    late = record_turn_reward(episode.pk, 1, 0.5)
    assert (late.reward, late.late_reward) == (None, 0.5)
    assert record_turn_reward(episode.pk, 1, 0.5).late_reward == 0.5
    assert Reward.objects.get().value == 0.25


def test_repeated_end_is_ignored_and_a_different_end_is_rejected(episode):
    assert (
        end_episode(episode.pk, "the user left").state
        == end_episode(episode.pk, "again").state
        == "done"
    )
    assert Episode.objects.get(pk=episode.pk).reason == "the user left"
    with pytest.raises(CannotPlay, match="the user left"):
        fail_episode(episode.pk, "crashed")


def test_breaker_opens_after_consecutive_failures_and_closes_with_a_success(
    guessing, opened, new_run
):
    run = new_run(environment={"name": guessing.name}, rewards=[], group_size=7)
    *episodes, last = opened(guessing, run)
    for count, episode in enumerate(episodes, start=1):
        fail_episode(episode.pk, f"crash {count}")
        assert rests(guessing) == (count >= 5)
    guessing.refresh_from_db()
    assert guessing.open_reason == "crash 6" and guessing.open_until > timezone.now() + timedelta(
        seconds=55
    )
    end_episode(last.pk, "well played")
    assert not rests(guessing) and Environment.objects.get().failures == 0


def test_silent_environment_fails_its_taken_episode_but_not_a_waiting_one(pushed, opened, alice):
    first, second = opened(pushed)
    taken = assign_episode(pushed, alice)
    Episode.objects.update(moved_at=timezone.now() - timedelta(hours=1))
    fail_overdue(pushed, [first.pk, second.pk])
    assert dict(Episode.objects.values_list("pk", "state")) == {
        taken.pk: "failed",
        second.pk: "waiting",
    }


def test_person_has_a_separate_time_limit_for_each_answer(pushed, opened, alice):
    opened(pushed)
    by_hand = assign_episode(pushed, alice, by_hand=True)
    by_program = assign_episode(pushed, alice)
    both = [by_hand.pk, by_program.pk]
    Environment.objects.update(person_s=600.0)
    pushed.refresh_from_db()
    ago = timezone.now() - timedelta(seconds=500)
    Episode.objects.update(moved_at=ago, begun_at=timezone.now() - timedelta(days=1))
    fail_overdue(pushed, both)
    assert dict(Episode.objects.values_list("pk", "state")) == {
        by_hand.pk: "environment",
        by_program.pk: "failed",
    }
    Episode.objects.update(moved_at=ago - timedelta(seconds=101))
    fail_overdue(pushed, both)
    by_hand.refresh_from_db()
    assert (by_hand.state, by_hand.reason) == ("failed", "its answer took longer than 600 s")


def test_episode_over_its_time_limit_fails(episode, guessing):
    Episode.objects.filter(pk=episode.pk).update(begun_at=timezone.now() - timedelta(hours=1))
    fail_overdue(guessing, [episode.pk])
    assert Episode.objects.get(pk=episode.pk).reason == "the episode took longer than 1800 s"


def test_open_episodes_of_a_closed_group_are_abandoned(episode):
    Group.objects.update(state=Group.State.SCORING)
    assert close_left() == 2
    assert set(Episode.objects.values_list("state", flat=True)) == {"abandoned"}


def test_checks_report_an_open_episode_of_a_written_rollout_and_a_wrong_reward(episode):
    Rollout.objects.filter(pk=episode.rollout_id).update(state=Rollout.State.FINISHED)
    assert (
        len(list(episodes_end_with_their_rollouts()))
        == len(list(episodes_are_rewarded_once()))
        == 1
    )
    turn(episode, 0)
    observe(episode.pk, 1, "over", reward=1, done=True)
    settled(episode)
    assert [*episodes_end_with_their_rollouts(), *episodes_are_rewarded_once()] == []
    Reward.objects.update(value=0.5)
    assert "the rewards of its turns sum to 1" in next(episodes_are_rewarded_once())


def test_reward_of_the_environment_is_weighted_with_the_scorers(plan):
    both = plan(environment={"name": "guess_number", "weight": 2.0})
    assert combined([Judgement("sort", 0.5), Judgement("guess_number", 0.25)], both) == 1.0
    assert combined([Judgement("sort", 0.5)], both) is None
    assert combined([Judgement("sort", 0.5), Judgement("guess_number", None)], both) is None


# -- opening


def test_reopening_returns_the_same_episodes_and_a_new_attempt_abandons_them(guessing, opened):
    before = opened(guessing)
    group = Group.objects.get()
    rollouts = list(Rollout.objects.order_by("sample_index"))
    choice = group.run.settings.environment
    again = open_episodes(guessing, choice, [group], rollouts)
    assert [again[rollout.pk].pk for rollout in rollouts] == [episode.pk for episode in before]
    group.fence += 1
    other = open_episodes(guessing, choice, [group], rollouts)
    assert {episode.pk for episode in other.values()}.isdisjoint(episode.pk for episode in before)
    assert set(
        Episode.objects.filter(pk__in=[e.pk for e in before]).values_list("state", flat=True)
    ) == {"abandoned"}
    with pytest.raises(CannotPlay, match="another explorer"):
        observe(before[0].pk, 0, "too late")


def test_episode_is_taken_once_per_key_and_only_within_the_parallel_limit(
    pushed, opened, new_run, alice, bob
):
    run = new_run(environment={"name": pushed.name}, rewards=[], group_size=4)
    opened(pushed, run)
    first = assign_episode(pushed, alice, key="game 1")
    assert (
        assign_episode(pushed, alice, key="game 1").pk == first.pk and first.state == "environment"
    )
    with pytest.raises(CannotPlay, match="another client"):
        assign_episode(pushed, bob, key="game 1")
    second = assign_episode(pushed, bob)
    assert second.pk != first.pk and assign_episode(pushed, bob) is None  # it may play two
    end_episode(first.pk, "over")
    assert assign_episode(pushed, bob) is not None


def test_rollouts_of_a_group_start_alike_with_the_lowest_turn_limit(
    pushed, opened, new_run, taskset
):
    taskset.tasks.update(meta={"seed": 42, "options": {"size": 5}})
    run = new_run(
        environment={"name": pushed.name, "max_turns": 2, "options": {"size": 4, "walls": 0}},
        rewards=[],
    )
    for episode in opened(pushed, run):
        assert (episode.seed, episode.options, episode.turn_limit) == (
            42,
            {"size": 5, "walls": 0},
            2,
        )


def test_abandoned_episode_has_a_reason(episode):
    assert abandon(episode.pk, "its client is gone").reason == "its client is gone"
