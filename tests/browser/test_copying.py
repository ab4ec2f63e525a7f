"""Copy buttons and the text that they put into the clipboard."""

import pytest
from django.urls import reverse

from tests.browser.conftest import Visit
from tests.played import play

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
CLIPBOARD = "() => navigator.clipboard.readText()"


def test_ids_and_commands_are_copied(visit, seeded):
    window = visit(seeded["alice"])
    page = window.page
    play(seeded["run"])
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    rollout = seeded["run"].rollouts.filter(state="finished").first()
    window.open(reverse("rollout", args=[rollout.pk]))
    page.locator("h1 + [data-copy]").click()
    page.get_by_text("Copied", exact=True).first.wait_for()
    assert page.evaluate(CLIPBOARD) == str(rollout.pk)
    window.open(reverse("environment", args=["lab", "maze"]))
    command = page.locator("pre.command").first
    page.locator("pre.command + .copy-line button").first.click()
    page.get_by_text("Copied", exact=True).first.wait_for()
    assert page.evaluate(CLIPBOARD).strip() == command.inner_text().strip()
    assert window.complaints == []


REDRAW = """() => {
    const button = document.querySelector("h1 + [data-copy]");
    button.hidden = true;
    document.dispatchEvent(new CustomEvent("htmx:after:swap"));
}"""
COUNT_COPIES = """() => {
    window.copies = 0;
    navigator.clipboard.writeText = async () => { window.copies += 1; };
}"""


def open_rollout(visit, seeded) -> Visit:
    window = visit(seeded["alice"])
    rollout = seeded["run"].rollouts.filter(state="finished").first()
    window.open(reverse("rollout", args=[rollout.pk])).locator("h1 + [data-copy]").wait_for()
    return window


def test_button_that_a_refresh_has_kept_copies_once(visit, seeded):
    page = open_rollout(visit, seeded).page
    for _ in range(3):
        page.evaluate(REDRAW)
    page.evaluate(COUNT_COPIES)
    page.locator("h1 + [data-copy]").click()
    page.get_by_text("Copied", exact=True).first.wait_for()
    assert page.evaluate("window.copies") == 1
    assert page.locator("h1 ~ [role=status]").count() == 1
