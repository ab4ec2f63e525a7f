"""Chatting with a version in the browser, and two versions side by side: prompts, replies and
access.
"""

import re
from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from apps.accounts.models import Membership, User
from apps.dashboard.views import comparing_versions
from apps.evaluation.asking import start_evaluation
from apps.rollouts.models import Chat, ChatTurn, Comparison
from apps.runs.evaluation import Questions
from apps.runs.models import Worker

KNOBS = {"temperature": "0.5", "max_tokens": "20"}


def at(name: str, *more: object) -> str:
    return reverse(name, args=["lab", "tone-7", *more])


@pytest.fixture
def alice(client, seeded):
    client.force_login(seeded.alice)
    return client


def said(turn: ChatTurn, text: str, state: str = "done") -> ChatTurn:
    """Complete the turn as an explorer does."""
    ChatTurn.objects.filter(pk=turn.pk).update(
        state=state, reply=text, tokens=3, stop_reason="stop", ended_at=timezone.now()
    )
    turn.refresh_from_db()
    return turn


def asked(alice, text: str, **more: str) -> ChatTurn:
    answer = alice.post(at("run-weight-chat", 3), {**KNOBS, "text": text, **more})
    assert answer.status_code == 302, answer.content.decode()
    return ChatTurn.objects.latest("pk")


def test_chat_is_started_continued_and_listed(alice, seeded):
    first = asked(alice, "My lamp is late", system="Be kind")
    said(first, "I am **sorry**")
    second = asked(alice, "And my chair", chat=str(first.chat_id))
    assert [message["content"] for message in second.messages] == [
        "Be kind",
        "My lamp is late",
        "I am **sorry**",
        "And my chair",
    ]
    assert (second.temperature, second.max_tokens, second.chat.by) == (0.5, 20, seeded.alice)
    html = alice.get(at("run-weight-chat", 3) + f"?chat={first.chat_id}").content.decode()
    assert "<strong>sorry</strong>" in html
    assert "Waiting for an engine" in html
    assert 'value="0.5"' in html
    assert f"?chat={first.chat_id}" in alice.get(at("run-weight-chat", 3)).content.decode()


def test_base_milestones_and_kept_versions_are_offered_with_the_newest(alice, seeded):
    run = seeded.run
    run.change_config(seeded.alice, checkpoints={"milestones": 10})
    for number in range(4, 61):
        state = "published" if number % 10 == 0 or number in (7, *range(46, 61)) else "retired"
        pinned = timezone.now()
        run.weight_versions.create(
            version=number,
            step=number,
            state=state,
            folder="/nowhere",
            pinned_at=pinned if number == 7 else None,
        )
    html = alice.get(at("run-weight-chat", 3)).content.decode()
    offered = re.findall(
        r'">v(\d+)</a>', html.split("Chat with another version")[1].split("</nav>")[0]
    )
    assert [int(number) for number in offered] == [*range(60, 48, -1), 40, 30, 20, 10, 7, 3, 0]


def test_model_output_is_escaped(alice):
    turn = said(asked(alice, "<b>me</b>"), "<script>alert(1)</script>")
    html = alice.get(at("run-weight-chat-now", 3, turn.chat_id)).content.decode()
    assert "<script>" not in html
    assert "&lt;b&gt;me" in html


def test_loading_and_writing_states_are_shown(alice):
    turn = asked(alice, "Hello")
    now = at("run-weight-chat-now", 3, turn.chat_id)
    ChatTurn.objects.filter(pk=turn.pk).update(state="loading")
    assert "Loading v3 into an engine" in alice.get(now).content.decode()
    ChatTurn.objects.filter(pk=turn.pk).update(state="writing", reply="I am", tokens=2)
    html = alice.get(now).content.decode()
    assert "I am" in html
    assert "Stop" in html
    assert "data-ended" not in html
    said(turn, "I am here")
    assert "data-ended" in alice.get(now).content.decode()


def test_missing_explorer_is_reported_with_advice(alice, seeded):
    Worker.objects.all().update(heartbeat_at=timezone.now() - timedelta(minutes=5))
    turn = asked(alice, "Hello")
    ChatTurn.objects.filter(pk=turn.pk).update(requested_at=timezone.now() - timedelta(minutes=1))
    now = at("run-weight-chat-now", 3, turn.chat_id)
    html = alice.get(now).content.decode()
    assert "No explorer is running" in html
    assert "manage.py up" in html
    Worker.objects.filter(role="explorer").update(heartbeat_at=timezone.now())
    assert "Waiting for its turn" in alice.get(now).content.decode()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"text": " "}, "Enter a message"),
        ({"temperature": "0"}, "Temperature: "),
        ({"temperature": "nan"}, "Temperature: "),
        ({"max_tokens": "9999999"}, "Max tokens: "),
        ({"text": "x" * 20_001}, "at most 20000 characters"),
    ],
)
def test_invalid_message_is_refused_at_its_field(alice, wrong, words):
    answer = alice.post(at("run-weight-chat", 3), {**KNOBS, "text": "Hello", **wrong})
    assert answer.status_code == 422
    assert words in answer.content.decode()
    assert not Chat.objects.exists()


def test_second_message_is_refused_until_the_reply_is_complete(alice):
    turn = asked(alice, "Hello")
    answer = alice.post(
        at("run-weight-chat", 3), {**KNOBS, "text": "And?", "chat": str(turn.chat_id)}
    )
    assert answer.status_code == 422
    assert "still being generated" in answer.content.decode()


def test_reply_can_be_stopped_and_retried(alice):
    turn = asked(alice, "Hello")
    alice.post(at("run-weight-chat-act", 3, turn.chat_id, "stop"))
    turn.refresh_from_db()
    assert turn.state == "stopped"
    alice.post(at("run-weight-chat-act", 3, turn.chat_id, "again"))
    turn.refresh_from_db()
    assert turn.is_replaced
    assert turn.chat.current_turns.get().state == "waiting"


def test_chat_is_visible_only_to_its_owner(client, alice, seeded):
    turn = asked(alice, "Hello")
    dave = User.objects.create(username="dave")
    Membership.objects.create(
        project=seeded.run.project, user=dave, role=Membership.Role.RESEARCHER
    )
    client.force_login(dave)
    assert client.get(at("run-weight-chat", 3) + f"?chat={turn.chat_id}").status_code == 404
    assert client.get(at("run-weight-chat-now", 3, turn.chat_id)).status_code == 404
    assert client.get(at("run-weight-chat", 3) + "?chat=lamp").status_code == 404
    assert "Hello" not in client.get(at("run-weight-chat", 3)).content.decode()


def test_retired_version_cannot_be_chatted_with(alice, seeded):
    seeded.run.weight_versions.filter(version=1).update(state="retired")
    assert "its files were deleted" in alice.get(at("run-weight-chat", 1)).content.decode()
    answer = alice.post(at("run-weight-chat", 1), {**KNOBS, "text": "Hello"})
    assert answer.status_code == 422
    assert not Chat.objects.exists()


# -- two versions


def test_two_versions_get_the_same_prompts(alice, seeded):
    fields = {
        **KNOBS,
        "one": "1",
        "other": "3",
        "prompts": "Hello\n\nWhere is my lamp?\n",
        "tasks": "2",
    }
    answer = alice.post(at("run-weights-compare"), fields, follow=True)
    made = Comparison.objects.get()
    found = ChatTurn.objects.filter(chat__comparison=made).select_related("chat__weight_version")
    turns = list(found.order_by("chat__place", "pk"))
    assert [turn.chat.weight_version.version for turn in turns] == [1, 3] * 4
    assert all(
        one.prompt == other.prompt and one.seed == other.seed
        for one, other in zip(turns[::2], turns[1::2], strict=True)
    )
    assert turns[0].prompt == [{"role": "user", "content": "Hello"}]
    html = answer.content.decode()
    assert "Where is my lamp?" in html
    assert "data-refresh-ms" in html
    for turn in turns:
        said(turn, "the same" if turn.chat.place == 0 else f"by {turn.chat.weight_version.version}")
    html = alice.get(at("run-weights-answers-now", made.pk)).content.decode()
    assert "1 of 4 replies are the same" in html
    assert "data-ended" in html


def test_multiline_prompts_are_separated_by_blocks(alice, seeded):
    fields = {
        **KNOBS,
        "one": "1",
        "other": "3",
        "prompts": "Dear shop,\n\nmy lamp\n---\nHello\n---\n\n",
        "tasks": "0",
    }
    alice.post(at("run-weights-compare"), fields)
    asked = ChatTurn.objects.order_by("chat__place").values_list("prompt", flat=True)
    assert [one[0]["content"] for one in asked[::2]] == ["Dear shop,\n\nmy lamp", "Hello"]


def test_viewer_can_compare_versions_but_not_send_prompts(client, seeded):
    viewer = User.objects.create(username="vera")
    Membership.objects.create(project=seeded.run.project, user=viewer, role=Membership.Role.VIEWER)
    client.force_login(viewer)
    answer = client.get(at("run-weights-compare") + "?one=1&other=3")
    assert (
        answer.status_code == 200
        and "norm change" in answer.content.decode()
        and "Send to both" not in answer.content.decode()
    )
    fields = {**KNOBS, "one": "1", "other": "3", "prompts": "Hello", "tasks": "0"}
    assert client.post(at("run-weights-compare"), fields).status_code == 403


def test_evaluated_versions_are_compared_after_their_files_are_deleted(alice, seeded):
    version = seeded.run.weight_versions.get(version=1)
    start_evaluation(version, Questions(taskset=seeded.run.taskset.slug))
    seeded.run.weight_versions.filter(version__in=(1, 2)).update(state="retired")
    html = alice.get(at("run-weights-compare") + "?one=1&other=3").content.decode()
    assert re.findall(r'<option value="(\d+)"', html.split('id="second-version"')[0]) == [
        "3",
        "1",
        "0",
    ]
    assert "You can’t send prompts" in html and "Send to both" not in html


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"prompts": "", "tasks": "0"}, "Enter 1 to 12 prompts"),
        ({"prompts": "a\n" * 13}, "Enter 1 to 12 prompts"),
        ({"other": "1"}, "Select two different versions"),
        ({"other": "77"}, "Version 77 not found"),
        ({"tasks": "99"}, "less than or equal to 12"),
    ],
)
def test_invalid_comparison_is_refused_with_a_message(alice, wrong, words):
    fields = {**KNOBS, "one": "1", "other": "3", "prompts": "Hello", "tasks": "0", **wrong}
    answer = alice.post(at("run-weights-compare"), fields)
    assert answer.status_code == 422
    assert words in answer.content.decode()
    assert not Comparison.objects.exists()


def test_metrics_are_shown_side_by_side(alice, seeded):
    seeded.run.weight_versions.filter(version=3).update(
        movement={"whole": 0.0123, "groups": [], "sampled": False}
    )
    html = alice.get(at("run-weights-compare") + "?one=1&other=3").content.decode()
    assert "1.230 %" in html
    assert "norm change" in html
    assert alice.get(at("run-weights-compare") + "?one=x&other=99").status_code == 200


def test_versions_in_the_url_are_offered_however_old_they_are(alice, monkeypatch):
    monkeypatch.setattr(comparing_versions, "VERSIONS_OFFERED", 1)
    html = alice.get(at("run-weights-compare") + "?one=1&other=2").content.decode()
    assert re.findall(r'<option value="(\d+)"( selected)?>v', html) == [
        ("3", ""),
        ("2", ""),
        ("1", " selected"),
        ("0", ""),
        ("3", ""),
        ("2", " selected"),
        ("1", ""),
        ("0", ""),
    ]


def test_run_with_one_version_has_nothing_to_compare(alice, seeded):
    seeded.run.weight_versions.filter(version__gt=0).update(state="retired")
    assert "Nothing to compare yet" in alice.get(at("run-weights-compare")).content.decode()
