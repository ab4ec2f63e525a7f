"""A researcher follows a rating to the weights it shaped, evaluates them, and downloads files."""

import json
from pathlib import Path

import pytest
from django.urls import reverse

from apps.runs.models import Run

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def downloaded(page, press) -> str:
    """Return the text of the file that the browser saves after `press`."""
    with page.expect_download() as saved:
        press()
    return Path(saved.value.path()).read_text()


def test_researcher_follows_a_rating_to_the_weights_and_downloads_files(visit, seeded):
    window = visit(seeded["alice"])
    page = window.open(reverse("run", args=["lab", "tone-7"]))
    page.locator(".run-tabs").get_by_role("link", name="Rollouts").click()
    page.locator("tr.open:has(.chip) td.text a, tr.open:has(.chip) a").first.click()
    page.get_by_role("heading", name="Reply", exact=True).wait_for()
    assert page.locator(".chip").count() > 0

    page.locator(".run-tabs").get_by_role("link", name="Weights & export").click()
    page.locator(".sub-tabs").get_by_role("link", name="Trace").click()
    page.locator("table.trace").wait_for()
    simulated = page.locator("a.rating-chip.simulated").first
    assert "simulated" in simulated.get_attribute("title")
    window.picture("researcher-trace")
    page.locator("a.rating-chip").first.click()
    page.get_by_text("and later versions").first.wait_for()

    page.goto(window.site + reverse("run-evaluations", args=["lab", "tone-7"]))
    page.fill("#e-samples", "2")
    page.locator("#ask").get_by_role("button", name="Evaluate", exact=True).click()
    page.get_by_text("1 evaluation started").wait_for()
    assert Run.objects.filter(evaluates__run=seeded["run"]).count() == 1

    page.locator(".run-tabs").get_by_role("link", name="Weights & export").click()
    page.locator(".sub-tabs").get_by_role("link", name="Exports").click()
    wide = page.locator("section", has_text="Metrics, wide").get_by_role("link", name="CSV")
    assert downloaded(page, wide.click).startswith("step,weight_version,at,")
    groups = page.locator("section", has_text="completions").get_by_role("button")
    rows = downloaded(page, groups.first.click).splitlines()
    assert {"people", "simulated"} <= json.loads(rows[0]).keys()
    assert window.complaints == []
