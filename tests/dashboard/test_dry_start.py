"""A dry start of a new run: one task is sampled with the settings of the form."""

import pytest
from django.urls import reverse

from apps.rewards.models import Reward
from apps.rollouts.models import Group, Rollout
from apps.runs.models import Run
from tests.dashboard.run_forms import alice_client, first, lab, posted  # noqa: F401  (fixtures)


@pytest.fixture
def tried(alice_client, first):
    """Return a dry start of alice, as the page shows it."""
    return alice_client.post(reverse("run-new"), posted(first, act="try")).context["tried"]


def test_dry_start_samples_one_task_with_the_settings_of_the_form(tried, first):
    run = tried.run
    plan = run.settings
    assert run.is_live and run.is_evaluation and run.tasks_asked == 1
    assert (plan.group_size, plan.steps, plan.people.per_group) == (4, 0, 0)
    assert (plan.sampling, plan.rewards) == (first.plan.sampling, first.plan.rewards)
    assert not Run.objects.filter(slug="mine").exists()


def test_dry_start_keeps_the_form_and_replaces_the_previous_one(alice_client, first, tried):
    address = f"lab/{tried.run.slug}"
    sent = posted(first, act="try", tried=address, steps="77")
    again = alice_client.post(reverse("run-new"), sent)
    assert again.context["form"].plan.steps == 77 and again.context["slug"] == "mine"
    assert again.context["tried"].run != tried.run
    tried.run.refresh_from_db()
    assert tried.run.state == Run.State.STOPPED  # another one replaced it
    checked = alice_client.post(reverse("run-new-check"), sent)
    assert checked.context["tried"].run == tried.run


def test_replies_of_a_dry_start_are_shown_with_their_rewards(alice_client, tried):
    now = reverse("run-new-tried", args=["lab", tried.run.slug])
    assert alice_client.get(now).context["tried"].replies == []
    [group] = Group.open(tried.run, "explorer@test", 60, 1, 0)
    first, *_ = group.rollouts.order_by("sample_index")
    Rollout.objects.filter(pk=first.pk).update(state="finished", text="A <b>kind</b> reply")
    Reward.record(first, Reward.Source.RULE, "tone", 0.75)
    answer = alice_client.get(now)
    shown = answer.context["tried"]
    assert len(shown.replies) == 4 and shown.replies[0]["reward"] == 0.75
    text = answer.content.decode()
    assert "0.75" in text and "&lt;b&gt;kind" in text and "<b>kind" not in text


def test_only_steering_users_see_a_dry_start(client, seeded, tried):
    now = reverse("run-new-tried", args=["lab", tried.run.slug])
    seen = {}
    for person in (seeded.alice, seeded.bob, seeded.carol):
        client.force_login(person)
        seen[person.username] = client.get(now).status_code
    assert seen == {"alice": 200, "bob": 403, "carol": 404}
    client.force_login(seeded.alice)
    assert client.get(reverse("run-new-tried", args=["lab", "tone-7"])).status_code == 404


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"steps": "many"}, "Nothing was tried. Fix the marked fields"),
        ({"rewards__0__scorer": "", "people__at_deadline": "drop"}, "Nothing was tried: "),
        ({"serve": "on"}, "Nothing was tried"),
    ],
)
def test_invalid_dry_start_is_refused_with_a_message(alice_client, first, changes, words):
    before = Run.objects.count()
    answer = alice_client.post(reverse("run-new"), posted(first, **changes, act="try"))
    assert answer.status_code == 422 and Run.objects.count() == before
    assert words in answer.content.decode()


def test_run_without_sampling_offers_no_dry_start(alice_client):
    page = alice_client.get(reverse("run-new"), {"preset": "dpo"})
    assert page.context["form"].plan and not page.context["can_try"]
    assert 'value="try"' not in page.content.decode()
