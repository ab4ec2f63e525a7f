"""What the client retries, when, and with which key: against a real server that refuses, drops
connections, and responds late.
"""

import pytest

from rftweb_client import (
    Conflict,
    Forbidden,
    NotAcceptable,
    NotNow,
    Problem,
    Reward,
    Unauthorized,
    Unreachable,
)
from tests.clients.grudging import Grudging, Said

TURN = {
    "episode": 7,
    "number": 0,
    "state": "environment",
    "reason": "",
    "action": "left",
    "tokens": 1,
    "next": 1,
}
LATER = {**TURN, "state": "policy", "action": None}
TAKEN = {
    "id": 7,
    "environment": "maze",
    "project": "lab",
    "run": 3,
    "rollout": 9,
    "key": "game-1",
    "seed": 5,
    "options": {"size": 4},
    "task": {"index": 2, "prompt": [], "answer": None},
    "turn_limit": 5,
    "state": "environment",
    "reason": "",
    "next": 0,
}
DROPPED = Said(0)


def problem(status: int, title: str = "", detail: str = "", **more: object) -> Said:
    headers = more.pop("headers", {})
    return Said(
        status,
        {"type": "urn:rftweb:x", "title": title, "status": status, "detail": detail, **more},
        headers,
    )


@pytest.mark.parametrize("status", [429, 503])
def test_client_waits_for_retry_after(call, status):
    with Grudging(problem(status, headers={"Retry-After": "1"}), Said(200, TURN)) as server:
        assert call(server.address, "turn", 7, 0, "go").action == "left"
    first, second = server.heard
    assert second.at - first.at >= 1 and first.body == second.body
    assert first.headers["authorization"] == "Bearer secret"


def test_broken_connection_is_retried(call):
    with Grudging(DROPPED, DROPPED, Said(200, TURN)) as server:
        assert call(server.address, "turn", 7, 0, "go").next == 1
    assert len(server.heard) == 3


def test_later_action_is_polled_at_its_own_address(call):
    late = {"Location": "http://elsewhere.example/api/v1/episodes/7/turns/0/", "Retry-After": "0"}
    with Grudging(
        Said(202, LATER, late), Said(202, LATER, late), DROPPED, Said(200, TURN)
    ) as server:
        assert call(server.address, "turn", 7, 0, "go").action == "left"
    asked = [(heard.method, heard.path) for heard in server.heard]
    assert asked == [
        ("POST", "/api/v1/episodes/7/turns/"),
        *[("GET", "/api/v1/episodes/7/turns/0/")] * 3,
    ]


WRITES = [
    ("take", ("maze",), TAKEN, lambda heard: heard.body["key"]),
    ("result", (7,), TAKEN, lambda heard: heard.headers["idempotency-key"]),
    (
        "reward",
        ([Reward(7, 0.5)],),
        {"results": []},
        lambda heard: heard.headers["idempotency-key"],
    ),
    ("turn", (7, 3, "go"), TURN, lambda heard: heard.body["number"]),
]


@pytest.mark.parametrize(
    ("name", "args", "answer", "name_of"), WRITES, ids=[write[0] for write in WRITES]
)
def test_retried_write_has_the_same_key(call, name, args, answer, name_of):
    with Grudging(DROPPED, Said(201, answer)) as server:
        call(server.address, name, *args)
        first, second = map(name_of, server.heard)
        assert first == second
        if name != "turn":
            call(server.address, name, *args)
            assert name_of(server.heard[2]) != first  # another call is another write


def test_write_still_in_progress_is_sent_again(call):
    at_work = problem(
        409,
        "Conflict",
        "The request with this Idempotency-Key is still in progress. Try again in a second.",
    )
    with Grudging(at_work, Said(201, {"results": []})) as server:
        assert call(server.address, "reward", [Reward(7, 0.5)]) == []
    assert len(server.heard) == 2


REFUSALS = [
    (401, Unauthorized),
    (403, Forbidden),
    (409, Conflict),
    (422, NotAcceptable),
    (500, Problem),
]


@pytest.mark.parametrize(("status", "kind"), REFUSALS)
def test_refusal_is_raised_at_once_with_its_details(call, status, kind):
    errors = {"reward": ["must be a number"]}
    with (
        Grudging(
            problem(status, "No", "reward: must be a number", errors=errors, id="f1")
        ) as server,
        pytest.raises(kind) as raised,
    ):
        call(server.address, "turn", 7, 0, "go")
    said = raised.value
    assert (said.status, said.title, said.detail, said.errors, said.id) == (
        status,
        "No",
        "reward: must be a number",
        errors,
        "f1",
    )
    assert str(said) == f"{status} No: reward: must be a number" and len(server.heard) == 1


def test_retries_end_when_patience_is_used_up(call):
    busy = problem(429, "Too Many Requests", "No active run uses it.", headers={"Retry-After": "5"})
    with Grudging(busy) as server, pytest.raises(NotNow, match="No active run") as raised:
        call(server.address, "take", "maze", patience_s=1.0)
    assert (
        raised.value.retry_after_s == 5 and len(server.heard) == 1
    )  # five seconds exceed its patience


def test_error_contains_the_unreachable_address(call):
    with Grudging(DROPPED) as server:
        address = server.address
    with pytest.raises(Unreachable, match=f"POST {address}/api/v1/environments/maze/episodes/"):
        call(address, "take", "maze", patience_s=0.5)


@pytest.mark.parametrize("status", [200, 404])
def test_response_without_json_raises_a_problem_with_its_text(call, status):
    with (
        Grudging(Said(status, "<h1>Some proxy</h1>")) as server,
        pytest.raises(Problem, match="Some proxy") as raised,
    ):
        call(server.address, "turn", 7, 0, "go")
    assert raised.value.status == status


def test_rewards_are_sent_in_batches_of_1000(call):
    one = {"status": 201, "episode": 7, "turn": 0, "is_late": False, "detail": ""}
    with Grudging(*[Said(201, {"results": [one] * count}) for count in (1000, 1000, 1)]) as server:
        assert len(call(server.address, "reward", [Reward(7, 0.5, turn=0)] * 2001)) == 2001
    assert [len(heard.body["rewards"]) for heard in server.heard] == [1000, 1000, 1]
