"""Copy buttons and the text that they put into the clipboard."""

import pytest
from django.urls import reverse

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
