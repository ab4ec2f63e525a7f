"""Trying a prompt on a model's page: the request, what the page shows, and who may see it."""

from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from apps.accounts.models import Membership
from apps.rollouts.models import Chat, ChatTurn
from apps.runs.model_use import why_not_deleted
from apps.runs.models import Worker

KNOBS = {"temperature": "0.5", "max_tokens": "20"}


@pytest.fixture
def owner(client: Client, alice, policy) -> Client:
    client.force_login(alice)
    return client


def at(policy, name: str = "policy") -> str:
    return reverse(name, args=[policy.project.slug, policy.slug])


def asked(owner: Client, policy, text: str = "Hello", **more: str) -> ChatTurn:
    answer = owner.post(at(policy, "policy-prompt"), {**KNOBS, "text": text, **more})
    assert answer.status_code == 302, answer.content.decode()
    assert answer["Location"].endswith("#try")
    return ChatTurn.objects.latest("pk")


def ended(turn: ChatTurn, **changes: object) -> None:
    """End the turn as an explorer does."""
    told = {"state": "done", "tokens": 3, "stop_reason": "stop", "ended_at": timezone.now()}
    ChatTurn.objects.filter(pk=turn.pk).update(**{**told, **changes})


def test_prompt_is_queued_and_its_reply_is_shown(owner, alice, policy):
    turn = asked(owner, policy, "My <b>lamp</b> is late", system="Be kind")
    assert [message["role"] for message in turn.messages] == ["system", "user"]
    assert (turn.temperature, turn.max_tokens) == (0.5, 20)
    assert (turn.chat.policy, turn.chat.by, turn.chat.weight_version) == (policy, alice, None)
    html = owner.get(at(policy)).content.decode()
    assert "Waiting for an engine" in html and "auto_refresh.js" in html
    ended(turn, reply="I am **sorry** <script>")
    html = owner.get(at(policy, "policy-prompt-now")).content.decode()
    assert "<strong>sorry</strong>" in html and "&lt;script&gt;" in html
    assert "My &lt;b&gt;lamp&lt;/b&gt; is late" in html and "data-ended" in html


def test_the_form_keeps_the_last_prompt_and_its_settings(owner, policy):
    ended(asked(owner, policy, "My lamp", system="Be kind"))
    html = owner.get(at(policy)).content.decode()
    assert 'value="0.5"' in html and 'value="20"' in html
    assert html.count("My lamp") == html.count("Be kind") == 2  # the conversation and the form
    assert "Try again" in html


def test_page_shows_that_the_model_is_loading_or_writing(owner, policy):
    turn = asked(owner, policy)
    now = at(policy, "policy-prompt-now")
    ChatTurn.objects.filter(pk=turn.pk).update(state="loading")
    assert "Loading the model into an engine" in owner.get(now).content.decode()
    ChatTurn.objects.filter(pk=turn.pk).update(state="writing", reply="I am", tokens=2)
    html = owner.get(now).content.decode()
    assert "I am" in html and "Stop" in html and "data-ended" not in html


def test_page_says_what_to_do_when_no_explorer_is_running(owner, policy):
    Worker.objects.update(heartbeat_at=timezone.now() - timedelta(minutes=5))
    turn = asked(owner, policy)
    ChatTurn.objects.filter(pk=turn.pk).update(requested_at=timezone.now() - timedelta(minutes=1))
    html = owner.get(at(policy, "policy-prompt-now")).content.decode()
    assert "No explorer is running" in html and "manage.py up" in html


def test_page_shows_why_a_reply_failed(owner, policy):
    ended(asked(owner, policy), state="failed", reason="the conversation is too long")
    html = owner.get(at(policy)).content.decode()
    assert "The conversation is too long." in html


def test_second_prompt_waits_until_the_first_ends_and_then_replaces_it(owner, policy):
    first = asked(owner, policy, "One")
    answer = owner.post(at(policy, "policy-prompt"), {**KNOBS, "text": "Two"})
    assert answer.status_code == 422
    html = answer.content.decode()
    assert "still being generated" in html and "Two" in html
    assert owner.post(at(policy, "policy-prompt-stop")).status_code == 302
    first.refresh_from_db()
    assert first.state == "stopped"
    asked(owner, policy, "Three")
    assert [turn.prompt[-1]["content"] for turn in ChatTurn.objects.all()] == ["Three"]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"text": " "}, "Enter a message"),
        ({"temperature": "0"}, "greater than or equal to 0.01"),
        ({"temperature": "nan"}, "Enter a number"),
        ({"max_tokens": "9999999"}, "less than or equal to 4096"),
        ({"text": "x" * 20_001}, "at most 20000 characters"),
    ],
)
def test_invalid_prompt_form_is_rejected_and_keeps_its_input(owner, policy, wrong, words):
    said = {**KNOBS, "text": "Hello", "system": "Be kind", **wrong}
    answer = owner.post(at(policy, "policy-prompt"), said)
    html = answer.content.decode()
    assert answer.status_code == 422
    assert words in html and "Be kind" in html
    assert not Chat.objects.exists()


def test_strangers_get_404_and_raters_may_not_try_prompts(owner, client, policy, bob, carol):
    turn = asked(owner, policy)
    client.force_login(carol)
    for name in ("policy-prompt", "policy-prompt-stop"):
        assert client.post(at(policy, name), {**KNOBS, "text": "Hi"}).status_code == 404
    assert client.get(at(policy, "policy-prompt-now")).status_code == 404
    rating = {"role": "rater"}
    Membership.objects.update_or_create(project=policy.project, user=bob, defaults=rating)
    client.force_login(bob)
    assert client.post(at(policy, "policy-prompt"), {**KNOBS, "text": "Hi"}).status_code == 403
    assert "Try a prompt" not in client.get(at(policy)).content.decode()
    assert list(ChatTurn.objects.all()) == [turn]


def test_person_cannot_see_or_stop_another_persons_prompt(owner, client, policy, bob):
    asked(owner, policy, "My secret")
    Membership.objects.update_or_create(
        project=policy.project, user=bob, defaults={"role": "researcher"}
    )
    client.force_login(bob)
    assert "My secret" not in client.get(at(policy)).content.decode()
    assert "No prompt tried yet" in client.get(at(policy, "policy-prompt-now")).content.decode()
    assert client.post(at(policy, "policy-prompt-stop")).status_code == 404


def test_model_with_a_prompt_trial_can_be_deleted(owner, policy):
    asked(owner, policy)
    assert why_not_deleted(policy) == ""
    owner.post(at(policy, "policy-delete"))
    assert not Chat.objects.exists()
