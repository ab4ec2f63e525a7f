"""A call with an Idempotency-Key is executed once; repeating it returns the same answer."""

from concurrent.futures import ThreadPoolExecutor

import httpx
import openai
import pytest

from apps.accounts.models import OnceRequest, Token
from apps.environments.models import Feedback
from apps.rollouts.models import Group
from apps.runs.models import Run
from tests.environments.agents.test_chat import ask, refusal
from tests.serving import SERVED

pytestmark = pytest.mark.django_db(transaction=True)
NAMED = {"extra_headers": {"Idempotency-Key": "k1"}}
OTHER = [{"role": "user", "content": "Something else"}]


@pytest.fixture
def run(agent, new_run) -> Run:
    return new_run(**SERVED, serve={})


def test_repeated_call_has_the_same_answer_and_opens_no_group(run, client, actor):
    first, again = (ask(client, **NAMED) for _ in range(2))
    assert first.to_dict() == again.to_dict() and Group.objects.count() == 1


def test_simultaneous_calls_with_one_key_open_one_group(run, client, actor):
    def say(_: int) -> str:
        try:
            return ask(client, **NAMED).id
        except openai.ConflictError as at_work:
            assert at_work.response.headers["Retry-After"]
            return ""

    with ThreadPoolExecutor(8) as pool:
        ids = {said for said in pool.map(say, range(8)) if said}
    assert len(ids) == 1 and Group.objects.count() == 1


def test_repeated_call_returns_several_choices_in_the_same_order(run, client, actor):
    first, again = (ask(client, n=2, **NAMED) for _ in range(2))
    assert [choice.completion_id for choice in first.choices] == [
        choice.completion_id for choice in again.choices
    ]


def test_key_used_for_another_call_is_rejected(run, client, actor):
    ask(client, **NAMED)
    assert (
        "Idempotency-Key"
        in refusal(openai.UnprocessableEntityError, ask, client, OTHER, **NAMED).message
    )


def test_key_reused_in_another_session_or_run_is_rejected(
    run, client, client_of, actor, alice, new_run
):
    ask(client, **NAMED)
    session = {"extra_headers": {**NAMED["extra_headers"], "X-Rftweb-Episode": "a"}}
    refusal(openai.UnprocessableEntityError, ask, client, **session)
    other = Token.issue(alice, "another", [f"agent:{new_run(**SERVED, serve={}).pk}"])[1]
    refusal(openai.UnprocessableEntityError, ask, client_of(other), **NAMED)


def test_rejected_call_can_be_sent_again_with_its_key(run, client, actor):
    run.pause()
    refusal(openai.RateLimitError, ask, client, **NAMED)
    run.resume()
    assert ask(client, **NAMED).choices[0].message.content == "one"


def test_call_whose_episode_ended_is_started_again(run, client, ender):
    assert refusal(openai.InternalServerError, ask, client, **NAMED).status_code == 503
    before = Group.objects.count()  # more than one, where it was ended before the call looked at it
    refusal(openai.InternalServerError, ask, client, **NAMED)
    assert Group.objects.count() > before and OnceRequest.objects.count() == 1


def test_repeated_feedback_is_recorded_once(run, client, address, key, actor):
    said = {"completion_id": ask(client).id, "thumb": "up"}
    headers = {"Authorization": f"Bearer {key}", "Idempotency-Key": "f1"}
    first, again = (
        httpx.post(f"{address}/v1/feedback", json=said, headers=headers, timeout=20)
        for _ in range(2)
    )
    assert (
        (first.status_code, first.json())
        == (again.status_code, again.json())
        == (201, first.json())
    )
    changed = httpx.post(
        f"{address}/v1/feedback", json={**said, "thumb": "down"}, headers=headers, timeout=20
    )
    assert changed.status_code == 422 and Feedback.objects.get().value == 1.0


def test_repeated_session_start_returns_the_same_key_and_does_not_store_it(run, address, key):
    headers = {"Authorization": f"Bearer {key}", "Idempotency-Key": "s1"}
    first, again = (
        httpx.post(f"{address}/v1/rl/start_session", json={}, headers=headers, timeout=20)
        for _ in range(2)
    )
    assert first.json() == again.json() and first.json()["api_key"].startswith(key)
    assert key not in str(OnceRequest.objects.get().answer)
