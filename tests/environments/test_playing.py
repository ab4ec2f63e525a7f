"""An episode moves between players by database rows: a repeated message counts once, and a message
out of turn is rejected.
"""

import pytest

from apps.environments.errors import CannotPlay
from apps.environments.models import Episode, EpisodeTurn
from apps.environments.playing import Action, observe, record_actions, record_turn_reward


def refused(do, *words, **named) -> str:
    with pytest.raises(CannotPlay) as refusal:
        do(*words, **named)
    return refusal.value.code


@pytest.fixture
def episode(guessing, opened) -> Episode:
    return opened(guessing)[0]


def test_observation_gives_the_policy_the_turn_and_an_action_the_environment(episode):
    assert observe(episode.pk, 0, "guess").state == "policy"
    record_actions([Action(episode.pk, 0, "7", 0, 2)])
    episode.refresh_from_db()
    turn = episode.seen.get()
    assert (episode.state, episode.turns) == ("environment", 1)
    assert (turn.observation, turn.action, turn.first, turn.tokens, turn.reward) == (
        "guess",
        "7",
        0,
        2,
        None,
    )
    assert turn.answered_at >= turn.requested_at


def test_reward_of_an_action_comes_with_the_next_observation(episode):
    observe(episode.pk, 0, "guess")
    record_actions([Action(episode.pk, 0, "7", 0, 2)])
    ended = observe(episode.pk, 1, [{"role": "user", "content": "yes"}], reward=1, done=True)
    assert list(episode.seen.values_list("reward", "done")) == [(1.0, False), (None, True)]
    assert (ended.state, ended.reason) == (
        "done",
        "the environment is done",
    ) and ended.closed_at is not None


def test_repeated_observation_counts_once_and_a_different_one_is_rejected(episode):
    observe(episode.pk, 0, "guess")
    record_actions([Action(episode.pk, 0, "7", 0, 2)])
    for _ in range(2):
        observe(episode.pk, 1, "higher", reward=0.5)
    assert EpisodeTurn.objects.count() == 2
    assert refused(observe, episode.pk, 1, "lower", reward=0.5) == "changed"
    assert refused(observe, episode.pk, 1, "higher", reward=0.25) == "changed"
    assert refused(observe, episode.pk, 1, "higher", reward=0.5, done=True) == "changed"


def test_message_out_of_turn_is_rejected(episode):
    assert refused(observe, episode.pk, 1, "too early") == "not_your_move"
    observe(episode.pk, 0, "guess")
    assert refused(observe, episode.pk, 1, "nobody has acted") == "not_your_move"
    assert refused(record_turn_reward, episode.pk, 0, 1.0) == "not_your_move"
    record_actions([Action(episode.pk, 1, "of an observation that is not there", 0, 1)])
    assert episode.seen.get().answered_at is None


def test_nothing_is_accepted_after_the_end(episode):
    observe(episode.pk, 0, "over at once", done=True)
    record_actions([Action(episode.pk, 0, "7", 0, 2)])
    assert episode.seen.get().answered_at is None
    assert refused(observe, episode.pk, 1, "more") == "closed"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1.5, -0.1, True, "1", 10**400])
def test_invalid_reward_is_rejected(episode, value):
    observe(episode.pk, 0, "guess")
    record_actions([Action(episode.pk, 0, "7", 0, 2)])
    assert refused(observe, episode.pk, 1, "higher", reward=value) == "bad_reward"
    assert refused(record_turn_reward, episode.pk, 0, value) == "bad_reward"


@pytest.mark.parametrize(
    "said",
    [
        None,
        3,
        [],
        [{"role": "assistant", "content": "x"}],
        [{"role": "user"}],
        "a\0b",
        "\ud800",
        "x" * 200_001,
    ],
)
def test_observation_that_cannot_be_stored_is_rejected(episode, said):
    assert refused(observe, episode.pk, 0, said) == "bad_observation"


def test_separate_reward_counts_once(episode):
    observe(episode.pk, 0, "guess")
    record_actions([Action(episode.pk, 0, "7", 0, 2)])
    for _ in range(3):
        assert record_turn_reward(episode.pk, 0, 0.5).reward == 0.5
    assert refused(record_turn_reward, episode.pk, 0, 0.25) == "changed"
    assert refused(observe, episode.pk, 1, "higher", reward=0.25) == "changed"
    observe(episode.pk, 1, "higher")
    assert list(episode.seen.values_list("reward", flat=True)) == [0.5, None]


def test_action_on_a_missing_observation_is_reported(episode):
    observe(episode.pk, 0, "guess")
    assert record_actions([Action(episode.pk, 0, "7", 0, 2)]) == []
    assert record_actions([Action(episode.pk, 0, "7", 0, 2)]) == []  # it was written before
    assert record_actions([Action(episode.pk, 1, "8", 2, 2)]) == [episode.pk]
    observe(episode.pk, 1, "over", done=True)
    assert record_actions([Action(episode.pk, 2, "9", 4, 2)]) == []  # it has ended


def test_next_observation_cannot_change_an_earlier_reward(episode):
    observe(episode.pk, 0, "guess")
    record_actions([Action(episode.pk, 0, "7", 0, 2)])
    record_turn_reward(episode.pk, 0, 0.5)
    assert refused(observe, episode.pk, 1, "higher", reward=0.25) == "changed"
    assert EpisodeTurn.objects.count() == 1
    assert observe(episode.pk, 1, "higher", reward=0.5).turns == 2
    assert list(episode.seen.values_list("reward", flat=True)) == [0.5, None]
