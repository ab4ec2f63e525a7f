"""A write with an idempotency key is done once: a repeat gets the same response, however many
requests arrive together.
"""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier, Lock

import pytest
from django.db import connection
from django.utils import timezone

from apps.accounts.models import Membership, OnceRequest
from apps.accounts.rates import STRETCH_S
from apps.environments.episode_opening import assign_episode, open_episodes
from apps.environments.models import Environment, EpisodeTurn
from apps.environments.playing import Action, observe, record_actions
from apps.rollouts.models import Group, Rollout

BODY = {"project": "lab", "name": "maze"}


@pytest.fixture
def caller(program, alice):
    return program(alice, "env:write:*", "read")


def named(caller, path: str, body: dict, key: str, verb: str = "post"):
    return caller.send(path, json.dumps(body).encode(), verb=verb, **{"Idempotency-Key": key})


@pytest.mark.django_db
def test_repeated_request_gets_the_same_response(caller):
    first, again = (named(caller, "environments/", BODY, "k1") for _ in range(2))
    assert (
        (first.status_code, first.json())
        == (again.status_code, again.json())
        == (201, first.json())
    )
    assert Environment.objects.count() == 1


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("path", "body"), [("environments/", {**BODY, "version": "2"}), ("rewards/", BODY)]
)
def test_key_of_a_different_request_is_refused(caller, path, body):
    named(caller, "environments/", BODY, "k1")
    refused = named(caller, path, body, "k1")
    assert refused.status_code == 422 and "Idempotency-Key" in refused.json()["errors"]


@pytest.mark.django_db
@pytest.mark.parametrize("key", ["", "x" * 256, "clé", "a\tb"])
def test_invalid_key_is_refused(caller, key):
    assert named(caller, "environments/", BODY, key).status_code == 422
    assert not Environment.objects.exists()


@pytest.mark.django_db
def test_narrower_token_does_not_get_the_response_of_a_wider_one(caller, program, alice):
    named(caller, "environments/", BODY, "k1")
    narrow = program(alice, "env:write:maze")
    assert named(narrow, "environments/", BODY, "k1").status_code == 422


@pytest.mark.django_db
def test_user_who_lost_the_role_does_not_get_the_response_again(caller, alice, carol, admin):
    named(caller, "environments/", BODY, "k1")
    membership = alice.memberships.get()
    Membership.objects.create(project=membership.project, user=carol, role="owner")
    membership.take(admin)
    assert named(caller, "environments/", BODY, "k1").status_code in (403, 404, 422)
    assert Environment.objects.count() == 1


@pytest.mark.django_db
def test_two_users_can_use_the_same_key(caller, program, admin):
    named(caller, "environments/", BODY, "k1")
    assert (
        named(
            program(admin, "env:write:*"), "environments/", {**BODY, "name": "tower"}, "k1"
        ).status_code
        == 201
    )


@pytest.mark.django_db
def test_key_can_be_reused_after_a_refusal(caller):
    assert named(caller, "environments/", {**BODY, "turn_limit": 0}, "k1").status_code == 422
    assert named(caller, "environments/", BODY, "k1").status_code == 201


@pytest.mark.django_db
def test_repeat_during_the_first_request_is_a_conflict_until_it_has_timed_out(
    caller,
):
    named(caller, "environments/", BODY, "k1")
    OnceRequest.objects.update(status=None, answer=None)
    refused = named(caller, "environments/", BODY, "k1")
    assert (refused.status_code, refused.json()["type"], refused["Retry-After"]) == (
        409,
        "urn:rftweb:at_work",
        "1",
    )
    OnceRequest.objects.update(begun_at=timezone.now() - timedelta(minutes=2))
    assert (
        named(caller, "environments/", BODY, "k1").status_code == 200
    )  # the environment's name is unique


@pytest.mark.django_db
def test_key_can_be_reused_after_a_day(caller):
    named(caller, "environments/", BODY, "k1")
    OnceRequest.objects.update(begun_at=timezone.now() - timedelta(days=2))
    assert named(caller, "environments/", {**BODY, "name": "tower"}, "k1").status_code == 201


@pytest.mark.django_db
def test_repeated_patch_gets_the_same_response(caller):
    named(caller, "environments/", BODY, "k1")
    for _ in range(2):
        assert (
            named(caller, "environments/maze/", {"version": "2"}, "k2", "patch").json()["version"]
            == "2"
        )


# -- concurrent requests


def together(count: int, work: Callable[[int], object]) -> list:
    """Return the results of `count` threads that start at the same moment, each with its own
    connection.

    These are made one after the other, and may wait for each other as long as they must: the
    database gives a new one five seconds and a lock ten, which fifty together use up on a busy
    machine.
    """
    start = Barrier(count)
    door = Lock()

    def whole(n: int) -> object:
        with door, connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = 0")
        start.wait()
        try:
            return work(n)
        finally:
            connection.close()

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(whole, range(count)))


@pytest.fixture
def played(caller, alice, new_run) -> int:
    """Create an episode of alice in which the policy has acted once."""
    caller.post("environments/", BODY)
    environment, run = Environment.objects.get(), new_run(environment={"name": "maze"}, rewards=[])
    groups = Group.open(run, "explorer@test", 60, 1, run.published_version)
    open_episodes(
        environment,
        run.settings.environment,
        groups,
        list(Rollout.objects.filter(group__in=groups)),
    )
    episode = assign_episode(environment, alice)
    observe(episode.pk, 0, "go")
    record_actions([Action(episode.pk, 0, "left", 0, 2)])
    return episode.pk


@pytest.mark.django_db(transaction=True)
def test_two_concurrent_requests_with_one_key_create_one_environment(caller):
    answers = together(2, lambda _: named(caller, "environments/", BODY, "k1").status_code)
    assert 201 in answers and set(answers) <= {201, 409}
    assert Environment.objects.count() == OnceRequest.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_fifty_concurrent_equal_rewards_count_once(caller, played):
    body = {"rewards": [{"episode": played, "turn": 0, "reward": 0.25}]}
    answers = together(50, lambda _: caller.post("rewards/", body).status_code)
    assert set(answers) == {201}
    turn = EpisodeTurn.objects.get()
    assert (turn.reward, turn.late_reward) == (0.25, None)


@pytest.mark.django_db(transaction=True)
def test_one_of_several_concurrent_rewards_counts_and_the_others_are_conflicts(caller, played):
    values = [0.1, 0.2, 0.3, 0.4]

    def pay(n: int) -> int:
        body = {"rewards": [{"episode": played, "turn": 0, "reward": values[n]}]}
        return caller.post("rewards/", body).json()["results"][0]["status"]

    assert sorted(together(4, pay)) == [201, 409, 409, 409]
    assert EpisodeTurn.objects.get().reward in values


# -- request limits of a token


@pytest.mark.django_db
def test_too_many_requests_get_429_with_retry_after(caller, settings, eventually):
    settings.REQUESTS_PER_SECOND = 1

    def refused():
        answer = caller.get("environments/")
        return answer if answer.status_code == 429 else None

    told = eventually(refused, 60)
    assert (
        1 <= int(told["Retry-After"]) <= STRETCH_S
        and told["Content-Type"] == "application/problem+json"
    )


@pytest.mark.django_db
def test_requests_are_not_limited_without_redis(caller, settings, dead_redis):
    settings.REQUESTS_PER_SECOND = 1
    assert {caller.get("environments/").status_code for _ in range(2 * STRETCH_S + 1)} == {200}
