"""The pages of trace, replay, exports and human time in Chromium: no errors, no injected scripts,
no page that is too wide.
"""

import os
from pathlib import Path

import pytest
from django.urls import reverse

from apps.feedback.models import Rating
from apps.rollouts.models import Rollout, storable_output
from tests.browser.conftest import DESKTOP, PHONE
from tests.rollouts.hostile import PAYLOADS

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
SHOTS = os.environ.get("RFTWEB_SHOTS")  # a folder for screenshots


def addresses(run) -> dict[str, str]:
    rating = (
        Rating.objects.filter(run=run, rollout__group__state="admitted", is_current=True)
        .order_by("pk")
        .first()
    )
    found = {
        name: reverse(f"run-{name}", args=["lab", run.slug])
        for name in ("trace", "replay", "exports", "bought")
    }
    return {
        **found,
        "replay": found["replay"] + "?raters=bob",
        "rating": reverse("rating", args=[rating.pk]),
    }


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_no_page_reports_errors_or_is_wider_than_its_window(visit, seeded, site, viewport, scheme):
    Rating.objects.filter(run=seeded["run"]).update(seconds=12)
    window = visit(seeded["alice"], viewport, scheme)
    for name, address in addresses(seeded["run"]).items():
        page = window.open(address)
        page.wait_for_load_state("networkidle")
        if SHOTS:
            page.screenshot(
                path=Path(SHOTS) / f"{name}-{viewport['width']}-{scheme}.png", full_page=True
            )
        assert window.complaints == [], name
        assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"], name
    assert [url for url in window.fetched if not url.startswith(site)] == []


def test_text_of_users_and_models_is_shown_and_never_run(visit, seeded):
    run = seeded["run"]
    hostile = storable_output(" ".join(PAYLOADS))
    Rollout.objects.filter(run=run).update(text=hostile)
    Rating.objects.filter(run=run).update(critique=hostile[:20_000], seconds=12)
    window = visit(seeded["alice"])
    for name, address in addresses(run).items():
        page = window.open(address)
        page.wait_for_load_state("networkidle")
        assert page.evaluate("window.pwned") is None, name
        assert window.complaints == [], name


def test_replay_is_created_by_keyboard_only(visit, seeded):
    page = visit(seeded["alice"]).open(reverse("run-replay", args=["lab", "tone-7"]))
    page.focus("input[value=bob]")
    page.keyboard.press("Space")
    page.focus("text=Preview")
    page.keyboard.press("Enter")
    page.wait_for_selector("h2:has-text('Preview')")
    page.focus("#slug")
    page.keyboard.press("Enter")
    page.wait_for_url("**/runs/lab/tone-7-without-bob/")
    assert "created" in page.locator("main").inner_text()


def test_an_export_is_downloaded_with_the_filters_of_the_form(visit, seeded):
    page = visit(seeded["alice"]).open(reverse("run-exports", args=["lab", "tone-7"]))
    page.check("[name=pseudonyms]")
    with page.expect_download() as waited:
        page.click("section:has-text('Votes') >> text=JSON lines")
    path = Path(waited.value.path())
    assert waited.value.suggested_filename == "lab-tone-7-votes.jsonl"
    assert '"rater": "rater-' in path.read_text()
