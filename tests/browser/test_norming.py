"""The norming round on the rating page: the next item comes after the explanation of the last."""

import pytest

from apps.feedback import known_items
from apps.feedback.models import Rating
from apps.rollouts.models import Rollout
from tests.browser.conftest import PHONE
from tests.browser.rating import Asking, asking
from tests.keeping import elsewhere

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
WHY = "It apologises and says what happens next, so it deserves the best mark."


def normed() -> Asking:
    asked = asking("stars", groups=2, size=2)
    for rollout in Rollout.objects.filter(run=asked.run).order_by("pk")[:2]:
        known_items.create_known_item(
            asked.run, [rollout], "norming", {"stars": 5}, WHY, asked.people["alice"]
        )
    return asked


def test_rater_reads_each_explanation_before_the_next_item(visit, transactional_db):
    asked = elsewhere(normed)
    window = visit(asked.bob, viewport=PHONE)
    page = window.open("/rate/")
    for place, (key, verdict) in enumerate((("2", "different"), ("4", "Correct")), start=1):
        page.locator(".norming", has_text=f"Norming item {place} of 2").wait_for()
        window.press("s")
        page.get_by_text("you can’t skip one").wait_for()
        assert page.locator("[data-act=skip]").is_disabled()
        window.picture(f"norming-item-{place}")
        window.press(key, "Enter")
        card = page.locator(".explained")
        card.wait_for()
        window.picture(f"norming-explained-{place}")
        assert verdict in card.locator("h1").inner_text() and WHY in card.inner_text()
        assert card.evaluate("card => card === document.activeElement"), "a screen reader reads it"
        window.press("Enter")
    page.wait_for_selector("[data-item]:not([data-norming])")
    assert not page.locator("[data-act=skip]").is_disabled() and window.complaints == []
    assert Rating.objects.filter(rater=asked.bob, item__purpose="norming").count() == 2
