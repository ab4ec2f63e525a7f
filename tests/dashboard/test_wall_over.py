"""A live page whose runs have all ended says so and links to the runs that stream now."""

import pytest
from django.urls import reverse

from apps.runs.models import Run

WORDS = "No live replies: tone-7 is "


def asked(client, *topics: object) -> str:
    answer = client.get(reverse("live-over"), {"topic": topics})
    assert answer.status_code == 200
    return answer.content.decode()


@pytest.mark.parametrize("state", ["paused", "stopped", "completed"])
def test_live_page_says_on_load_and_on_refresh_that_its_run_ended(client, seeded, state):
    client.force_login(seeded.alice)
    page = f"{reverse('live')}?run={seeded.run.pk}"
    assert WORDS not in client.get(page).content.decode()
    assert asked(client, seeded.run.topic_id).strip() == ""
    Run.objects.filter(pk=seeded.run.pk).update(state=state)
    assert WORDS + state in client.get(page).content.decode()
    assert f'href="{reverse("live")}"' in asked(client, seeded.run.topic_id)


def test_stranger_does_not_see_that_a_run_ended(client, seeded):
    Run.objects.filter(pk=seeded.run.pk).update(state="completed")
    client.force_login(seeded.carol)
    assert asked(client, seeded.run.topic_id).strip() == ""


@pytest.mark.parametrize("topic", ["x", "9" * 30, "-1"])
def test_invalid_topic_returns_404(client, seeded, topic):
    client.force_login(seeded.alice)
    assert client.get(reverse("live-over"), {"topic": topic}).status_code == 404
