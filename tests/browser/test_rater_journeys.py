"""A rater's first session, by keyboard and on a phone: from login to the end of the queue."""

import pytest

from apps.feedback.models import Rating, Skip, Slot
from tests.browser.conftest import PHONE
from tests.browser.rating import asking
from tests.browser.test_rating_page import item_on, wait_for_another
from tests.keeping import elsewhere

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
ITEM_OR_END = "[data-item]:not([data-item='{}']), [data-queue-end]"


def forms_of(asked) -> list[str]:
    standing = Rating.objects.filter(rater=asked.bob, is_current=True, is_withdrawn=False)
    return sorted(standing.values_list("form", flat=True))


def next_after(page, item: str) -> None:
    page.wait_for_selector(ITEM_OR_END.format(item))


def test_rater_works_by_keyboard(visit, may_log_in, transactional_db, eventually):
    asked = elsewhere(lambda: asking("stars", groups=2, size=3))
    may_log_in(asked.bob)
    window = visit(None)
    page = window.open("/rate/")
    window.log_in("bob")
    page.wait_for_selector("[data-item]")
    waiting = int(page.locator("[data-waiting-badge]").inner_text())
    assert waiting == Slot.objects.exclude(state="closed").count() == 6

    window.press("?")  # the shortcuts
    page.get_by_role("heading", name="Keyboard shortcuts").wait_for()
    window.press("Escape", "g")  # the guidelines
    page.locator("[data-guide] h2").wait_for()
    window.press("Escape")

    item = item_on(page)
    window.press("4", "Enter")
    wait_for_another(page, item)
    page.get_by_text("4 stars.").wait_for()
    window.press("z")  # undo: the answer is there again
    page.wait_for_selector(f"[data-item='{item}']")
    assert page.locator("input:checked").get_attribute("value") == "4"
    window.press("c")
    page.keyboard.type("Kind, and it answers the question.")
    window.press("Control+Enter")
    wait_for_another(page, item)

    item = item_on(page)
    window.press("s")
    page.locator("dialog[open] #skip-title").wait_for()
    window.press("1")
    wait_for_another(page, item)
    item = item_on(page)
    window.press("f")
    page.locator("dialog[open] #flag-title").wait_for()
    window.press("2")
    wait_for_another(page, item)
    assert page.locator("input[type=radio]:checked").count() == 0

    while page.locator("[data-queue-end]").count() == 0:
        item = item_on(page)
        window.press("5", "Enter")
        next_after(page, item)
    page.get_by_role("heading", name="All caught up").wait_for()
    assert page.locator("[data-waiting-badge]").is_hidden()
    window.picture("rater-keyboard-end")
    eventually(lambda: forms_of(asked) == ["flag", "stars", "stars", "stars", "stars"])
    assert Skip.objects.filter(rater=asked.bob).count() == 1
    assert Rating.objects.exclude(critique="").get().critique.startswith("Kind")
    window.press(".", "s")
    page.wait_for_url("**/settings/")
    assert window.complaints == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_rater_works_on_a_phone(visit, transactional_db, eventually, scheme):
    asked = elsewhere(lambda: asking("stars", groups=1, size=4))
    window = visit(asked.bob, PHONE, scheme)
    page = window.open("/")
    # If the page were left during its request for items, it would not know which it holds.
    page.wait_for_selector("[data-item]")
    page.locator("nav[aria-label=Main] a[data-go=a]").tap()
    page.wait_for_selector("[data-item]")
    assert not window.has_overflow()
    window.picture(f"rater-phone-{scheme}")

    item = item_on(page)
    page.locator("label.star").nth(3).tap()
    page.get_by_role("button", name="Next").tap()
    wait_for_another(page, item)
    page.get_by_role("button", name="Undo").tap()
    page.wait_for_selector(f"[data-item='{item}']")
    page.locator("label.star").nth(1).tap()
    page.get_by_role("button", name="Critique").tap()
    page.locator("[data-critique]").fill("Blames the customer.")
    assert not window.has_overflow()
    page.get_by_role("button", name="Next").tap()
    wait_for_another(page, item)

    for verb, title in (("flag", "Flag as broken"), ("skip", "Skip this item")):
        item = item_on(page)
        page.locator(f".rating-bar [data-act={verb}]").tap()
        page.get_by_role("heading", name=title).wait_for()
        assert not window.has_overflow()
        window.picture(f"rater-phone-{verb}-{scheme}")
        page.locator(f"[data-reasons={verb}] [data-reason]").first.tap()
        wait_for_another(page, item)
        assert page.locator("input[type=radio]:checked").count() == 0

    item = item_on(page)
    page.locator("label.star").nth(4).tap()
    page.get_by_role("button", name="Next").tap()
    page.get_by_role("heading", name="All caught up").wait_for()
    assert page.locator("[data-waiting-badge]").is_hidden() and not window.has_overflow()
    window.picture(f"rater-phone-end-{scheme}")
    eventually(lambda: forms_of(asked) == ["flag", "stars", "stars"])
    first = Rating.objects.get(critique="Blames the customer.")
    assert first.answer == {"stars": 2} and window.complaints == []
