"""One click on a finished run starts the next one with the same settings."""

import pytest
from django.urls import reverse

from apps.runs.models import Run
from apps.runs.run_repeats import next_name


def press(client, run) -> str:
    return client.post(reverse("run-act", args=["lab", run.slug, "again"])).get("Location", "")


@pytest.mark.parametrize("state", [Run.State.STOPPED, Run.State.COMPLETED])
def test_finished_run_can_be_repeated_with_one_click(client, seeded, state):
    Run.objects.filter(pk=seeded.run.pk).update(state=state)
    client.force_login(seeded.alice)
    here = reverse("run", args=["lab", seeded.run.slug])
    part = reverse("run-part", args=["lab", seeded.run.slug, "now"])
    assert all("Run again" in client.get(page).content.decode() for page in (here, part))
    assert press(client, seeded.run) == reverse("run", args=["lab", "tone-8"])
    new = Run.objects.get(slug="tone-8")
    assert (new.state, new.step, new.owner) == (Run.State.RUNNING, 0, seeded.alice)
    assert new.config == Run.objects.get(pk=seeded.run.pk).config


def test_running_run_cannot_be_repeated_with_one_click(client, seeded):
    client.force_login(seeded.alice)
    page = reverse("run", args=["lab", seeded.run.slug])
    assert "Run again" not in client.get(page).content.decode()
    assert press(client, seeded.run) == page
    assert Run.objects.count() == 1 and b"run tone-7 again" in client.get(page).content


def test_raters_cannot_repeat_a_run(client, seeded):
    Run.objects.filter(pk=seeded.run.pk).update(state="completed")
    client.force_login(seeded.bob)
    assert "Run again" not in client.get(reverse("run", args=["lab", "tone-7"])).content.decode()
    assert press(client, seeded.run) == "" and Run.objects.count() == 1


@pytest.mark.parametrize(
    ("slug", "after"),
    [("a", "a-2"), ("a-2", "a-3"), ("a-b", "a-b-2"), ("a-9", "a-10"), ("7", "7-2")],
)
def test_next_run_name_increments_the_number(new_run, slug, after):
    run = new_run()
    Run.objects.filter(pk=run.pk).update(slug=slug)
    run.refresh_from_db()
    assert next_name(run) == after
