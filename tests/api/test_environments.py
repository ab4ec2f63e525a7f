"""Environments that call rftweb over REST: they register, and take episodes with their tokens."""

from datetime import timedelta

import pytest
from django.utils import timezone

from apps.accounts.models import AuditEntry, Project
from apps.environments.environment_lookup import find_or_register
from apps.environments.models import Environment
from tests.api.episodes import NEW, episode, maze, turn, waiting  # noqa: F401  (fixtures)

pytestmark = pytest.mark.django_db

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


def test_registration_and_change_of_an_environment_are_audited(maze):
    maze.patch("environments/maze/", {"version": "2", "parallel": 3})
    acts = AuditEntry.objects.filter(target="environment lab/maze").order_by("pk")
    assert list(acts.values_list("action", "name")) == [
        ("environment registered", "alice"),
        ("environment changed", "alice"),
    ]
    assert acts.last().details == {"fields": ["parallel", "version"]}


def test_equal_registration_is_accepted_again_and_a_different_one_is_a_conflict(maze):
    assert maze.post("environments/", NEW).status_code == 200
    assert maze.post("environments/", {**NEW, "turn_limit": 6}).status_code == 409
    assert Environment.objects.filter(name="maze").count() == 1


def test_http_environment_is_registered_with_its_address(maze, settings):
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
def test_forbidden_address_is_refused_with_the_reason(maze, said, reason):
    answer = maze.post("environments/", {"project": "lab", "name": "lake", **said})
    assert answer.status_code == 422 and list(answer.json()["errors"]) == ["address"]
    assert reason in str(answer.json())
    assert not Environment.objects.filter(name="lake").exists()


def test_changed_address_is_checked_by_the_same_rules(maze, settings):
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
def test_invalid_registration_is_refused_by_field(program, alice, change, field):
    answer = program(alice, "env:write:*").post("environments/", {**NEW, **change})
    assert answer.status_code == 422 and field in answer.json()["errors"]
    assert not Environment.objects.exists()


def test_change_that_makes_the_reward_range_empty_is_refused(maze):
    answer = maze.patch("environments/maze/", {"reward_high": -2})
    assert answer.status_code == 422 and "reward_high" in answer.json()["errors"]


def test_project_parameter_is_required_if_two_projects_have_the_same_name(
    program, admin, alice, maze
):
    Project.objects.create(slug="hall", title="The hall")
    root = program(admin, "env:write:*")
    assert root.post("environments/", {**NEW, "project": "hall"}).status_code == 201
    assert "hall, lab" in root.get("environments/maze/").json()["errors"]["project"][0]
    assert root.get("environments/maze/", project="hall").json()["project"] == "hall"
    assert root.post("environments/maze/episodes/", {}).status_code == 422
    assert maze.get("environments/maze/").status_code == 200


# -- access rights


def test_token_can_write_only_the_environments_in_its_scope(program, alice):
    caller = program(alice, "env:write:maze")
    assert caller.post("environments/", NEW).status_code == 201
    assert caller.get("environments/maze/").status_code == 200
    refused = caller.post("environments/", {**NEW, "name": "tower"})
    assert refused.status_code == 403 and "`env:write:tower`" in refused.json()["detail"]
    assert caller.get("runs/").status_code == 403


def test_token_with_read_scope_can_read_but_not_write(program, alice, maze, episode):
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


def test_token_of_another_environment_cannot_play_an_episode(program, alice, episode):
    other = program(alice, "env:write:tower")
    assert turn(other, episode["id"]).status_code == 403
    assert other.post(f"episodes/{episode['id']}/result/", {}).status_code == 403
    answer = other.post("rewards/", {"rewards": [{"episode": episode["id"], "reward": 1}]})
    assert [result["status"] for result in answer.json()["results"]] == [404]


def test_raters_can_view_environments_and_strangers_cannot(program, bob, carol, episode):
    rater = program(bob, "env:write:*")
    stranger = program(carol, "env:write:*")
    assert rater.get("environments/maze/").status_code == 200
    assert rater.post("environments/maze/episodes/", {}).status_code == 403
    assert rater.post("environments/", {**NEW, "name": "tower"}).status_code == 422
    for path in ("environments/maze/", f"episodes/{episode['id']}/"):
        assert stranger.get(path).status_code == 404
    assert turn(stranger, episode["id"]).status_code == 404
    assert stranger.get("environments/").json()["items"] == []


def test_only_the_player_of_an_episode_can_post_a_turn(program, admin, episode):
    assert turn(program(admin, "env:write:*"), episode["id"]).status_code == 403


def test_environment_of_another_kind_cannot_be_played_or_changed_here(maze, project):
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
def test_write_without_a_token_is_refused(stranger, path):
    assert stranger.post(path, {}).status_code == 401


# -- taking an episode


def test_episode_contains_its_task_and_is_readable_again(maze, episode):
    assert episode["task"]["prompt"][0]["role"] == "user" and "sorted" in episode["task"]["answer"]
    assert (episode["state"], episode["next"], episode["environment"]) == ("environment", 0, "maze")
    assert maze.get(f"episodes/{episode['id']}/").json() == episode


def test_taking_an_episode_needs_at_most_11_queries(maze, waiting, django_assert_max_num_queries):
    waiting()
    with django_assert_max_num_queries(11):
        assert maze.post("environments/maze/episodes/", {}).status_code == 201


def test_same_key_returns_the_same_episode(maze, waiting):
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


def test_episode_of_a_given_run_can_be_requested(maze, waiting):
    first = waiting()
    second = waiting()
    taken = maze.post("environments/maze/episodes/", {"run": second[0].run_id}).json()
    assert taken["run"] == second[0].run_id != first[0].run_id


def busy(caller, **asked: object) -> str:
    answer = caller.post("environments/maze/episodes/", asked)
    assert answer.status_code == 429 and int(answer["Retry-After"]) >= 1
    return answer.json()["detail"]


def test_response_explains_why_no_episode_is_waiting(maze, waiting):
    assert "No active run" in busy(maze)
    episodes = waiting(groups_per_step=1, max_staleness=0)
    assert "(run 123456)" in busy(maze, run=123456)
    for _ in episodes:
        maze.post("environments/maze/episodes/", {})
    assert "max_staleness" in busy(maze)


def test_response_says_that_no_episode_is_waiting_if_the_run_has_room(maze, new_run):
    new_run(environment={"name": "maze"}, rewards=[])
    assert "No episode is waiting yet" in busy(maze)


def test_number_of_parallel_episodes_is_limited(maze, waiting):
    maze.patch("environments/maze/", {"parallel": 1})
    waiting()
    assert maze.post("environments/maze/episodes/", {}).status_code == 201
    assert "parallel: 1" in busy(maze)


def test_open_breaker_is_reported_with_its_reason(maze, waiting):
    until = timezone.now() + timedelta(seconds=40)
    Environment.objects.filter(name="maze").update(
        open_until=until, open_reason="the board fell down", failures=5
    )
    assert "the board fell down" in busy(maze)
