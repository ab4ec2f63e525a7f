"""A user plays an environment on the episode's page, and sees the policy write."""

import os
from pathlib import Path

import pytest

from apps.environments.episode_opening import open_episodes
from apps.environments.models import Environment, Episode
from apps.environments.playing import Action, record_actions
from apps.rollouts.models import Group, Rollout
from apps.streaming.chunks import ChunkWriter, rollout_key
from tests.browser.conftest import DESKTOP, PHONE
from tests.keeping import elsewhere
from tests.played import name_in

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def episode(seeded) -> Episode:
    """Create an episode that nobody plays yet."""
    run = seeded["run"]
    place = Environment.objects.create(
        project=run.project, name="maze", kind="push", reward_low=-1, turn_limit=8, turn_s=600
    )
    name_in(run, "maze")

    def begin() -> Episode:
        groups = Group.open(run, "explorer@test", 600, 1, run.published_version)
        rollouts = list(Rollout.objects.filter(group__in=groups).order_by("sample_index"))
        return open_episodes(place, run.settings.environment, groups, rollouts)[rollouts[0].pk]

    return elsewhere(begin)


@pytest.fixture
def writer(episode) -> ChunkWriter:
    writer = ChunkWriter(episode.run.topic_id)
    writer.redis.delete(rollout_key(episode.rollout_id))
    return writer


def picture(page, name: str) -> None:
    """Save a screenshot if PICTURES is set to a folder."""
    if folder := os.environ.get("PICTURES"):
        page.screenshot(path=str(Path(folder) / f"{name}.png"), full_page=True)


@pytest.mark.parametrize(("viewport", "scheme"), [(DESKTOP, "light"), (PHONE, "dark")])
def test_user_plays_an_environment_and_sees_the_action_while_it_is_written(
    visit, seeded, episode, writer, viewport, scheme
):
    window = visit(seeded["alice"], viewport, scheme)
    page = window.open(f"/episodes/{episode.pk}/")
    picture(page, f"play-take-{scheme}")
    window.press("p", "Enter")
    page.get_by_role("heading", name="Your turn").wait_for()
    page.locator("#play-observation").fill("You stand at a fork.")
    picture(page, f"play-say-{scheme}")
    window.press("Control+Enter")
    page.get_by_role("heading", name="Waiting for the policy").wait_for()
    writer.started(episode.rollout_id, episode.rollout.group_id, "You stand at a fork.", 0)
    writer.add(episode.rollout_id, 0, "I go ", (-0.5,) * 5, 0)
    writer.flush(at_once=True)
    page.locator("[data-current-reply]").get_by_text("I go").wait_for()
    picture(page, f"play-wait-{scheme}")
    elsewhere(lambda: record_actions([Action(episode.pk, 0, "I go left.", 0, 10, 5)]))
    page.get_by_role("heading", name="Your turn").wait_for()
    page.locator(".play").get_by_text("I go left.").wait_for()
    page.locator("#play-observation").fill("The exit!")
    page.locator("#play-reward").fill(
        "3"
    )  # above the maximum reward: the browser itself reports it
    window.press("Control+Enter")
    assert page.locator("#play-observation").input_value() == "The exit!"
    page.locator("#play-reward").fill("0.5")
    page.locator("#play-done").check()
    picture(page, f"play-last-{scheme}")
    window.press("Control+Enter")
    page.get_by_text("the environment is done").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert window.complaints == []
    episode.refresh_from_db()
    assert (episode.state, episode.seen.get(number=0).reward) == ("done", 0.5)
