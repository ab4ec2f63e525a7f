"""A session is started, rewarded, ended and exported; feedback on replies is stored at once, in
versions.
"""

import httpx
import pytest
from django.db.models.functions import Now

from apps.environments.closing import Ending, settle_episodes
from apps.environments.models import Episode, EpisodeTurn, Feedback
from apps.feedback.models.lessons import Demonstration, Preference
from apps.rewards.models import Reward
from apps.rollouts.models import Outcome, Rollout, RolloutPayload
from tests.conftest import tokens_of
from tests.environments.agents.test_chat import ASKED, ask

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def post(address, key):
    def send(verb: str, secret: str = key, status: int | None = None, **body: object) -> dict:
        headers = {"Authorization": f"Bearer {secret}"}
        answer = httpx.post(f"{address}/v1/{verb}", json=body, headers=headers, timeout=20)
        assert status is None or answer.status_code == status, answer.text
        return answer.json()

    return send


def test_a_session_from_its_start_to_its_export(post, client_of, episodes, actor):
    begun = post("rl/start_session", status=201, task_id="s1")
    assert begun["task"]["messages"] and begun["session_id"] == "s1"
    assert post("rl/start_session", status=201, task_id="s1") == begun
    mine = begun["api_key"]
    first = ask(client_of(mine))
    ask(
        client_of(mine),
        [*ASKED, {"role": "assistant", "content": "one"}, {"role": "user", "content": "higher"}],
    )
    assert post("rl/set_reward", mine, 200, reward=0.25, interaction_id=first.id)["reward"] == 0.25
    assert post("rl/set_reward", mine, 200, reward=1)["interaction_id"].endswith("-1")
    ended = post("rl/end_session", mine, 200)
    assert (ended["state"], ended["rewards"]) == ("done", [0.25, 1.0])
    assert post("rl/end_session", mine, 200) == ended
    taken = post("rl/export_trajectories", mine, 200)
    assert [(turn["answer"], turn["reward"]) for turn in taken["interactions"]] == [
        ("one", 0.25),
        ("two", 1.0),
    ]
    assert taken["interactions"][0]["messages"] == ASKED


def test_invalid_session_requests_are_rejected_with_the_reason(post, episodes):
    assert post("rl/end_session", status=422)["error"]["param"] == "X-Rftweb-Episode"
    assert post("rl/start_session", status=400, task_id="7")["error"]["param"] == "task_id"
    assert post("rl/start_session", status=400, tasks="x")["error"]["param"] == "tasks"
    begun = post("rl/start_session", status=201)
    assert post("rl/set_reward", begun["api_key"], 409, reward=1)["error"]["code"] == "not_answered"
    assert (
        post("rl/set_reward", status=404, reward=1, interaction_id="chatcmpl-1")["error"]["code"]
        == "completion_not_found"
    )
    assert post("rl/end_session", begun["api_key"], 200)["state"] == "abandoned"


def test_users_thumb_becomes_the_reward_and_can_be_changed(post, client, episodes, actor):
    said = ask(client, extra_headers={"X-Rftweb-Episode": "a"})
    up = post("feedback", status=201, completion_id=said.id, thumb="up", user="ann")
    assert (up["version"], up["reward"], up["is_late"]) == (1, 1.0, False)
    assert (
        post("feedback", status=201, completion_id=said.id, thumb="up", user="ann")["version"] == 1
    )
    assert (
        post("feedback", status=201, completion_id=said.id, score=0.5, user="ben")["reward"] == 0.75
    )
    assert (
        post("feedback", status=201, completion_id=said.id, thumb="down", user="ann")["reward"]
        == 0.25
    )
    assert list(Feedback.objects.values_list("person", "version", "value")) == [
        ("ann", 1, 1.0),
        ("ben", 1, 0.5),
        ("ann", 2, 0.0),
    ]


def test_feedback_ends_an_episode_of_one_call(post, client, episodes, actor):
    said = ask(client)
    post("feedback", status=201, completion_id=said.id, correction="two")
    assert Episode.objects.get(turns=1).state == "environment"
    post("feedback", status=201, completion_id=said.id, thumb="down")
    assert Episode.objects.get(turns=1).state == "done"


def test_correction_becomes_one_demonstration_and_one_preference(post, client, episodes, actor):
    said = ask(client)
    for _ in range(2):
        post("feedback", status=201, completion_id=said.id, correction="two")
    lesson = Demonstration.objects.get()
    pair = Preference.objects.get()
    assert (lesson.prompt, lesson.answer, pair.rejected) == (ASKED, "two", "one")


def test_feedback_after_the_episode_settled_is_stored_as_late(post, client, episodes, actor):
    said = ask(client)
    post("feedback", status=201, completion_id=said.id, thumb="up")
    episode = Episode.objects.get(turns=1)
    settle_episodes([Ending(episode.pk, episode.rollout_id, "stop")])
    late = post("feedback", status=201, completion_id=said.id, thumb="down")
    assert (late["is_late"], late["version"], late["reward"], late["late_reward"]) == (
        True,
        2,
        1.0,
        0.0,
    )
    assert EpisodeTurn.objects.get().reward == 1.0


def written(episode: Episode) -> None:
    Rollout.write_outcomes([Outcome(episode.rollout_id, tokens_of("one"), "one", "stop")])
    settle_episodes([Ending(episode.pk, episode.rollout_id, "stop")])


def test_session_without_stored_arrays_is_exported_with_the_release_time(
    post, client_of, episodes, actor
):
    mine = post("rl/start_session", status=201, task_id="s1")["api_key"]
    ask(client_of(mine))
    post("rl/end_session", mine, 200)
    episode = Episode.objects.get(key="s1")
    written(episode)
    before = post("rl/export_trajectories", mine, 200)
    assert before["interactions"][0]["token_ids"] and before["arrays_released_at"] is None
    RolloutPayload.objects.filter(rollout=episode.rollout_id).delete()
    Rollout.objects.filter(pk=episode.rollout_id).update(arrays_released_at=Now())
    after = post("rl/export_trajectories", mine, 200)
    assert after["interactions"][0]["token_ids"] is None and after["arrays_released_at"]
    assert (after["weight_versions"], after["interactions"][0]["answer"]) == (
        before["weight_versions"],
        "one",
    )


def test_feedback_can_be_changed_within_its_time_until_it_is_final(
    post, client, agent, run, opened, actor
):
    agent.reward_s = 60
    agent.save()
    opened(agent, run)
    said = ask(client)
    post("feedback", status=201, completion_id=said.id, thumb="up")
    episode = Episode.objects.get(turns=1)
    written(episode)
    assert not Reward.objects.exists()  # it ended with the first feedback, and waits
    changed = post("feedback", status=201, completion_id=said.id, thumb="down")
    assert (changed["is_late"], changed["version"], changed["reward"]) == (False, 2, 0.0)
    last = post("rl/set_reward", status=200, reward=0.5, interaction_id=said.id, final=True)
    assert (last["is_late"], Reward.objects.get().value) == (False, 0.5)
    assert post("feedback", status=201, completion_id=said.id, thumb="up")["is_late"]


def test_session_can_end_with_the_final_reward(post, client_of, agent, run, opened, actor):
    agent.reward_s = 60
    agent.save()
    opened(agent, run)
    mine = post("rl/start_session", status=201, task_id="s1")["api_key"]
    ask(client_of(mine))
    post("rl/set_reward", mine, 200, reward=1)
    assert post("rl/end_session", mine, 400, final="yes")["error"]["param"] == "final"
    post("rl/end_session", mine, 200, final=True)
    written(Episode.objects.get(key="s1"))
    assert Reward.objects.get().value == 1.0


def test_invalid_feedback_is_rejected(post, client, episodes, actor):
    said = ask(client)
    wrong = {
        "thumb": {},
        "score": {"score": 2},
        "reward": {"score": True},
        "user": {"thumb": "up", "user": 3},
    }
    for words in wrong.values():
        refused = post("feedback", status=400, completion_id=said.id, **words)["error"]
        assert refused["type"] == "invalid_request_error"
    assert (
        post("feedback", status=404, completion_id="chatcmpl-999999-0", thumb="up")["error"]["code"]
        == "completion_not_found"
    )
    assert not Feedback.objects.exists()
