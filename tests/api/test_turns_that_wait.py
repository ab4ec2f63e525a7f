"""Over a real server: a turn is answered when the policy has acted, and waiting for it occupies
no web thread.
"""

import json
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import httpx
import pytest

from apps.accounts.models import Token
from apps.environments.closing import fail_episode
from apps.environments.episode_opening import assign_episode, open_episodes
from apps.environments.models import Environment, Episode
from apps.environments.playing import Action, record_actions
from apps.rollouts.models import Group, Rollout
from apps.streaming.chunks import ChunkWriter, rollout_key
from rftweb.threads import THREADS

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def episode(project, alice, new_run) -> Episode:
    """Create an episode that alice plays."""
    environment = Environment.objects.create(
        project=project, name="maze", kind=Environment.Kind.PUSH
    )
    run = new_run(environment={"name": "maze"}, rewards=[])
    groups = Group.open(run, "explorer@test", 60, 1, run.published_version)
    open_episodes(
        environment,
        run.settings.environment,
        groups,
        list(Rollout.objects.filter(group__in=groups)),
    )
    return assign_episode(environment, alice)


@pytest.fixture
def say(served, episode, alice) -> Callable[..., httpx.Response]:
    """Post the first turn."""
    headers = {"Authorization": f"Bearer {Token.issue(alice, 'maze', ['env:write:maze'])[1]}"}
    path = f"{served}/api/v1/episodes/{episode.pk}/turns/"

    def post(prefer: str = "", **said: object) -> httpx.Response:
        more = {"Prefer": prefer} if prefer else {}
        return httpx.post(
            path,
            json={"observation": "go", "number": 0, **said},
            headers={**headers, **more},
            timeout=60,
        )

    return post


def test_a_turn_is_answered_when_the_policy_acts(say, served, episode):
    assert say("respond-async").status_code == 202
    began = time.monotonic()
    late = say(timeout_s=0.2)
    assert (
        late.status_code == 202
        and late.headers["Location"].endswith("/turns/0/")
        and time.monotonic() - began >= 0.2
    )
    count = 3 * THREADS
    with ThreadPoolExecutor(count) as pool:
        waiting: list[Future] = [pool.submit(say, timeout_s=50) for _ in range(count)]
        for _ in range(10):  # a thread stays free meanwhile
            assert httpx.get(f"{served}/healthz", timeout=20).status_code == 200
        assert not any(one.done() for one in waiting)
        record_actions([Action(episode.pk, 0, "left", 0, 2)])
        answers = [one.result(30) for one in waiting]
    assert {(answer.status_code, answer.json()["action"]) for answer in answers} == {(200, "left")}


def test_waiting_request_is_answered_when_the_episode_ends(say, episode, eventually):
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(say, timeout_s=50)
        eventually(lambda: Episode.objects.get(pk=episode.pk).turns == 1, 30)
        fail_episode(episode.pk, "the board fell down")
        answer = waiting.result(30)
    assert (answer.status_code, answer.json()["state"], answer.json()["reason"]) == (
        200,
        "failed",
        "the board fell down",
    )
    assert answer.json()["action"] is None


def test_turn_is_streamed_while_written_and_ends_like_the_plain_response(
    say, served, episode, alice
):
    writer = ChunkWriter(episode.run.topic_id)
    writer.redis.delete(rollout_key(episode.rollout_id))
    writer.started(episode.rollout_id, 1, "go", 0)
    writer.add(episode.rollout_id, 0, "le", (-0.5,), 0)
    writer.flush(at_once=True)
    headers = {
        "Authorization": f"Bearer {Token.issue(alice, 'maze', ['env:write:maze'])[1]}",
        "Accept": "text/event-stream",
    }
    path = f"{served}/api/v1/episodes/{episode.pk}/turns/"
    with httpx.stream(
        "POST", path, json={"observation": "go", "number": 0}, headers=headers, timeout=60
    ) as answer:
        assert (answer.status_code, answer.headers["content-type"]) == (
            200,
            "text/event-stream; charset=utf-8",
        )
        lines = answer.iter_lines()
        assert [next(lines), next(lines)] == ["event: text", 'data: {"number": 0, "text": "le"}']
        record_actions([Action(episode.pk, 0, "left", 0, 2)])
        rest = list(lines)
    assert (
        rest[:2] == ["", "event: turn"]
        and json.loads(rest[2].removeprefix("data: ")) == say().json()
    )
    at_once = httpx.post(path, json={"observation": "go", "number": 0}, headers=headers, timeout=60)
    assert at_once.text.splitlines() == rest[1:]
    refused = httpx.post(path, json={"observation": 1}, headers=headers, timeout=60)
    assert (refused.status_code, refused.headers["content-type"]) == (
        422,
        "application/problem+json",
    )
    assert refused.json()["errors"]["observation"]
