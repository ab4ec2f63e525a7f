"""Whatever the request, the response has OpenAI's error shape and is never an internal error."""

import json

import pytest
from django.test import Client

from apps.accounts.models import Token
from apps.environments.models import Episode
from rftweb import request_bodies
from rftweb.request_bodies import is_authenticated

pytestmark = pytest.mark.django_db
SAID = {"role": "user", "content": "Guess!"}
DEEP = "[" * 5_000 + "]" * 5_000


def with_messages(*messages: object, **more: object) -> dict:
    return {"model": "tiny", "messages": list(messages), **more}


BODIES = [
    [],
    "x",
    3,
    None,
    {},
    {"model": ["tiny"], "messages": [SAID]},
    {"model": "tiny"},
    {"model": "tiny", "messages": "x"},
    with_messages(3),
    with_messages({"role": ["user"], "content": "x"}),
    with_messages({"role": "user"}),
    with_messages({"role": "user", "content": {"type": "text"}}),
    with_messages({"role": "user", "content": [{"type": "text"}]}),
    with_messages({"role": "assistant", "tool_calls": 3}),
    with_messages({"role": "assistant", "tool_calls": [{"id": 1}]}),
    with_messages(
        {
            "role": "assistant",
            "tool_calls": [{"id": 1, "function": {"name": "x", "arguments": DEEP}}],
        }
    ),
    with_messages({"role": "assistant", "content": "mine"}),
    with_messages({"role": "tool", "content": "x", "tool_call_id": [1]}),
    with_messages({"role": "user", "content": "x" * 200_001}),
    with_messages(*[SAID] * 300),
    with_messages(SAID, stream="yes"),
    with_messages(SAID, temperature=True),
    with_messages(SAID, temperature=10**39),
    with_messages(SAID, max_tokens="many"),
    with_messages(SAID, tools=3),
    with_messages(SAID, tools=[{"type": "function", "function": {"name": {}}}]),
    with_messages(SAID, tool_choice={"type": "function"}),
    with_messages(SAID, stream_options=[1]),
    with_messages(SAID, n=True),
    with_messages(SAID, logit_bias=[]),
    with_messages(SAID, **{"x" * 500: 1}),
]


def posted(verb: str, body: bytes, key: str, **headers: str):
    client = Client(raise_request_exception=False)
    fields = {"Authorization": f"Bearer {key}", **headers}
    return client.post(f"/v1/{verb}", body, content_type="application/json", headers=fields)


def test_invalid_request_is_rejected_in_openais_error_shape(key, episodes):
    for body in [
        *(json.dumps(body).encode() for body in BODIES),
        b"",
        b"{",
        b'{"model": NaN}',
        b"\xff",
        DEEP.encode(),
    ]:
        answer = posted("chat/completions", body, key)
        assert 400 <= answer.status_code < 500, (body[:100], answer.content)
        assert set(answer.json()["error"]) == {"message", "type", "param", "code"}
    assert not Episode.objects.exclude(state="waiting").exists()


def test_invalid_or_unknown_episode_name_is_rejected(key, episodes):
    for name in ("a b", "x" * 101, "-", "../x"):
        answer = posted(
            "chat/completions",
            json.dumps(with_messages(SAID)).encode(),
            key,
            **{"X-Rftweb-Episode": name},
        )
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, "X-Rftweb-Episode")
    answer = posted(
        "chat/completions",
        json.dumps(with_messages(SAID)).encode(),
        key,
        **{"X-Rftweb-Episode": "9" * 18},
    )
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "episode_not_found")


def test_unknown_endpoint_is_rejected_in_openais_error_shape(key):
    for verb in ("embeddings", "responses", "chat/completions/", "threads/1/runs"):
        answer = posted(verb, b"{}", key)
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "unsupported_endpoint")
        assert "/v1/chat/completions" in answer.json()["error"]["message"]


def test_key_without_a_run_scope_is_authenticated_and_an_unknown_key_is_not(alice, monkeypatch):
    monkeypatch.setattr(request_bodies, "close_old_connections", lambda: None)  # it is the test's
    secret = Token.issue(alice, "reader", [Token.Scope.READ])[1]
    environ = {"REQUEST_METHOD": "POST", "PATH_INFO": "/v1/chat/completions"}
    assert is_authenticated({**environ, "HTTP_AUTHORIZATION": f"Bearer {secret}"})
    assert not is_authenticated({**environ, "HTTP_AUTHORIZATION": f"Bearer {secret}x"})
    assert not is_authenticated(environ)
