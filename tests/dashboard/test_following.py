"""The page of one rollout in full view, and the address of interventions: access rights, refusals
and their messages.
"""

import json
import uuid
from dataclasses import replace

import pytest

from apps.feedback.models import Intervention
from apps.rollouts.models import Group, Outcome, Rollout
from apps.rollouts.turns import Turn, TypedSpan
from apps.tasksets.models import Task
from tests.conftest import tokens_of

TEXT = "I am sorry.\n\nAnd when?\n\nBy <b>Friday</b>."


@pytest.fixture
def sampled(run) -> Rollout:
    """Create a rollout that is being sampled."""
    [group] = Group.open(run, "explorer", 60, 1, 0)
    return group.rollouts.order_by("sample_index").first()


@pytest.fixture
def ask(client, alice, sampled):
    """Post an intervention as this user; return (status, response)."""

    def post(kind="stop", user=alice, body=None, **fields):
        client.force_login(user)
        document = {"client_uuid": str(uuid.uuid4()), **fields} if body is None else body
        text = document if isinstance(document, str) else json.dumps(document)
        answer = client.post(f"/live/{sampled.pk}/{kind}/", text, content_type="application/json")
        return answer.status_code, answer.json()

    return post


def test_repeated_intervention_is_stored_once(ask, client, sampled):
    same = str(uuid.uuid4())
    assert ask("edit", text="I am", turn=0, client_uuid=same) == (
        202,
        {"state": "pending", "reason": ""},
    )
    assert ask("edit", text="I am", turn=0, client_uuid=same)[0] == 202
    act = Intervention.objects.get()
    assert (act.rollout, act.kind, act.text, act.turn) == (sampled, "edit", "I am", 0)
    assert client.get(f"/live/{sampled.pk}/edit/?client_uuid={same}").json() == {
        "state": "pending",
        "reason": "",
    }
    Intervention.objects.update(state="refused", reason="too long for it")
    assert client.get(f"/live/{sampled.pk}/edit/?client_uuid={same}").json() == {
        "state": "refused",
        "reason": "too long for it",
    }


@pytest.mark.parametrize(
    ("kind", "fields", "words"),
    [
        ("edit", {"text": "  "}, "must not be empty"),
        ("edit", {"text": "x" * 100_001}, "the maximum is 100000"),
        ("edit", {"text": "a\0b"}, "NUL"),
        ("seat", {"text": "\ud800"}, "can’t be stored"),
        ("stop", {"text": "why"}, "takes no text"),
        ("explode", {}, "unknown action"),
        ("edit", {"text": "x", "turn": -1}, "the turn doesn’t exist"),
        ("edit", {"text": "x", "turn": "0"}, "turn an integer"),
        ("edit", {"text": ["x"]}, "text must be a string"),
        ("edit", {"client_uuid": "7"}, "client_uuid"),
    ],
)
def test_invalid_intervention_is_refused_with_a_message(ask, kind, fields, words):
    status, answer = ask(kind, **fields)
    assert status == 422 and words in answer["detail"] and not Intervention.objects.exists()


@pytest.mark.parametrize(
    "body", ["", "[]", "null", "{", "[" * 5000, '{"text": "x"}', '{"client_uuid": 7}']
)
def test_invalid_body_is_refused(ask, body):
    assert ask("edit", body=body)[0] == 422


def test_users_without_the_right_to_steer_get_404(ask, bob, carol):
    assert [ask("stop", user=person)[0] for person in (bob, carol)] == [404, 404]
    assert not Intervention.objects.exists()


def test_rater_can_intervene_if_the_run_allows_it(ask, bob, run):
    run.config["people"]["steer"] = True
    run.save()
    assert ask("stop", user=bob)[0] == 202


def test_signed_out_user_gets_401_instead_of_a_redirect(client, sampled):
    answer = client.post(f"/live/{sampled.pk}/edit/", "{}", content_type="application/json")
    assert answer.status_code == 401 and "still here" in answer.json()["detail"]


def test_reused_uuid_and_ended_rollout_are_conflicts(ask, sampled):
    same = str(uuid.uuid4())
    ask("stop", client_uuid=same)
    assert ask("hold", client_uuid=same)[1]["code"] == "used_uuid"
    Rollout.objects.filter(pk=sampled.pk).update(state=Rollout.State.FAILED)
    assert ask("stop")[1]["code"] == "ended"


@pytest.fixture
def typed(sampled, alice) -> Rollout:
    """Create a finished dialogue in which alice typed the end of the last turn."""
    act = Intervention.objects.create(
        rollout=sampled, by=alice, kind="edit", text="x", client_uuid=uuid.uuid4(), state="done"
    )
    start = TEXT.index("By")
    mark = TypedSpan(act.pk, start + 3, len(TEXT), start + 3, len(TEXT) - start - 3)
    turns = (
        Turn("assistant", TEXT[:11], 0, 0, 11),
        Turn("user", "And when?", 13, 11, 11),
        Turn("assistant", TEXT[start:], start, 24, len(TEXT) - start, (mark,)),
    )
    mask = tuple(int(n < start + 3) for n in range(len(TEXT)))
    tokens = replace(tokens_of(TEXT), action_mask=mask)
    outcomes = [
        Outcome(r.pk, tokens, TEXT, "stop", turns=turns) for r in sampled.group.rollouts.all()
    ]
    Group.finish_rollouts({sampled.group_id: sampled.group.claimed}, outcomes)
    sampled.refresh_from_db()
    return sampled


@pytest.mark.parametrize("address", ["/live/{}/", "/rollouts/{}/"])
def test_text_typed_by_a_user_is_marked_in_the_transcript(client, alice, typed, address):
    client.force_login(alice)
    page = client.get(address.format(typed.pk)).content.decode()
    assert (
        '<span class="human-text" title="Written by alice">&lt;b&gt;Friday&lt;/b&gt;.</span>'
        in page
    )
    assert page.count("And when?") >= 1 and "<b>Friday" not in page


def test_typed_tokens_are_marked_and_have_no_probability_shade(client, alice, typed):
    client.force_login(alice)
    tokens = client.get(f"/rollouts/{typed.pk}/").context["shading"].tokens
    start = TEXT.index("By") + 3
    assert {token.by for token in tokens[:start]} == {""} and {
        token.by for token in tokens[start:]
    } == {"alice"}
    assert {token.shade for token in tokens[start:]} == {""}


def test_page_of_a_dialogue_needs_at_most_18_queries(
    client, alice, typed, django_assert_max_num_queries
):
    client.force_login(alice)
    with django_assert_max_num_queries(18):
        assert client.get(f"/live/{typed.pk}/").status_code == 200


def test_page_of_a_dialogue_explains_what_happens_with_typed_text(client, alice, sampled):
    client.force_login(alice)
    words = "is saved as a demonstration. Offline runs"
    assert words not in client.get(f"/live/{sampled.pk}/").content.decode()
    Task.objects.filter(pk=sampled.group.task_id).update(follow_ups=["And when?"])
    assert words in client.get(f"/live/{sampled.pk}/").content.decode()
