"""A person plays an environment that calls rftweb, on the page of the episode."""

from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from apps.environments.models import Episode
from apps.environments.playing import Action, record_actions
from tests.environments.conftest import guessing, opened, pushed  # noqa: F401

PLAY = "Play the environment"
YOURS = "Your turn"
THEIRS = "Waiting for the policy"


@pytest.fixture
def episode(pushed, opened) -> Episode:
    return opened(pushed)[0]


@pytest.fixture
def hers(alice) -> Client:
    client = Client()
    client.force_login(alice)
    return client


def shown(client: Client, episode: Episode) -> str:
    return client.get(reverse("episode", args=[episode.pk])).content.decode()


def post(client: Client, episode: Episode, verb: str, **said: object):
    return client.post(reverse(f"episode-{verb}", args=[episode.pk]), said)


def test_person_can_play_an_episode_to_its_end(hers, episode, alice):
    assert PLAY in shown(hers, episode)
    assert post(hers, episode, "take").status_code == 302
    assert YOURS in shown(hers, episode) and "play-reward" not in shown(
        hers, episode
    )  # no action was taken yet
    assert post(hers, episode, "say", number=0, observation="left or right?").status_code == 302
    assert THEIRS in shown(hers, episode)
    record_actions([Action(episode.pk, 0, "left", 0, 2, 5)])
    assert YOURS in shown(hers, episode) and "play-reward" in shown(hers, episode)
    for _ in range(2):  # sent twice, it is recorded once
        said = {"number": 1, "observation": "the exit", "reward": "0.5", "done": "on"}
        assert post(hers, episode, "say", **said).status_code == 302
    episode.refresh_from_db()
    assert (episode.state, episode.client, episode.turns, episode.seen.get(number=0).reward) == (
        "done",
        alice,
        2,
        0.5,
    )
    assert YOURS not in shown(hers, episode)


def test_page_shows_the_time_left_for_an_answer(hers, episode):
    post(hers, episode, "take")
    Episode.objects.update(moved_at=timezone.now() - timedelta(seconds=300))
    assert hers.get(reverse("episode", args=[episode.pk])).context["left_s"] == pytest.approx(
        600, abs=20
    )
    assert 'data-seconds-left="' in shown(hers, episode)


@pytest.mark.parametrize(
    ("verb", "said", "words"),
    [
        ("say", {"number": 0, "observation": "again", "reward": "nan"}, "Enter a number"),
        (
            "say",
            {"number": 1, "observation": "a wall", "reward": "7"},
            "must be a number from 0 to 1",
        ),
        ("say", {"number": 5, "observation": "a wall"}, "the next observation is 1, not 5"),
        ("end", {"outcome": "done", "reward": "-3"}, "must be a number from 0 to 1"),
        ("end", {"outcome": "won"}, "Select a valid choice"),
    ],
)
def test_invalid_input_is_rejected_with_the_reason_and_kept_in_the_form(
    hers, episode, verb, said, words
):
    post(hers, episode, "take")
    post(hers, episode, "say", number=0, observation="left or right?")
    record_actions([Action(episode.pk, 0, "left", 0, 2, 5)])
    answer = post(hers, episode, verb, **said)
    assert answer.status_code == 422 and words in answer.content.decode()
    assert said.get("observation", "") in answer.content.decode()
    assert 'name="number" value="1"' in answer.content.decode()  # the form has the next turn


def test_ending_an_episode_on_its_page_gives_the_last_action_its_reward(hers, episode):
    post(hers, episode, "take")
    post(hers, episode, "say", number=0, observation="left or right?")
    record_actions([Action(episode.pk, 0, "left", 0, 2, 5)])
    assert (
        post(hers, episode, "end", outcome="done", reward="1", reason="well done").status_code
        == 302
    )
    episode.refresh_from_db()
    assert (episode.state, episode.reason, episode.seen.get(number=0).reward) == (
        "done",
        "well done",
        1,
    )


def test_only_the_person_who_took_an_episode_can_play_it(hers, episode, bob, admin, carol):
    post(hers, episode, "take")
    for person, status in ((bob, 403), (admin, 403), (carol, 404)):
        client = Client()
        client.force_login(person)
        assert {post(client, episode, verb, number=0).status_code for verb in ("say", "end")} == {
            status
        }
        if person != carol:
            assert YOURS not in shown(client, episode)


def test_only_a_waiting_episode_of_an_environment_that_calls_us_can_be_taken(
    hers, episode, guessing, opened
):
    ours = opened(guessing)[0]
    assert PLAY not in shown(hers, ours) and post(hers, ours, "take").status_code == 404
    post(hers, episode, "take")
    answer = hers.post(reverse("episode-take", args=[episode.pk]), follow=True)
    assert "The episode is not free any more" in answer.content.decode()
    assert f"/live/{episode.rollout_id}/#seat" in shown(hers, episode)


def test_environment_with_a_schema_accepts_only_matching_json(hers, episode, pushed):
    pushed.observation_schema = {"type": "object", "required": ["board"]}
    pushed.save(update_fields=["observation_schema"])
    post(hers, episode, "take")
    refused = post(hers, episode, "say", number=0, observation="left or right?")
    assert refused.status_code == 422 and "is not of type" in refused.content.decode()
    assert post(hers, episode, "say", number=0, observation='{"board": [1, 2]}').status_code == 302
    assert episode.seen.get(number=0).observation == '{"board": [1, 2]}'
