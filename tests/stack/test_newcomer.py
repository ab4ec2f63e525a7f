"""A newcomer's path, all of it: clone, demo, rate, see the reward move, open what was rated, find
it in a step, meet the version that the step made, talk to that version, take it along. Whoever
comes after the run has ended meets the next one.
"""

import io
import json
import os
import re
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page

from apps.dashboard.tour import STEPS as STEPS_OF_THE_TOUR
from tests.ports import kept_port
from tests.stack.conftest import PATIENCE_S, ROOT
from tests.warm_policies import copy_warm_policies

pytestmark = [pytest.mark.stack, pytest.mark.browser]
PATIENCE_MS = PATIENCE_S * 1000
WORDS = re.compile(r"^  (open|account|password) +(\S+)$")
ENDS_S = 120
RATED = 4
IS_ANOTHER = "(slot) => document.querySelector('article.item')?.dataset.slot !== slot"
STEPS = 25  # steps of each run of this demo: one or two minutes; the shipped demo takes six


@dataclass
class Demo:
    """The output of `manage.py demo`."""

    open: str
    account: str
    password: str


@pytest.fixture(scope="module")
def demo(tmp_path_factory) -> Iterator[Demo]:
    """Run `manage.py demo` in a clone of the commit, with this environment's libraries; end it as
    with Ctrl-C.
    """
    clone = tmp_path_factory.mktemp("clone") / "rftweb"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True, timeout=120)
    copy_warm_policies(("sort", "tone"), clone / "var")
    keeper, port = kept_port()
    env = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("RFTWEB_", "DATABASE_", "REDIS_", "DJANGO_"))
    }
    command = [sys.executable, "manage.py", "demo", "--steps", str(STEPS), "--port", str(port)]
    with (
        keeper,
        subprocess.Popen(command, cwd=clone, env=env, stdout=subprocess.PIPE, text=True) as process,
    ):
        try:
            yield Demo(**told(process))
        finally:
            process.terminate()
            process.wait(timeout=ENDS_S)


def told(process: subprocess.Popen) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in process.stdout:
        if match := WORDS.match(line.rstrip("\n")):
            found[match[1]] = match[2]
        if len(found) == 3:
            return found
    raise AssertionError("the demo ended before it said where to look")


@pytest.fixture
def page(demo: Demo, chromium: Browser) -> Iterator[Page]:
    """Open a new visitor's window on the page that the demo printed."""
    context = chromium.new_context(viewport={"width": 1440, "height": 900})
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    page.goto(demo.open)
    page.fill("#id_login", demo.account)
    page.fill("#id_password", demo.password)
    page.click("button.first")
    yield page
    context.close()


def again(page: Page, is_there: Callable[[], bool], what: str) -> None:
    """Reload the page until something is there."""
    ends = time.monotonic() + PATIENCE_S
    while not is_there():
        assert time.monotonic() < ends, f"not within {PATIENCE_S} s: {what}"
        page.wait_for_timeout(500)
        page.reload()


def has_rows(page: Page) -> bool:
    """Return whether the list shows rollouts; it searches the newest few thousand at once, and
    older ones after a click.
    """
    while not page.locator("tbody tr.open a").count():
        older = page.get_by_role("link", name="Search older rollouts")
        if not older.count():
            return False
        older.click()
        page.wait_for_load_state("load")
    return True


def decided(page: Page) -> int:
    """Return the page's count of today's decisions."""
    count = re.search(r"\d+", page.locator("[data-session-counts]").inner_text())
    return int(count[0]) if count else 0


def rate(page: Page, decisions: int) -> None:
    """Rate until this many decisions count; some do not, because their group has moved on."""
    while decided(page) < decisions:
        page.locator("[data-row]").first.wait_for()
        slot = page.locator("article.item").first.get_attribute("data-slot")
        page.keyboard.press("5")
        page.keyboard.press("Enter")
        page.wait_for_function(IS_ANOTHER, arg=slot)


def test_newcomer_gets_from_the_clone_to_exported_weights(page: Page):
    # The tour greets a new visitor.
    page.goto(
        page.url.partition("/accounts/")[0].rstrip("/") + "/live/"
        if "/live/" not in page.url
        else page.url
    )
    page.locator(".tour").get_by_text("Watch replies").wait_for()
    page.locator("[data-rollout]").first.wait_for()
    page.get_by_role("button", name="Rate a group").click()

    # Rate with digits, then Enter; several, because a group with equal rewards is not trained.
    page.locator(".tour").get_by_text("Rate replies").wait_for()
    rate(page, RATED)
    page.get_by_role("button", name="See the effect").click()

    # The reward changes.
    reward = page.locator("[data-value=reward_mean]").first
    page.wait_for_function(
        "() => document.querySelector('[data-value=reward_mean]')?.textContent.trim()"
    )
    first = reward.inner_text()
    page.wait_for_function(
        "(first) => document.querySelector('[data-value=reward_mean]').textContent !== first",
        arg=first,
    )
    page.get_by_role("button", name="Explore rollouts").click()

    # Find a reply that was rated and trained, with its rating.
    page.locator(".tour").get_by_text("Explore rollouts").wait_for()
    page.goto(f"{page.url.partition('?')[0]}?rater=demo")
    again(page, lambda: has_rows(page), "a reply that demo has rated")
    page.goto(f"{page.url.partition('?')[0]}?rater=demo&fate=trained")
    again(page, lambda: has_rows(page), "a reply that demo has rated and an update has taken")
    page.locator("tbody tr.open a").first.click()
    page.wait_for_url("**/rollouts/*/")
    rollout = page.url
    assert page.locator(".chip", has_text="demo").count()

    # The step that trained on it lists it.
    again(
        page,
        lambda: page.locator(".life li", has_text="Published").count() > 0,
        "the rated reply in the weights",
    )
    page.locator(".life li", has_text="Trained").get_by_role("link").first.click()
    page.wait_for_url("**/rollouts/?*step*")
    assert page.locator("tbody tr:target").locator(f"a[href='{urlsplit(rollout).path}']").count()

    # Open the version that the step created.
    page.goto(rollout)
    page.locator(".life li", has_text="Published").get_by_role("link").first.click()
    page.get_by_role("heading", name="Version", level=1).wait_for()
    version = page.url

    # Chat with it.
    page.get_by_role("link", name="Chat", exact=True).click()
    page.fill("#text", "My parcel is late, order 4431.")
    page.keyboard.press("Enter")
    page.locator(".conversation[data-ended] .say.assistant .num").first.wait_for()
    assert page.locator(".say.assistant .words").inner_text().strip()

    # Export it as a folder that other tools can read.
    page.goto(version)
    page.get_by_role("button", name="Create export").click()
    link = page.get_by_role("link", name="Download zip")
    link.wait_for()
    with page.expect_download() as download:
        link.click()
    with zipfile.ZipFile(io.BytesIO(Path(download.value.path()).read_bytes())) as exported:
        names = {Path(name).name for name in exported.namelist()}
        config = next(
            name
            for name in exported.namelist()
            if name.endswith("/config.json") or name == "config.json"
        )
        assert {"config.json", "model.safetensors", "tokenizer.json", "README.md"} <= names
        assert json.loads(exported.read(config))["architectures"]


def test_visitor_after_the_end_of_a_run_sees_the_next_run_and_the_whole_tour(page: Page):
    """The next run has started by itself; no step of the tour shows a dead page, and it ends."""
    site = page.url.partition("/accounts/")[0].rstrip("/")
    site = "/".join(site.split("/")[:3])
    page.goto(f"{site}/runs/demo/tone/")
    again(
        page,
        lambda: page.locator("header .state", has_text="completed").count() > 0,
        "the first run completed",
    )
    page.get_by_role("button", name="Run again").wait_for()
    page.goto(f"{site}/runs/demo/tone-2/")
    again(
        page,
        lambda: (
            page.locator("header .state .dot.running, header .state .dot.completed").count() > 0
        ),
        "the next run",
    )

    page.goto(f"{site}/settings/")
    page.get_by_role("button", name="Take the tour").click()
    for title, on in TOUR.items():
        tour = page.locator(".tour")
        tour.get_by_text(title).wait_for()
        if tour.locator(
            ".note.warning"
        ).count():  # the run has ended meanwhile: one click leads to the next
            tour.locator(".note.warning").locator("a, button").click()
            tour.get_by_text(title).wait_for()
        if title == "Watch replies":
            page.locator("[data-rollout]").first.wait_for()
        tour.get_by_role("button", name=on).click()
    page.locator(".tour").wait_for(state="detached")


TOUR = {step.title: step.on for step in STEPS_OF_THE_TOUR}
