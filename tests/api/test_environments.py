"""Environments that call us, over REST: they register, take episodes, take turns, end them, and pay
later.
"""

import json
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.utils import timezone

from apps.accounts.models import AuditEntry, Project
from apps.environments.closing import Ending, settle_episodes
from apps.environments.environment_lookup import find_or_register
from apps.environments.episode_opening import open_episodes
from apps.environments.models import Environment, Episode
from apps.environments.playing import Action, record_actions
from apps.rewards.models import Reward
from apps.rollouts.models import Group, Outcome, Rollout
from tests.conftest import tokens_of

pytestmark = pytest.mark.django_db
NEW = {"project": "lab", "name": "maze", "reward_low": -1, "reward_high": 2, "turn_limit": 5}


@pytest.fixture
def maze(program, alice):
    """A program of alice's that may write environments, and its environment."""
    caller = program(alice, "env:write:*")
    assert caller.post("environments/", NEW).status_code == 201
    return caller


@pytest.fixture
def waiting(maze, new_run) -> Callable[..., list[Episode]]:
    """Open the episodes of one group in the maze, as the explorer does."""

    def open_in(**changes: object) -> list[Episode]:
        environment = Environment.objects.get(name="maze")
        run = new_run(environment={"name": "maze"}, rewards=[], **changes)
        groups = Group.open(run, "explorer@test", 60, 1, run.published_version)
        rollouts = list(Rollout.objects.filter(group__in=groups).order_by("sample_index"))
        return list(open_episodes(environment, run.settings.environment, groups, rollouts).values())

    return open_in


@pytest.fixture
def episode(maze, waiting) -> dict:
    """One that the program plays."""
    waiting()
    answer = maze.post("environments/maze/episodes/", {})
    assert answer.status_code == 201
    return answer.json()


def acted(pk: int, number: int, text: str = "left") -> None:
    record_actions([Action(pk, number, text, 0, 2)])


def turn(caller, pk: int, **said: object):
    return caller.post(f"episodes/{pk}/turns/", {"observation": "go", **said})


# -- registering


def test_an_environment_is_registered_shown_listed_and_changed(maze):
    shown = maze.get("environments/maze/").json()
    assert (shown["kind"], shown["project"], shown["reward_low"], shown["turn_limit"]) == (
        "push",
        "lab",
        -1,
        5,
    )
    assert [
        row["name"] for row in maze.get("environments/", project="lab", kind="push").json()["items"]
    ] == ["maze"]
    changed = maze.patch("environments/maze/", {"version": "2", "parallel": 3})
    assert changed.status_code == 200 and (
        changed.json()["version"],
        changed.json()["parallel"],
    ) == ("2", 3)
    assert Environment.objects.get(name="maze").turn_limit == 5


def test_registering_and_changing_one_is_on_record(maze):
    maze.patch("environments/maze/", {"version": "2", "parallel": 3})
    acts = AuditEntry.objects.filter(target="environment lab/maze").order_by("pk")
    assert list(acts.values_list("act", "name")) == [
        ("environment registered", "alice"),
        ("environment changed", "alice"),
    ]
    assert acts.last().details == {"fields": ["parallel", "version"]}


def test_registered_again_it_is_the_same_and_otherwise_a_conflict(maze):
    assert maze.post("environments/", NEW).status_code == 200
    assert maze.post("environments/", {**NEW, "turn_limit": 6}).status_code == 409
    assert Environment.objects.filter(name="maze").count() == 1


def test_one_that_we_call_is_registered_and_its_address_shown(maze, settings):
    settings.ENVIRONMENT_HOSTS = ["127.0.0.1:9"]
    called = {
        "project": "lab",
        "name": "lake",
        "kind": "http",
        "address": "http://127.0.0.1:9/env",
        "reward_low": -1,
    }
    answer = maze.post("environments/", called)
    assert answer.status_code == 201, answer.json()
    assert (answer.json()["kind"], answer.json()["address"]) == ("http", "http://127.0.0.1:9/env")
    assert maze.post("environments/", called).status_code == 200
    assert (
        maze.post("environments/", {**called, "address": "http://127.0.0.1:9/other"}).status_code
        == 409
    )
    assert maze.post("environments/lake/episodes/", {}).status_code == 409


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"kind": "http"}, "address"),
        ({"kind": "http", "address": "http://169.254.169.254/latest"}, "inside this network"),
        ({"kind": "openenv", "address": "ftp://env.example.org/"}, "must begin with"),
        ({"kind": "push", "address": "http://env.example.org/"}, "leave it empty"),
    ],
)
def test_where_we_may_not_call_is_refused_at_the_address(maze, said, reason):
    answer = maze.post("environments/", {"project": "lab", "name": "lake", **said})
    assert answer.status_code == 422 and list(answer.json()["errors"]) == ["address"]
    assert reason in str(answer.json())
    assert not Environment.objects.filter(name="lake").exists()


def test_a_changed_address_is_held_to_the_same_rules(maze, settings):
    settings.ENVIRONMENT_HOSTS = ["127.0.0.1:9"]
    maze.post(
        "environments/",
        {"project": "lab", "name": "lake", "kind": "http", "address": "http://127.0.0.1:9/env"},
    )
    assert maze.patch("environments/lake/", {"address": "http://10.0.0.1/"}).status_code == 422
    assert (
        maze.patch("environments/lake/", {"address": "http://127.0.0.1:9/new"}).status_code == 200
    )
    assert Environment.objects.get(name="lake").address == "http://127.0.0.1:9/new"


BAD = [
    ({"name": "Maze"}, "name"),
    ({"name": "a/b"}, "name"),
    ({"turn_limit": 0}, "turn_limit"),
    ({"turn_limit": True}, "turn_limit"),
    ({"turn_limit": "1_0"}, "turn_limit"),
    ({"reward_low": "nan"}, "reward_low"),
    ({"reward_low": 3}, "reward_high"),
    ({"turn_s": 0}, "turn_s"),
    ({"colour": "red"}, "colour"),
    ({"project": "nowhere"}, "project"),
    ({"options": []}, "options"),
    ({"observation_schema": {"type": 7}}, "observation_schema"),
    ({"action_schema": "text"}, "action_schema"),
    ({"title": 5}, "title"),
    ({"kind": "library"}, "kind"),
]


@pytest.mark.parametrize(("change", "field"), BAD, ids=lambda value: repr(value)[:40])
def test_what_does_not_fit_is_refused_by_field(program, alice, change, field):
    answer = program(alice, "env:write:*").post("environments/", {**NEW, **change})
    assert answer.status_code == 422 and field in answer.json()["errors"]
    assert not Environment.objects.exists()


def test_a_range_turned_round_by_a_change_is_refused(maze):
    answer = maze.patch("environments/maze/", {"reward_high": -2})
    assert answer.status_code == 422 and "reward_high" in answer.json()["errors"]


def test_where_two_projects_have_one_of_the_name_the_project_is_asked_for(
    program, admin, alice, maze
):
    Project.objects.create(slug="hall", title="The hall")
    root = program(admin, "env:write:*")
    assert root.post("environments/", {**NEW, "project": "hall"}).status_code == 201
    assert "hall, lab" in root.get("environments/maze/").json()["errors"]["project"][0]
    assert root.get("environments/maze/", project="hall").json()["project"] == "hall"
    assert root.post("environments/maze/episodes/", {}).status_code == 422
    assert maze.get("environments/maze/").status_code == 200


# -- who may


def test_a_token_writes_the_environments_that_it_names(program, alice):
    caller = program(alice, "env:write:maze")
    assert caller.post("environments/", NEW).status_code == 201
    assert caller.get("environments/maze/").status_code == 200
    refused = caller.post("environments/", {**NEW, "name": "tower"})
    assert refused.status_code == 403 and "`env:write:tower`" in refused.json()["detail"]
    assert caller.get("runs/").status_code == 403


def test_a_token_that_reads_may_look_and_no_more(program, alice, maze, episode):
    reader = program(alice, "read")
    assert reader.get("environments/maze/").status_code == 200
    assert reader.get(f"episodes/{episode['id']}/").status_code == 200
    assert reader.patch("environments/maze/", {"version": "9"}).status_code == 403
    assert reader.post("environments/maze/episodes/", {}).status_code == 403
    assert turn(reader, episode["id"]).status_code == 403
    assert (
        reader.post("rewards/", {"rewards": [{"episode": episode["id"], "reward": 1}]}).status_code
        == 403
    )


def test_a_token_of_another_environment_plays_nothing_here(program, alice, episode):
    other = program(alice, "env:write:tower")
    assert turn(other, episode["id"]).status_code == 403
    assert other.post(f"episodes/{episode['id']}/result/", {}).status_code == 403
    answer = other.post("rewards/", {"rewards": [{"episode": episode["id"], "reward": 1}]})
    assert [result["status"] for result in answer.json()["results"]] == [404]


def test_members_who_do_not_steer_may_look_and_strangers_may_not(program, bob, carol, episode):
    rater = program(bob, "env:write:*")
    stranger = program(carol, "env:write:*")
    assert rater.get("environments/maze/").status_code == 200
    assert rater.post("environments/maze/episodes/", {}).status_code == 403
    assert rater.post("environments/", {**NEW, "name": "tower"}).status_code == 422
    for path in ("environments/maze/", f"episodes/{episode['id']}/"):
        assert stranger.get(path).status_code == 404
    assert turn(stranger, episode["id"]).status_code == 404
    assert stranger.get("environments/").json()["items"] == []


def test_who_does_not_play_an_episode_says_nothing_in_it(program, admin, episode):
    assert turn(program(admin, "env:write:*"), episode["id"]).status_code == 403


def test_what_does_not_call_us_is_neither_taken_nor_changed_here(maze, project):
    find_or_register(project, "guess_number")
    assert maze.post("environments/guess_number/episodes/", {}).status_code == 409
    assert maze.patch("environments/guess_number/", {"version": "2"}).status_code == 409


@pytest.mark.parametrize(
    "path",
    [
        "environments/",
        "environments/maze/episodes/",
        "episodes/1/turns/",
        "episodes/1/result/",
        "rewards/",
    ],
)
def test_without_a_token_nothing_is_written(stranger, path):
    assert stranger.post(path, {}).status_code == 401


# -- taking an episode


def test_an_episode_comes_with_its_task_and_its_seed(maze, episode):
    assert episode["task"]["prompt"][0]["role"] == "user" and "sorted" in episode["task"]["answer"]
    assert (episode["state"], episode["next"], episode["environment"]) == ("environment", 0, "maze")
    assert maze.get(f"episodes/{episode['id']}/").json() == episode


def test_to_take_an_episode_is_few_statements(maze, waiting, django_assert_max_num_queries):
    waiting()
    with django_assert_max_num_queries(11):
        assert maze.post("environments/maze/episodes/", {}).status_code == 201


def test_its_key_gives_the_same_episode_again(maze, waiting):
    waiting()
    first = maze.post("environments/maze/episodes/", {"key": "game-7"})
    again = maze.post("environments/maze/episodes/", {"key": "game-7"})
    assert (first.status_code, again.status_code) == (201, 200) and first.json() == again.json()


def test_a_key_of_another_client_is_refused(program, admin, maze, waiting):
    waiting()
    maze.post("environments/maze/episodes/", {"key": "game-7"})
    assert (
        program(admin, "env:write:*")
        .post("environments/maze/episodes/", {"key": "game-7"})
        .status_code
        == 409
    )


def test_an_episode_of_one_run_can_be_asked_for(maze, waiting):
    first = waiting()
    second = waiting()
    taken = maze.post("environments/maze/episodes/", {"run": second[0].run_id}).json()
    assert taken["run"] == second[0].run_id != first[0].run_id


def busy(caller, **asked: object) -> str:
    answer = caller.post("environments/maze/episodes/", asked)
    assert answer.status_code == 429 and int(answer["Retry-After"]) >= 1
    return answer.json()["detail"]


def test_when_none_waits_the_reason_is_told(maze, waiting):
    assert "No active run" in busy(maze)
    episodes = waiting(groups_per_step=1, max_staleness=0)
    assert "(run 123456)" in busy(maze, run=123456)
    for _ in episodes:
        maze.post("environments/maze/episodes/", {})
    assert "max_staleness" in busy(maze)


def test_with_room_in_the_runs_bound_the_explorer_is_waited_for(maze, new_run):
    new_run(environment={"name": "maze"}, rewards=[])
    assert "No episode is waiting yet" in busy(maze)


def test_no_more_are_played_at_once_than_may_be(maze, waiting):
    maze.patch("environments/maze/", {"parallel": 1})
    waiting()
    assert maze.post("environments/maze/episodes/", {}).status_code == 201
    assert "parallel: 1" in busy(maze)


def test_while_its_breaker_is_open_the_failure_is_told(maze, waiting):
    until = timezone.now() + timedelta(seconds=40)
    Environment.objects.filter(name="maze").update(
        open_until=until, open_reason="the board fell down", failures=5
    )
    assert "the board fell down" in busy(maze)


# -- turns


def test_an_observation_is_answered_by_the_policys_action(maze, episode):
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
    assert turn(maze, pk, number=0).json() == shown.json()  # said again it is the same


def test_a_turn_without_a_number_sent_again_under_its_key_is_the_same_turn(maze, episode):
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
    assert send("k2").json()["number"] == 1  # the same words under another key are the next turn


def test_chat_messages_are_an_observation_and_rewards_come_with_the_next(maze, episode):
    pk = episode["id"]
    turn(maze, pk)
    acted(pk, 0)
    messages = [{"role": "tool", "content": "12"}, {"role": "user", "content": "and now?"}]
    assert turn(maze, pk, observation=messages, reward=0.5, info={"cell": 3}).status_code == 202
    first, second = Episode.objects.get(pk=pk).seen.all()
    assert (first.reward, second.observation, second.info) == (0.5, messages, {"cell": 3})


def test_a_turn_is_few_statements(maze, episode, django_assert_max_num_queries):
    pk = episode["id"]
    turn(maze, pk)
    acted(pk, 0)
    with django_assert_max_num_queries(7):
        assert turn(maze, pk, reward=1).status_code == 202


def test_the_last_observation_ends_the_episode(maze, episode):
    pk = episode["id"]
    turn(maze, pk)
    acted(pk, 0)
    answer = turn(maze, pk, reward=1, done=True)
    assert answer.status_code == 200 and (answer.json()["state"], answer.json()["action"]) == (
        "done",
        None,
    )
    assert turn(maze, pk, number=2).status_code == 410


def test_who_speaks_out_of_turn_is_told_so(maze, episode):
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
def test_a_turn_that_does_not_fit_is_refused_by_field(maze, episode, change, field):
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


def test_a_body_that_is_too_large_is_413(maze, episode, settings):
    body = b'{"observation": "' + b"x" * settings.DATA_UPLOAD_MAX_MEMORY_SIZE + b'"}'
    assert maze.send(f"episodes/{episode['id']}/turns/", body).status_code == 413


def test_there_is_nothing_to_ask_about_a_turn_that_was_not_taken(maze, episode):
    assert maze.get(f"episodes/{episode['id']}/turns/0/").status_code == 404
    assert maze.get(f"episodes/{10**12}/turns/0/").status_code == 404


# -- ends


def test_a_result_pays_the_last_action_and_ends_the_episode(maze, episode):
    pk = episode["id"]
    turn(maze, pk)
    acted(pk, 0)
    ended = maze.post(f"episodes/{pk}/result/", {"reward": 2, "reason": "out of the maze"})
    assert ended.status_code == 200 and (ended.json()["state"], ended.json()["reason"]) == (
        "done",
        "out of the maze",
    )
    assert Episode.objects.get(pk=pk).seen.get().reward == 2


def test_a_result_is_few_statements_and_one_said_again_is_fewer(
    maze, episode, django_assert_max_num_queries
):
    pk = episode["id"]
    turn(maze, pk)
    acted(pk, 0)
    for most in (8, 6):
        with django_assert_max_num_queries(most):
            assert maze.post(f"episodes/{pk}/result/", {"reward": 2}).status_code == 200


def test_a_failure_is_counted_against_the_environment_and_is_no_reward(maze, episode):
    ended = maze.post(
        f"episodes/{episode['id']}/result/", {"outcome": "failed", "reason": "the board fell down"}
    )
    assert ended.json()["state"] == "failed"
    assert maze.get("environments/maze/").json()["failures"] == 1
    assert maze.post(f"episodes/{episode['id']}/result/", {"outcome": "done"}).status_code == 410


def test_a_reward_for_nothing_ends_nothing(maze, episode):
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


def test_a_reward_of_a_judged_rollout_is_kept_as_late(maze, episode):
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


def test_where_rewards_may_come_later_they_count_until_the_last_word(maze, waiting):
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
    """Its rollout is, and its episode settled."""
    rollout = Rollout.objects.get(episodes=pk)
    Rollout.write_outcomes([Outcome(rollout.pk, tokens_of("12"), "12", "stop")])
    settle_episodes([Ending(pk, rollout.pk, "stop")])


def is_judged(pk: int) -> bool:
    return Reward.objects.filter(rollout__episodes=pk, value=1).exists()


def test_as_many_rewards_as_are_allowed_are_few_queries(
    maze, episode, django_assert_max_num_queries
):
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


# -- what was registered of observations

POSITION = {
    "type": "object",
    "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}},
    "required": ["x", "y"],
}


def test_an_observation_that_fits_the_registered_schema_reads_as_json(maze, episode):
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
def test_an_observation_that_does_not_is_refused_at_its_place(maze, episode, schema, said, place):
    maze.patch("environments/maze/", {"observation_schema": schema})
    answer = turn(maze, episode["id"], observation=said, timeout_s=0)
    assert answer.status_code == 422 and place in str(answer.json()), answer.json()
    assert not Episode.objects.get(pk=episode["id"]).seen.exists()
