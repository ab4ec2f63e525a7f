"""A reset/step/close service, called over HTTP: the requests it gets, and that failures are
reported with their reason.
"""

import asyncio
import time

import pytest

from apps.environments.library.protocol import Step
from apps.environments.pull.errors import BadAddress, CallFailed
from apps.environments.pull.http import HttpSession


def played(environment, *actions: str) -> list[Step]:
    async def play() -> list[Step]:
        session = HttpSession(environment)
        steps = [await session.begin(7, 3, {"low": 1})]
        for action in actions:
            steps.append(await session.step(action))
        await session.close()
        return steps

    return asyncio.run(play())


def failure(environment) -> str:
    with pytest.raises(CallFailed) as caught:
        played(environment, "5")
    return str(caught.value)


def test_episode_is_played_under_the_session_name_of_the_service(service, called):
    first, wrong, right = played(called, "4", "5")
    assert (first, wrong.reward, right.reward, right.done) == (
        Step("guess", None, False),
        0.0,
        1.0,
        True,
    )
    assert service.asked == [
        ("/play/reset", {"session": "7", "seed": 3, "options": {"low": 1}}),
        ("/play/step", {"session": "s3", "number": 1, "action": "4"}),
        ("/play/step", {"session": "s3", "number": 2, "action": "5"}),
        ("/play/close", {"session": "s3"}),
    ]


@pytest.mark.parametrize(
    ("breaks", "reason"),
    [
        ("crash", "has the status 500"),
        ("redirect", "has the status 307"),
        ("cut", "no complete response"),
        ("large", "longer than 4194304 bytes"),
        ("{", "not strict JSON"),
        ('{"observation": "a", "reward": NaN, "done": false}', "NaN is not a number"),
        ('{"observation": "a", "reward": 1e999, "done": false}', "too large for a number"),
        ('{"observation": "a", "reward": 1, "reward": 0, "done": false}', "duplicate key 'reward'"),
        ('{"observation": "\\ud800", "reward": 1, "done": false}', "half of a surrogate pair"),
        ("[]", "must be an object"),
        ('{"observation": "a", "done": false}', "/step: reward: required"),
        ('{"observation": "a", "reward": 1, "done": 0}', "/step: done: must be true or false"),
        (
            '{"observation": "a", "reward": 1, "done": false, "score": 2}',
            "/step: score: not a known field",
        ),
        (
            '{"observation": "a", "reward": 1, "done": false, "info": []}',
            "/step: info: must be an object",
        ),
    ],
)
def test_a_broken_service_fails_with_its_reason(service, called, breaks, reason):
    service.breaks = breaks
    assert reason in failure(called)


@pytest.mark.parametrize("breaks", ["hang", "drip"])
def test_silent_or_endless_response_can_be_cancelled(service, called, breaks):
    service.breaks = breaks

    async def play() -> None:
        session = HttpSession(called)
        await session.begin(7, 3, {})
        async with asyncio.timeout(0.2):
            await session.step("5")

    began = time.monotonic()
    with pytest.raises(TimeoutError):
        asyncio.run(play())
    assert time.monotonic() - began < 25  # the service stays silent for 30


def test_unreachable_service_is_reported(called):
    called.address = "http://127.0.0.1:9/play"
    assert "cannot be reached" in failure(called)


def test_forbidden_address_is_not_called(service, called, settings):
    settings.ENVIRONMENT_HOSTS = []
    with pytest.raises(BadAddress, match="inside this network"):
        played(called)
    assert service.asked == []


def test_invalid_action_is_not_sent_and_gets_the_lowest_reward(service, called):
    called.action_schema = {"type": "object", "properties": {"x": {"type": "integer"}, "y": {}}}
    called.reward_low = -1.0
    _, step = played(called, "left")
    assert (step.reward, step.done) == (-1.0, False) and step.observation.startswith(
        "that is no action: say an object with x, y"
    )
    assert service.heard("/step") == []
