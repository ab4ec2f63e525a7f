"""The timeline on a rollout's page: created, sampled, rewarded, refined, trained in which step."""

import pytest
from django.urls import reverse

from apps.buffer.models import Experience
from apps.rollouts.models import Rollout


@pytest.fixture
def alice_client(client, seeded):
    client.force_login(seeded.alice)
    return client


def life(client, rollout: Rollout) -> list[str]:
    answer = client.get(reverse("rollout", args=[rollout.pk]))
    return [station.title for station in answer.context["life"]]


def test_trained_rollout_shows_its_whole_timeline(alice_client, seeded):
    trained = Experience.objects.filter(state="trained").order_by("pk").first().rollout
    assert life(alice_client, trained) == [
        "Created",
        "Sampled",
        "Rewarded",
        "Refined",
        "Trained",
        "Published",
    ]
    step = trained.experiences.get().step_items.get().step.number
    page = alice_client.get(reverse("rollout", args=[trained.pk]))
    version = page.context["life"][-1].version
    assert f"?from_step={step}&amp;to_step={step}" in page.content.decode()
    assert (
        f'href="{reverse("run-weight", args=["lab", seeded.run.slug, version])}"'
        in page.content.decode()
    )


def test_timeline_ends_at_the_last_state_of_the_rollout(alice_client, seeded):
    failed = seeded.run.rollouts.filter(state="failed").first()
    ready = Experience.objects.filter(state="ready").first()
    assert (
        life(alice_client, failed)[:2] == ["Created", "Failed"]
        and life(alice_client, failed)[-1] == "Refined"
    )
    assert life(alice_client, ready.rollout)[-2:] == ["Refined", "Ready"]
    assert life(alice_client, seeded.waiting)[-1] == "Open"
    assert life(alice_client, seeded.run.rollouts.filter(state="sampling").first()) == [
        "Created",
        "Sampling",
    ]
    Experience.objects.filter(pk=ready.pk).update(
        state="dropped", reason="stale: older than version 9"
    )
    assert life(alice_client, ready.rollout)[-1] == "Dropped"


def test_blind_rater_sees_a_timeline_without_rewards(client, seeded):
    client.force_login(seeded.bob)
    trained = Experience.objects.filter(state="trained").order_by("pk").first().rollout
    assert life(client, trained) == ["Created", "Sampled", "Closed"]
