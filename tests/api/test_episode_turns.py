"""Turns of an episode over REST: observations are answered by actions, or refused."""

import json

import pytest

from apps.environments.models import Episode
from tests.api.episodes import acted, episode, maze, turn, waiting  # noqa: F401  (fixtures)

pytestmark = pytest.mark.django_db

# -- turns


def test_observation_is_answered_with_the_policys_action(maze, episode):
    pk = episode["id"]
    said = turn(maze, pk, number=0)
    assert said.status_code == 202 and said["Location"] == f"/api/v1/episodes/{pk}/turns/0/"
    assert maze.get(f"episodes/{pk}/turns/0/").status_code == 202
    acted(pk, 0)
    shown = maze.get(f"episodes/{pk}/turns/0/")
    assert shown.status_code == 200 and (shown.json()["action"], shown.json()["next"]) == (
        "left",
        1,
    )
    assert turn(maze, pk, number=0).json() == shown.json()  # sending it again returns the same


def test_turn_repeated_with_the_same_idempotency_key_is_the_same_turn(maze, episode):
    pk = episode["id"]
    body = json.dumps({"observation": "go", "timeout_s": 0}).encode()

    def send(key: str):
        return maze.send(f"episodes/{pk}/turns/", body, **{"Idempotency-Key": key})

    assert send("k1").status_code == 202
    acted(pk, 0)
    again = send("k1")
    assert again.status_code == 200 and (again.json()["number"], again.json()["action"]) == (
        0,
        "left",
    )
    assert send("k2").json()["number"] == 1  # the same text with another key is the next turn


def test_observation_may_be_chat_messages_and_carry_the_reward_of_the_last_action(maze, episode):
    pk = episode["id"]
    turn(maze, pk)
    acted(pk, 0)
    messages = [{"role": "tool", "content": "12"}, {"role": "user", "content": "and now?"}]
    assert turn(maze, pk, observation=messages, reward=0.5, info={"cell": 3}).status_code == 202
    first, second = Episode.objects.get(pk=pk).seen.all()
    assert (first.reward, second.observation, second.info) == (0.5, messages, {"cell": 3})


def test_turn_needs_at_most_7_queries(maze, episode, django_assert_max_num_queries):
    pk = episode["id"]
    turn(maze, pk)
    acted(pk, 0)
    with django_assert_max_num_queries(7):
        assert turn(maze, pk, reward=1).status_code == 202


def test_turn_with_done_ends_the_episode(maze, episode):
    pk = episode["id"]
    turn(maze, pk)
    acted(pk, 0)
    answer = turn(maze, pk, reward=1, done=True)
    assert answer.status_code == 200 and (answer.json()["state"], answer.json()["action"]) == (
        "done",
        None,
    )
    assert turn(maze, pk, number=2).status_code == 410


def test_turn_out_of_order_is_a_conflict(maze, episode):
    pk = episode["id"]
    assert turn(maze, pk, number=1).status_code == 409
    assert turn(maze, pk, number=0).status_code == 202
    assert turn(maze, pk).status_code == 409  # the policy has not acted
    assert turn(maze, pk, number=0, observation="another").status_code == 409


BAD_TURNS = [
    ({"observation": 7}, "observation"),
    ({"observation": []}, "observation"),
    ({"observation": None}, "observation"),
    ({"observation": [{"role": "assistant", "content": "I"}]}, "observation[0].role"),
    ({"observation": [{"role": "user"}]}, "observation[0]"),
    ({"reward": 3}, "reward"),
    ({"reward": True}, "reward"),
    ({"reward": "1_0"}, "reward"),
    ({"number": True}, "number"),
    ({"number": -1}, "number"),
    ({"number": 2**63}, "number"),
    ({"done": 1}, "done"),
    ({"done": "true"}, "done"),
    ({"timeout_s": 61}, "timeout_s"),
    ({"info": []}, "info"),
    ({"action": "x"}, "action"),
]


@pytest.mark.parametrize(("change", "field"), BAD_TURNS, ids=lambda value: repr(value)[:50])
def test_invalid_turn_is_refused_by_field(maze, episode, change, field):
    answer = turn(maze, episode["id"], **change)
    assert answer.status_code == 422 and field in answer.json()["errors"], answer.json()
    assert Episode.objects.get(pk=episode["id"]).turns == 0


UNREADABLE = [
    b'{"observation": "a\\u0000b"}',
    b'{"observation": "\\ud800"}',
    b'{"observation": "x", "reward": NaN}',
    b'{"observation": "x", "reward": 1e400}',
    b'{"observation": "x", "observation": "y"}',
    b'{"observation": "\xff"}',
    b"",
    b'{"observation": "x", "number": ' + b"9" * 5_000 + b"}",
    b'{"observation": ' + b"[" * 2_000 + b"]" * 2_000 + b"}",
    b"[]",
    b"{",
]


@pytest.mark.parametrize("body", UNREADABLE, ids=lambda body: repr(body[:40]))
def test_an_unreadable_turn_is_refused(maze, episode, body):
    answer = maze.send(f"episodes/{episode['id']}/turns/", body)
    assert answer.status_code in (400, 422) and answer["Content-Type"] == "application/problem+json"


def test_oversized_body_gets_413(maze, episode, settings):
    body = b'{"observation": "' + b"x" * settings.DATA_UPLOAD_MAX_MEMORY_SIZE + b'"}'
    assert maze.send(f"episodes/{episode['id']}/turns/", body).status_code == 413


def test_turn_that_does_not_exist_is_404(maze, episode):
    assert maze.get(f"episodes/{episode['id']}/turns/0/").status_code == 404
    assert maze.get(f"episodes/{10**12}/turns/0/").status_code == 404


# -- the registered schema of observations

POSITION = {
    "type": "object",
    "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}},
    "required": ["x", "y"],
}


def test_observation_that_fits_the_schema_is_stored_as_json(maze, episode):
    maze.patch("environments/maze/", {"observation_schema": POSITION})
    answer = turn(maze, episode["id"], observation={"x": 1, "y": 2}, timeout_s=0)
    assert answer.status_code == 202, answer.json()
    assert Episode.objects.get(pk=episode["id"]).seen.get().observation == '{"x": 1, "y": 2}'


@pytest.mark.parametrize(
    ("schema", "said", "place"),
    [
        (POSITION, {"x": 1, "y": "2"}, "'2' is not of type 'integer'"),
        (POSITION, "a text", "is not of type 'object'"),
        ({"type": "array", "items": {"type": "integer"}}, [1, None], "None is not of type"),
        ({"$ref": "https://example.org/elsewhere.json"}, "a text", "cannot be applied"),
        ({"$ref": "#"}, "a text", "cannot be applied"),
    ],
)
def test_observation_that_breaks_the_schema_is_refused_with_its_location(
    maze, episode, schema, said, place
):
    maze.patch("environments/maze/", {"observation_schema": schema})
    answer = turn(maze, episode["id"], observation=said, timeout_s=0)
    assert answer.status_code == 422 and place in str(answer.json()), answer.json()
    assert not Episode.objects.get(pk=episode["id"]).seen.exists()
