"""A button or key that is pressed twice acts on what the person has read, and on nothing else."""

import pytest

from apps.evaluation.models import Vote
from tests.browser.rating import asking
from tests.browser.test_arena import judging, pair_on  # noqa: F401 (a fixture)
from tests.keeping import elsewhere

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_double_click_votes_on_one_pair(judging, eventually):
    _, _, _, page = judging
    page.wait_for_load_state("networkidle")  # the next pairs are loaded
    first = pair_on(page)
    page.locator("[data-choice=left]").dblclick()
    page.locator("[data-choice=right]").click()
    eventually(lambda: Vote.objects.count() >= 2)
    page.get_by_text("2 today").wait_for()
    assert Vote.objects.count() == 2 and pair_on(page) != first


def test_double_click_on_submit_sends_one_rewrite(visit, transactional_db, eventually):
    asked = elsewhere(lambda: asking("rewrite", groups=6, overlap=1))
    page = visit(asked.bob).open("/rate/")
    page.wait_for_selector("[data-item]")
    page.wait_for_load_state("networkidle")  # the next items are loaded
    page.locator(".rating-bar [data-act=submit]").dblclick()
    page.get_by_text("1 today · 1 this session").wait_for()
    assert len(eventually(asked.ratings)) == 1


def test_two_undos_in_a_row_withdraw_two_votes(judging, eventually):
    _, _, window, page = judging
    page.wait_for_load_state("networkidle")
    first = pair_on(page)
    window.press("a", "b")
    eventually(lambda: Vote.objects.count() == 2)
    page.wait_for_load_state("networkidle")
    window.press("z", "z")
    page.get_by_text("0 today").wait_for()
    eventually(lambda: Vote.objects.filter(choice="back").count() == 2)
    page.wait_for_selector(f"[data-pair='{first}']")


def test_two_undos_in_a_row_withdraw_two_ratings(visit, transactional_db, eventually):
    asked = elsewhere(lambda: asking("stars", groups=6, overlap=1))
    window = visit(asked.bob)
    page = window.open("/rate/")
    page.wait_for_selector("[data-item]")
    page.wait_for_load_state("networkidle")
    first = page.locator("[data-item]").get_attribute("data-item")
    window.press("4", "Enter", "3", "Enter")
    eventually(lambda: len(asked.ratings()) == 2)
    page.wait_for_load_state("networkidle")
    window.press("z", "z")
    page.wait_for_selector(f"[data-item='{first}']")
    page.get_by_text("0 today · 0 this session").wait_for()
