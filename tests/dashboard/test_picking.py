"""Actions on selected rollouts: confirmed first, then done, by people with the permission."""

import re
import uuid
from urllib.parse import urlencode

import pytest

from apps.accounts.models import AuditEntry
from apps.buffer.models import Experience
from apps.dashboard.views.picking import MAX_SELECTED
from apps.feedback.models import Demonstration, Item, Preference, Rating, Slot
from apps.rewards.models import Rescoring
from apps.rollouts.models import Group, Rollout
from apps.tasksets.models import Taskset

ADDRESS = "/runs/lab/tone-7/rollouts/act/"
pytestmark = pytest.mark.django_db


@pytest.fixture
def alice_client(client, seeded):
    client.force_login(seeded.alice)
    return client


def act(client, verb, rollouts=(), **data):
    return client.post(
        ADDRESS, {"verb": verb, "rollout": [one.pk for one in rollouts], **data}, follow=True
    )


def test_drop_first_asks_for_confirmation_and_changes_nothing(alice_client, seeded):
    text = act(alice_client, "drop", [seeded.waiting]).content.decode()
    assert "drops its whole group" in text and "Type <span" in text
    assert Group.objects.get(pk=seeded.waiting.group_id).state == "waiting"
    assert not AuditEntry.objects.filter(action="groups dropped").exists()


def test_dropping_groups_requires_the_runs_name_and_a_reason(alice_client, seeded):
    for data in ({"name": "tone-8", "reason": "spam"}, {"name": "tone-7", "reason": " "}):
        answer = act(alice_client, "drop", [seeded.waiting], confirmed=1, **data)
        assert (
            answer.status_code == 422
            and Group.objects.get(pk=seeded.waiting.group_id).state == "waiting"
        )
    text = act(
        alice_client, "drop", [seeded.waiting], confirmed=1, name="tone-7", reason="spam"
    ).content.decode()
    assert "1 group will not be trained on" in text
    assert Group.objects.get(pk=seeded.waiting.group_id).reason == "dropped by alice: spam"


def test_trained_groups_cannot_be_dropped(alice_client, seeded):
    answer = act(alice_client, "drop", [seeded.rollout], confirmed=1, name="tone-7", reason="spam")
    assert (
        answer.status_code == 422
        and "None of these groups is open or ready." in answer.content.decode()
    )
    assert set(
        Experience.objects.filter(group=seeded.rollout.group).values_list("state", flat=True)
    ) == {"trained"}


def test_selecting_all_picks_the_rollouts_that_match_the_filter(alice_client, seeded):
    Rollout.objects.filter(pk=seeded.waiting.pk).update(text="peculiar")
    answer = act(alice_client, "drop", all=1, query="text=peculiar")
    assert answer.context["picked"] == [seeded.waiting.pk]
    everything = act(alice_client, "drop", all=1, query="fate=waiting").context["picked"]
    assert set(everything) == set(
        Rollout.objects.filter(group__state="waiting").values_list("pk", flat=True)
    )


def test_largest_possible_selection_can_be_confirmed_from_its_page(alice_client, seeded):
    template = Rollout.objects.get(pk=seeded.waiting.pk)
    Rollout.objects.bulk_create(
        Rollout(
            run=seeded.run,
            group=template.group,
            sample_index=1_000 + n,
            state="finished",
            text="many of these",
        )
        for n in range(MAX_SELECTED + 5)
    )
    said = act(alice_client, "drop", all=1, query="exact=many of these")
    assert (
        len(said.context["picked"]) == MAX_SELECTED
        and "the newest 1,000 matches" in said.content.decode()
    )
    form = re.search(r'<form class="lines".*?</form>', said.content.decode(), re.DOTALL).group()
    fields = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', form)
    typed = [("name", "tone-7"), ("reason", "spam")]
    body = urlencode(
        [*((name, value) for name, value in fields if name != "csrfmiddlewaretoken"), *typed]
    )
    done = alice_client.post(
        ADDRESS, body, content_type="application/x-www-form-urlencoded", follow=True
    )
    assert "1 group will not be trained on" in done.content.decode()


def test_action_without_selection_shows_a_message(alice_client, seeded):
    assert "Nothing was changed. Select rollouts" in act(alice_client, "ask").content.decode()


def test_selected_groups_are_scored_again_by_the_given_scorers(alice_client, seeded):
    text = act(alice_client, "rescore", [seeded.rollout]).content.decode()
    assert "scorer: tone" in text
    act(alice_client, "rescore", [seeded.rollout], confirmed=1, rewards="- {scorer: repetition}")
    made = Rescoring.objects.get(run=seeded.run)
    assert set(made.items.values_list("group", flat=True)) == {seeded.rollout.group_id}
    assert AuditEntry.objects.get(action="rollouts scored again").details["set"] == made.pk
    assert (
        act(
            alice_client, "rescore", [seeded.rollout], confirmed=1, rewards="- {scorer: nobody}"
        ).status_code
        == 422
    )


def test_asking_raters_moves_waiting_groups_first_and_reopens_closed_replies(alice_client, seeded):
    text = act(alice_client, "ask", [seeded.waiting, seeded.rollout], confirmed=1).content.decode()
    assert "1 waiting group moved to the front; 1 reply sent to raters again" in text
    first = (
        Slot.objects.filter(run=seeded.run, state="open")
        .order_by("due_at")
        .values_list("group", flat=True)[:2]
    )
    assert set(first) <= {seeded.waiting.group_id, seeded.rollout.group_id}
    assert Item.objects.get(purpose="check").members == [seeded.rollout.pk]
    assert AuditEntry.objects.get(action="ratings requested").details == {
        "groups_moved": 1,
        "replies": 1,
    }
    again = act(alice_client, "ask", [seeded.rollout], confirmed=1)
    assert again.status_code == 422 and Item.objects.filter(purpose="check").count() == 1


def test_selection_actions_reject_raters_and_invalid_requests(client, alice_client, seeded):
    assert act(alice_client, "explode", [seeded.rollout]).status_code == 400
    assert alice_client.get(ADDRESS).status_code == 405
    assert alice_client.post(ADDRESS, {"verb": "drop", "rollout": ["x"]}).status_code == 404
    assert (
        "Select rollouts"
        in alice_client.post(
            ADDRESS, {"verb": "drop", "rollout": [10**9]}, follow=True
        ).content.decode()
    )
    client.force_login(seeded.bob)
    assert act(client, "drop", [seeded.waiting]).status_code == 403
    assert 'name="verb"' not in client.get("/runs/lab/tone-7/rollouts/").content.decode()


def test_back_link_to_another_site_is_replaced(alice_client, seeded):
    answer = act(alice_client, "drop", [seeded.waiting], back="https://elsewhere.example/")
    assert answer.context["back"] == "/runs/lab/tone-7/rollouts/"


# -- one rollout


def correct(client, rollout, text, key=None):
    return client.post(
        f"/rollouts/{rollout.pk}/correct/",
        {"text": text, "client_uuid": key or uuid.uuid4()},
        follow=True,
    )


def test_corrected_answer_is_saved_once_as_demonstration_and_preference(alice_client, seeded):
    key = uuid.uuid4()
    for _ in range(2):
        assert (
            "Saved as a demonstration"
            in correct(alice_client, seeded.rollout, "As it should be.", key).content.decode()
        )
    shown = Demonstration.objects.get(author=seeded.alice)
    assert (shown.answer, shown.task_id) == ("As it should be.", seeded.rollout.group.task_id)
    assert Preference.objects.get(author=seeded.alice).rejected_rollout_id == seeded.rollout.pk
    assert Rating.objects.get(rater=seeded.alice).form == "rewrite"
    assert AuditEntry.objects.filter(action="answer corrected").count() == 1


def test_empty_correction_is_rejected_and_not_saved(alice_client, seeded):
    assert "Not saved" in correct(alice_client, seeded.rollout, "  ").content.decode()
    assert not Demonstration.objects.exists()


def add(client, rollout, name):
    return client.post(
        f"/rollouts/{rollout.pk}/add-task/", {"taskset": name}, follow=True
    ).content.decode()


def test_task_is_added_once_and_another_task_creates_a_new_taskset_version(alice_client, seeded):
    other = (
        Rollout.objects.exclude(group__task=seeded.rollout.group.task)
        .filter(run=seeded.run, state="finished")
        .first()
    )
    assert "Task added to hard-cases" in add(alice_client, seeded.rollout, "hard-cases")
    assert "hard-cases already has this task" in add(alice_client, seeded.rollout, "hard-cases")
    assert "hard-cases-v2, which now has 2" in add(alice_client, other, "hard-cases")
    newest = Taskset.objects.get(slug="hard-cases-v2")
    assert [task.digest for task in newest.tasks.order_by("index")] == [
        seeded.rollout.group.task.digest,
        other.group.task.digest,
    ]
    assert (newest.version, newest.added, newest.removed) == (2, 1, 0)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("tone", "the run trains on tone"),
        ("no name", "is not a valid slug"),
        ("", "is not a valid slug"),
    ],
)
def test_taskset_that_cannot_test_the_run_is_rejected_with_the_reason(
    alice_client, seeded, name, why
):
    assert why in add(alice_client, seeded.rollout, name) and Taskset.objects.count() == 1


def test_token_page_shows_logprobs_to_owners_and_is_forbidden_to_raters(
    client, alice_client, seeded
):
    arrays = seeded.rollout.tokens
    text = alice_client.get(f"/rollouts/{seeded.rollout.pk}/tokens/").content.decode()
    assert f"{arrays.logprobs[0]:.4f}" in text and text.count("<tr>") == 1 + len(
        arrays.completion_ids
    )
    assert alice_client.get(f"/rollouts/{seeded.rollout.pk}/tokens/?from=x").status_code == 404
    client.force_login(seeded.bob)
    assert client.get(f"/rollouts/{seeded.rollout.pk}/tokens/").status_code == 403
