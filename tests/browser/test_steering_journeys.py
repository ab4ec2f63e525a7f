"""A researcher creates a run and steers it; an author connects an environment by curl."""

import json
import subprocess

import pytest

from apps.environments.episode_opening import open_episodes
from apps.environments.models import Environment, Episode
from apps.environments.playing import Action, record_actions
from apps.rollouts.models import Group, Rollout
from apps.runs.models import Run
from tests.keeping import elsewhere
from tests.played import name_in

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_researcher_creates_a_run_and_steers_it(visit, seeded, may_log_in):
    may_log_in(seeded["alice"])
    window = visit(None)
    page = window.open("/runs/")
    window.log_in("alice")
    page.get_by_role("link", name="New run").first.click()
    page.fill("#slug", "polite")
    with page.expect_response("**/runs/new-check/"):
        page.fill("#knob-group_size", "0")
    page.locator("#verdict .bad").wait_for()
    with page.expect_response("**/runs/new-check/"):
        page.fill("#knob-group_size", "4")
    page.locator("#verdict .good").wait_for()
    page.press("#slug", "Enter")  # checks, and creates nothing
    page.locator("#verdict .good").wait_for()
    assert not Run.objects.filter(slug="polite").exists()
    page.get_by_role("button", name="Create and start").click()
    page.wait_for_url("**/runs/lab/polite/")
    page.get_by_role("button", name="Pause run").click()
    page.get_by_role("button", name="Resume run").click()
    page.get_by_role("button", name="Pause run").wait_for()

    page.locator(".run-tabs").get_by_role("link", name="Configure").click()
    page.fill("#knob-optimizer-learning_rate", "0.0007")
    page.get_by_role("button", name="Review changes").click()
    page.fill("#reason", "it learns faster than expected")
    page.get_by_role("button", name="Apply 1 change").click()
    page.locator("article.change").filter(has_text="it learns faster").wait_for()
    window.picture("researcher-settings")
    run = Run.objects.get(slug="polite")
    assert (run.state, run.settings.optimizer.learning_rate) == ("running", 0.0007)
    assert window.complaints == []


def curl(site: str, token: str, method: str, path: str, body: dict | None = None) -> dict:
    """Call the REST interface as an author's script does."""
    command = ["curl", "--silent", "--show-error", "--max-time", "60", "--request", method]
    command += ["--header", f"Authorization: Bearer {token}"]
    command += ["--header", "Content-Type: application/json", f"{site}/api/v1/{path}"]
    command += ["--data", json.dumps(body)] if body is not None else []
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def open_in_maze(run: Run) -> Rollout:
    """Open the episodes of one group, as the explorer does."""
    place = Environment.objects.get(name="maze")
    name_in(run, "maze")
    groups = Group.open(run, "explorer@test", 600, 1, run.published_version)
    rollouts = list(Rollout.objects.filter(group__in=groups).order_by("sample_index"))
    open_episodes(place, run.settings.environment, groups, rollouts)
    return rollouts[0]


def test_an_author_connects_an_environment_with_a_token_and_curl(visit, seeded, site):
    window = visit(seeded["alice"])
    page = window.open("/settings/")
    page.fill("#id_name", "maze on my desk")
    page.locator("input[name=scopes]:checked").uncheck()
    page.locator("input[name=scopes][value='env:write:*']").check()
    page.get_by_role("button", name="Create token").click()
    token = page.locator("[data-secret]").inner_text()

    wrong = curl(site, "rft_usr_wrong", "POST", "environments/", {"name": "maze"})
    assert "detail" in wrong and not Environment.objects.exists()
    said = {"project": "lab", "name": "maze", "reward_low": -1, "reward_high": 1, "turn_limit": 5}
    assert curl(site, token, "POST", "environments/", said)["kind"] == "push"
    elsewhere(lambda: open_in_maze(seeded["run"]))
    episode = curl(site, token, "POST", "environments/maze/episodes/", {"key": "game-1"})["id"]
    page = window.open(f"/episodes/{episode}/")
    page.focus("[data-theme-switch]")  # a page whose text field has the focus is not redrawn
    first = {"number": 0, "observation": "You stand at a fork.", "timeout_s": 0}
    said = curl(site, token, "POST", f"episodes/{episode}/turns/", first)
    assert (said["state"], said["action"]) == ("policy", None)
    page.get_by_text("You stand at a fork.").wait_for()
    elsewhere(lambda: record_actions([Action(episode, 0, "left", 0, 2)]))
    turn = curl(site, token, "GET", f"episodes/{episode}/turns/0/")
    assert turn["action"] == "left"
    result = {"reward": 1, "reason": "out of the maze"}
    curl(site, token, "POST", f"episodes/{episode}/result/", result)
    page.get_by_text("out of the maze").first.wait_for()
    window.picture("author-episode")
    assert Episode.objects.get(pk=episode).state == "done" and window.complaints == []
    page = window.open("/environments/")
    page.get_by_role("link", name="maze").first.click()
    page.get_by_role("heading", name="maze").wait_for()
