"""Ends and rewards of an episode over REST; a reward may come later."""

import json

import pytest

from apps.environments.closing import Ending, settle_episodes
from apps.environments.models import Episode
from apps.rewards.models import Reward
from apps.rollouts.models import Outcome, Rollout
from tests.api.episodes import acted, episode, maze, turn, waiting  # noqa: F401  (fixtures)
from tests.conftest import tokens_of

pytestmark = pytest.mark.django_db

# -- ends


def test_result_rewards_the_last_action_and_ends_the_episode(maze, episode):
    pk = episode["id"]
    turn(maze, pk)
    acted(pk, 0)
    ended = maze.post(f"episodes/{pk}/result/", {"reward": 2, "reason": "out of the maze"})
    assert ended.status_code == 200 and (ended.json()["state"], ended.json()["reason"]) == (
        "done",
        "out of the maze",
    )
    assert Episode.objects.get(pk=pk).seen.get().reward == 2


def test_result_needs_at_most_8_queries_and_6_when_repeated(
    maze, episode, django_assert_max_num_queries
):
    pk = episode["id"]
    turn(maze, pk)
    acted(pk, 0)
    for most in (8, 6):
        with django_assert_max_num_queries(most):
            assert maze.post(f"episodes/{pk}/result/", {"reward": 2}).status_code == 200


def test_failure_is_counted_for_the_environment_and_ends_the_episode(maze, episode):
    ended = maze.post(
        f"episodes/{episode['id']}/result/", {"outcome": "failed", "reason": "the board fell down"}
    )
    assert ended.json()["state"] == "failed"
    assert maze.get("environments/maze/").json()["failures"] == 1
    assert maze.post(f"episodes/{episode['id']}/result/", {"outcome": "done"}).status_code == 410


def test_reward_without_an_action_is_refused_and_the_episode_stays_open(maze, episode):
    answer = maze.post(f"episodes/{episode['id']}/result/", {"reward": 1})
    assert answer.status_code == 422 and "reward" in answer.json()["errors"]
    assert Episode.objects.get(pk=episode["id"]).is_open


# -- rewards


def test_each_reward_has_its_own_status(maze, episode):
    pk = episode["id"]
    turn(maze, pk)
    acted(pk, 0)
    rewards = [
        {"episode": pk, "turn": 0, "reward": 1},
        {"episode": pk, "reward": 1},
        {"episode": pk, "turn": 0, "reward": 0.5},
        {"episode": pk, "turn": 3, "reward": 1},
        {"episode": pk, "turn": 0, "reward": 7},
        {"episode": 10**12, "reward": 1},
        {"episode": pk, "reward": True},
        None,
        {"episode": pk, "reward": 1, "by": "me"},
    ]
    answer = maze.post("rewards/", {"rewards": rewards})
    assert answer.status_code == 207
    assert [result["status"] for result in answer.json()["results"]] == [
        201,
        201,
        409,
        409,
        422,
        404,
        422,
        422,
        422,
    ]
    assert Episode.objects.get(pk=pk).seen.get().reward == 1


def test_reward_of_an_already_judged_rollout_is_stored_as_late(maze, episode):
    pk = episode["id"]
    turn(maze, pk)
    acted(pk, 0)
    settle_episodes([Ending(pk, episode["rollout"], "turn limit")])
    answer = maze.post("rewards/", {"rewards": [{"episode": pk, "turn": 0, "reward": 1}]})
    assert answer.status_code == 201 and answer.json()["results"][0]["is_late"]
    again = maze.post("rewards/", {"rewards": [{"episode": pk, "turn": 0, "reward": 1}]})
    assert again.json() == answer.json()
    only = Episode.objects.get(pk=pk).seen.get()
    assert (only.reward, only.late_reward) == (None, 1)


def test_later_rewards_count_until_the_final_one(maze, waiting):
    assert maze.patch("environments/maze/", {"reward_s": 60}).json()["reward_s"] == 60
    assert maze.patch("environments/maze/", {"reward_s": -1}).status_code == 422
    waiting()
    played = maze.post("environments/maze/episodes/", {}).json()
    pk = played["id"]
    turn(maze, pk)
    acted(pk, 0)
    assert maze.post(f"episodes/{pk}/result/", {}).json()["reward_until"] is not None
    written(pk)
    said = {"episode": pk, "turn": 0, "reward": 1, "final": True}
    for _ in range(2):
        assert not maze.post("rewards/", {"rewards": [said]}).json()["results"][0][
            "is_late"
        ] or is_judged(pk)
    assert maze.get(f"episodes/{pk}/").json()["reward_until"] is None and is_judged(pk)


def written(pk: int) -> None:
    """Write the episode's rollout, and settle the episode."""
    rollout = Rollout.objects.get(episodes=pk)
    Rollout.write_outcomes([Outcome(rollout.pk, tokens_of("12"), "12", "stop")])
    settle_episodes([Ending(pk, rollout.pk, "stop")])


def is_judged(pk: int) -> bool:
    return Reward.objects.filter(rollout__episodes=pk, value=1).exists()


def test_1000_rewards_need_at_most_20_queries(maze, episode, django_assert_max_num_queries):
    pk = episode["id"]
    turn(maze, pk)
    acted(pk, 0)
    body = json.dumps({"rewards": [{"episode": pk, "turn": 0, "reward": 1}] * 1_000}).encode()
    with django_assert_max_num_queries(20):
        assert maze.send("rewards/", body).status_code == 201
    assert (
        maze.post("rewards/", {"rewards": [{"episode": pk, "reward": 1}] * 1_001}).status_code
        == 422
    )
    assert maze.post("rewards/", {"rewards": []}).status_code == 422
