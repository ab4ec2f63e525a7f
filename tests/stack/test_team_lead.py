"""A team lead's way from an invitation to an exported model with three colleagues, only in the
browser: project, people, model, prompts, run, ratings, an evaluation by people, and a download.
"""

import io
import json
import re
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.conftest import DESKTOP, PHONE, Visit
from tests.browser.test_axe import findings
from tests.stack.conftest import PATIENCE_S, Installation

pytestmark = [pytest.mark.stack, pytest.mark.slow, pytest.mark.browser]
PASSWORD = "a long new passphrase 7"
PROMPTS = [{"prompt": f"{number}"} for number in range(1000, 1040)]
STEPS = 2
GROUPS = 2  # groups of four replies: each rater holds up to three, so all three raters get some
IS_OTHER = "(slot) => !document.querySelector(`[data-item='${slot}']`)"
IS_STILL = "() => !document.querySelector('.htmx-request, .htmx-swapping')"
# Stars in the order of the ratings: no group gets equal stars for all replies.
STARS = (1, 5, 2, 4)


ARCHIVE = """
from django.utils import timezone
from apps.accounts.models import Project
Project.objects.filter(slug="support").update(archived_at=timezone.now())
"""


@dataclass
class Team:
    """The browser windows of a team on one installation, and the number of its ratings."""

    site: str
    browser: Browser
    visits: list[Visit] = field(default_factory=list)
    given: int = 0

    def window(self, viewport: dict = DESKTOP) -> Visit:
        context = self.browser.new_context(viewport=viewport, has_touch=viewport == PHONE)
        context.set_default_timeout(PATIENCE_S * 1000)
        self.visits.append(Visit(context.new_page(), self.site))
        return self.visits[-1]

    def join(self, link: str, name: str, viewport: dict = DESKTOP) -> Visit:
        """Accept an invitation with a new account, in a separate window."""
        window = self.window(viewport)
        page = window.open(link.removeprefix(self.site))
        page.get_by_label("Username").fill(name)
        page.get_by_label("Password", exact=True).fill(PASSWORD)
        page.get_by_label("Password confirmation").fill(PASSWORD)
        page.get_by_role("button", name="Create account and join").click()
        page.wait_for_url(lambda url: "/invitations/" not in url)
        return window

    def rate(self, raters: list[Visit], is_over: Callable[[], bool]) -> None:
        """Let the raters rate in turn until `is_over`."""
        ends = time.monotonic() + PATIENCE_S
        while not is_over():
            assert time.monotonic() < ends, f"not finished after {self.given} ratings"
            for rater in raters:
                self._rate_one(rater)

    def _rate_one(self, rater: Visit) -> None:
        page = rater.page
        item = page.locator("[data-item]")
        if not item.count():
            page.wait_for_timeout(50)
            return
        slot = item.first.get_attribute("data-item")
        stars = STARS[self.given % len(STARS)]
        if page.viewport_size == PHONE:
            page.locator("label.star").nth(stars - 1).tap()
            page.get_by_role("button", name="Next").tap()
        else:
            rater.press(str(stars), "Enter")
        page.wait_for_function(IS_OTHER, arg=slot)
        self.given += 1


@pytest.fixture
def team(installation: Installation, chromium: Browser) -> Iterator[Team]:
    team = Team(installation.stack.address, chromium)
    yield team
    for visit in team.visits:
        visit.page.context.close()
    # Commands of other tests on this installation name no project, so it must be the only one.
    installation.must("shell", "-c", ARCHIVE)


def invitation(page: Page, role: str, people: int) -> str:
    """Create a link on the page of a project and return it."""
    page.get_by_label("Role", exact=True).select_option(role)
    page.get_by_label("People who can join").fill(str(people))
    page.get_by_role("button", name="Create invitation link").click()
    return page.get_by_test_id("invitation-link").inner_text()


def steps_to_do(page: Page) -> list[str]:
    return page.locator(".first-steps h3").all_inner_texts()


def bring_a_model(page: Page, folder: Path) -> None:
    """Upload the files of a policy, without the manifest that only this installation creates."""
    page.get_by_role("link", name="Weights", exact=True).click()
    page.get_by_role("link", name="Models").first.click()
    page.get_by_role("link", name="Add a model").first.click()
    page.select_option("#project", "support")
    page.locator("[name=kind][value=upload]").check()
    files = [path for path in folder.iterdir() if path.name != "manifest.json"]
    page.set_input_files("#files", files)
    page.fill("#title", "Small model")
    page.get_by_role("button", name="Add model").click()
    page.wait_for_url("**/models/support/small-model/")
    page.get_by_role("link", name="New run with this model").wait_for()


def bring_prompts(page: Page) -> None:
    page.get_by_role("link", name="Tasksets", exact=True).click()
    page.locator("summary", has_text="Import tasks").click()
    page.get_by_role("link", name="Into support").click()
    rows = "\n".join(map(json.dumps, PROMPTS)).encode()
    file = {"name": "questions.jsonl", "mimeType": "application/jsonl", "buffer": rows}
    page.set_input_files("#file", [file])
    page.get_by_role("button", name="Upload and preview").click()
    page.get_by_role("button", name="Import", exact=True).click()
    page.get_by_text("40 tasks").first.wait_for()


def make_a_run(page: Page) -> None:
    """Go through the three steps of a run that only people judge."""
    page.get_by_role("link", name="New run with these tasks").click()
    page.wait_for_url("**/runs/new/**")
    assert page.locator("#verdict .warn").count() == 0
    wanted = {"steps": STEPS, "groups_per_step": GROUPS, "sampling-max_tokens": 8}
    for knob, value in wanted.items():
        with page.expect_response("**/runs/new-check/"):
            page.fill(f"#knob-{knob}", str(value))
        page.wait_for_function(IS_STILL)
    assert "judged by people" in page.locator("#verdict").inner_text()
    page.get_by_role("button", name="Create and start").click()
    page.wait_for_url("**/runs/support/questions-grpo/")


def is_completed(page: Page, run: str) -> bool:
    page.goto(run)
    return "Completed" in page.locator("header .state").first.inner_text()


def look_into_a_step(page: Page) -> None:
    page.get_by_role("link", name="What happened at each step").click()
    drawer = page.locator("dialog.drawer[open]")
    drawer.get_by_role("heading", name=f"Step {STEPS}").wait_for()
    drawer.get_by_text("Best rollouts").wait_for()
    assert drawer.locator(".chip", has_text=re.compile("rita|ravi|rosa")).count()
    page.keyboard.press("ArrowLeft")
    drawer.get_by_role("heading", name=f"Step {STEPS - 1}").wait_for()
    page.keyboard.press("Escape")


def ask_for_evaluations(page: Page) -> None:
    """Evaluate the base and the newest version; without scorers the form asks for a judge."""
    page.locator(".run-tabs").get_by_role("link", name="Evaluate").click()
    form = page.locator("#ask")
    form.get_by_label("Replies per task").fill("1")
    form.get_by_label("Limit to first tasks").fill("2")
    form.get_by_label("v0").check()
    form.get_by_role("button", name="Evaluate", exact=True).click()
    form.locator(".field-error", has_text="the run has no scorers").wait_for()
    form.get_by_label("Replies rated by people").fill("1")
    form.get_by_role("button", name="Evaluate", exact=True).click()
    page.get_by_text("2 evaluations started").wait_for()


def compare_replies(page: Page) -> None:
    """Go from the table of evaluations to the changed replies."""
    compare = page.locator("#now").get_by_role("link", name="compare")
    compare.click()
    page.get_by_role("link", name="What changed in the replies").click()
    page.get_by_role("heading", name=f"What changed from v0 to v{STEPS}").wait_for()
    assert "2 pairs of replies" in page.locator("header .state").inner_text()


def download(page: Page, run: str) -> set[str]:
    """Export the newest version and return the names of the files in the zip."""
    page.goto(run)
    page.locator(".run-tabs").get_by_role("link", name="Weights & export").click()
    page.get_by_role("link", name=f"v{STEPS}", exact=True).first.click()
    page.get_by_role("button", name="Create export").click()
    link = page.get_by_role("link", name="Download zip")
    link.wait_for()
    with page.expect_download() as saved:
        link.click()
    with zipfile.ZipFile(io.BytesIO(Path(saved.value.path()).read_bytes())) as exported:
        return {Path(name).name for name in exported.namelist()}


def test_team_lead_gets_from_an_invitation_to_an_exported_model_with_three_raters(
    team: Team, tiny_folder: Path
):
    administrator = team.window()
    administrator.open("/projects/demo/")
    administrator.log_in("root")
    owner = team.join(invitation(administrator.page, "owner", 1), "lena")
    page = owner.open("/projects/")
    page.get_by_label("Name", exact=True).fill("Support")
    page.get_by_role("button", name="Create project").click()
    page.wait_for_url("**/projects/support/")

    link = invitation(page, "rater", 3)
    devices = {"rita": DESKTOP, "ravi": DESKTOP, "rosa": PHONE}
    raters = [team.join(link, name, device) for name, device in devices.items()]
    for rater in raters:
        rater.page.get_by_role("heading", name="Nothing to rate yet").wait_for()
    assert findings(raters[-1].page) == []

    bring_a_model(page, tiny_folder)
    bring_prompts(page)
    owner.open("/")
    assert steps_to_do(page) == []
    owner.open("/imports/of/support/")
    page.get_by_role("link", name="questions.jsonl").click()
    make_a_run(page)
    run = page.url
    for rater in raters:
        rater.page.locator("[data-item]").first.wait_for()
    team.rate(raters, lambda: is_completed(page, run))
    assert team.given >= STEPS * GROUPS * 4

    look_into_a_step(page)
    ask_for_evaluations(page)
    rated = team.given
    team.rate(raters, lambda: team.given == rated + 4)
    page.locator("#now td .num", has_text="%").nth(1).wait_for()
    compare_replies(page)
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= download(page, run)

    for rater in raters:
        rater.page.get_by_role("heading", name="All caught up").wait_for()
        assert not rater.has_overflow()
    complaints = [said for visit in team.visits for said in visit.complaints]
    assert [said for said in complaints if "422" not in said] == []  # the refused evaluation
