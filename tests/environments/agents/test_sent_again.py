"""A call that its sender names with an Idempotency-Key is done once: the same again has the same
answer.
"""

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


def test_the_same_call_has_the_same_answer_and_begins_nothing_new(run, client, actor):
    first, again = (ask(client, **NAMED) for _ in range(2))
    assert first.to_dict() == again.to_dict() and Group.objects.count() == 1


def test_calls_that_arrive_together_are_one(run, client, actor):
    def say(_: int) -> str:
        try:
            return ask(client, **NAMED).id
        except openai.ConflictError as at_work:
            assert at_work.response.headers["Retry-After"]
            return ""

    with ThreadPoolExecutor(8) as pool:
        ids = {said for said in pool.map(say, range(8)) if said}
    assert len(ids) == 1 and Group.objects.count() == 1


def test_several_answers_are_the_same_in_their_order(run, client, actor):
    first, again = (ask(client, n=2, **NAMED) for _ in range(2))
    assert [choice.completion_id for choice in first.choices] == [
        choice.completion_id for choice in again.choices
    ]


def test_a_key_of_another_call_is_refused(run, client, actor):
    ask(client, **NAMED)
    assert (
        "Idempotency-Key"
        in refusal(openai.UnprocessableEntityError, ask, client, OTHER, **NAMED).message
    )


def test_a_key_in_another_session_or_run_is_another_calls(
    run, client, client_of, actor, alice, new_run
):
    ask(client, **NAMED)
    session = {"extra_headers": {**NAMED["extra_headers"], "X-Rftweb-Episode": "a"}}
    refusal(openai.UnprocessableEntityError, ask, client, **session)
    other = Token.issue(alice, "another", [f"agent:{new_run(**SERVED, serve={}).pk}"])[1]
    refusal(openai.UnprocessableEntityError, ask, client_of(other), **NAMED)


def test_a_call_that_was_refused_leaves_its_key_free(run, client, actor):
    run.pause()
    refusal(openai.RateLimitError, ask, client, **NAMED)
    run.resume()
    assert ask(client, **NAMED).choices[0].message.content == "one"


def test_a_call_that_nobody_will_answer_is_begun_anew(run, client, ender):
    assert refusal(openai.InternalServerError, ask, client, **NAMED).status_code == 503
    before = Group.objects.count()  # more than one, where it was ended before the call looked at it
    refusal(openai.InternalServerError, ask, client, **NAMED)
    assert Group.objects.count() > before and OnceRequest.objects.count() == 1


def test_feedback_sent_again_is_the_same_word(run, client, address, key, actor):
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


def test_a_session_begun_again_is_the_same_and_its_secret_is_not_kept(run, address, key):
    headers = {"Authorization": f"Bearer {key}", "Idempotency-Key": "s1"}
    first, again = (
        httpx.post(f"{address}/v1/rl/start_session", json={}, headers=headers, timeout=20)
        for _ in range(2)
    )
    assert first.json() == again.json() and first.json()["api_key"].startswith(key)
    assert key not in str(OnceRequest.objects.get().answer)
