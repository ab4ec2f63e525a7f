"""A write that its sender names is done once: sent again it is answered the same, however many
arrive together.
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
def test_the_same_request_gets_the_same_answer(caller):
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
def test_a_key_of_another_request_is_refused(caller, path, body):
    named(caller, "environments/", BODY, "k1")
    refused = named(caller, path, body, "k1")
    assert refused.status_code == 422 and "Idempotency-Key" in refused.json()["errors"]


@pytest.mark.django_db
@pytest.mark.parametrize("key", ["", "x" * 256, "clé", "a\tb"])
def test_a_key_that_cannot_be_one_is_refused(caller, key):
    assert named(caller, "environments/", BODY, key).status_code == 422
    assert not Environment.objects.exists()


@pytest.mark.django_db
def test_a_narrower_token_is_not_given_the_answer_of_a_wider_one(caller, program, alice):
    named(caller, "environments/", BODY, "k1")
    narrow = program(alice, "env:write:maze")
    assert named(narrow, "environments/", BODY, "k1").status_code == 422


@pytest.mark.django_db
def test_who_lost_the_role_is_not_given_the_answer_again(caller, alice, carol, admin):
    named(caller, "environments/", BODY, "k1")
    membership = alice.memberships.get()
    Membership.objects.create(project=membership.project, user=carol, role="owner")
    membership.take(admin)
    assert named(caller, "environments/", BODY, "k1").status_code in (403, 404, 422)
    assert Environment.objects.count() == 1


@pytest.mark.django_db
def test_keys_of_others_are_their_own(caller, program, admin):
    named(caller, "environments/", BODY, "k1")
    assert (
        named(
            program(admin, "env:write:*"), "environments/", {**BODY, "name": "tower"}, "k1"
        ).status_code
        == 201
    )


@pytest.mark.django_db
def test_after_a_refusal_the_key_is_free(caller):
    assert named(caller, "environments/", {**BODY, "turn_limit": 0}, "k1").status_code == 422
    assert named(caller, "environments/", BODY, "k1").status_code == 201


@pytest.mark.django_db
def test_while_the_first_is_at_work_the_second_is_a_conflict_and_one_that_died_is_taken_over(
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
    )  # the name itself is unique


@pytest.mark.django_db
def test_after_a_day_the_key_is_free(caller):
    named(caller, "environments/", BODY, "k1")
    OnceRequest.objects.update(begun_at=timezone.now() - timedelta(days=2))
    assert named(caller, "environments/", {**BODY, "name": "tower"}, "k1").status_code == 201


@pytest.mark.django_db
def test_a_change_is_done_once_as_well(caller):
    named(caller, "environments/", BODY, "k1")
    for _ in range(2):
        assert (
            named(caller, "environments/maze/", {"version": "2"}, "k2", "patch").json()["version"]
            == "2"
        )


# -- together


def together(count: int, work: Callable[[int], object]) -> list:
    """The results of `count` threads that begin at the same moment, each with a connection of its
    own.

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
    """An episode of alice's in which the policy has acted once."""
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
def test_of_two_at_once_one_is_done_and_the_other_waits_or_is_told_the_same(caller):
    answers = together(2, lambda _: named(caller, "environments/", BODY, "k1").status_code)
    assert 201 in answers and set(answers) <= {201, 409}
    assert Environment.objects.count() == OnceRequest.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_the_same_reward_fifty_times_at_once_counts_once(caller, played):
    body = {"rewards": [{"episode": played, "turn": 0, "reward": 0.25}]}
    answers = together(50, lambda _: caller.post("rewards/", body).status_code)
    assert set(answers) == {201}
    turn = EpisodeTurn.objects.get()
    assert (turn.reward, turn.late_reward) == (0.25, None)


@pytest.mark.django_db(transaction=True)
def test_of_different_rewards_at_once_one_counts_and_the_others_are_told(caller, played):
    values = [0.1, 0.2, 0.3, 0.4]

    def pay(n: int) -> int:
        body = {"rewards": [{"episode": played, "turn": 0, "reward": values[n]}]}
        return caller.post("rewards/", body).json()["results"][0]["status"]

    assert sorted(together(4, pay)) == [201, 409, 409, 409]
    assert EpisodeTurn.objects.get().reward in values


# -- how much a token may ask


@pytest.mark.django_db
def test_who_asks_too_much_is_told_when_to_come_back(caller, settings, eventually):
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
def test_without_redis_nobody_is_counted(caller, settings, dead_redis):
    settings.REQUESTS_PER_SECOND = 1
    assert {caller.get("environments/").status_code for _ in range(2 * STRETCH_S + 1)} == {200}
