"""The list of runs: the Enter key, the action bar and the selection."""

import pytest
from django.urls import reverse

from apps.runs.models import Run
from tests.dashboard.growing import grow_runs

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_enter_in_the_tag_field_adds_the_tag(visit, seeded):
    page = visit(seeded["alice"]).open(reverse("runs"))
    page.check(f'[name="run"][value="{seeded["run"].pk}"]')
    page.fill("#tag-words", "long")
    page.press("#tag-words", "Enter")
    page.get_by_text("1 tagged").wait_for()
    assert Run.objects.get().tags == ["long"]


def test_action_bar_is_sticky_only_while_a_run_is_selected(visit, seeded):
    page = visit(seeded["alice"]).open(reverse("runs"))
    place = "() => getComputedStyle(document.getElementById('selected-runs')).position"
    assert page.evaluate(place) != "sticky"
    page.check(f'[name="run"][value="{seeded["run"].pk}"]')
    assert page.evaluate(place) == "sticky"


def test_selection_is_kept_and_shown_across_pages(visit, seeded):
    grow_runs(seeded["run"], 40)
    newest = Run.objects.order_by("-pk")[0]
    oldest = Run.objects.order_by("pk")[0]
    page = visit(seeded["alice"]).open(reverse("runs"))
    page.check(f'[name="run"][value="{newest.pk}"]')
    page.click('.pager [rel="next"]')
    page.get_by_text("1 run selected").wait_for()
    page.get_by_text(f"1 on other pages: {newest.slug}").wait_for()
    page.check(f'[name="run"][value="{oldest.pk}"]')
    page.go_back()
    page.get_by_text("2 runs selected").wait_for()
    page.get_by_text(f"1 on other pages: {oldest.slug}").wait_for()
    assert page.is_checked(f'[name="run"][value="{newest.pk}"]')
    page.get_by_role("button", name="Compare").click()
    page.wait_for_url("**/compare/**")
    assert newest.slug in page.url and oldest.slug in page.url


def test_selection_is_kept_when_an_action_is_refused(visit, seeded):
    grow_runs(seeded["run"], 40)
    newest = Run.objects.order_by("-pk")[0]
    page = visit(seeded["alice"]).open(reverse("runs"))
    page.check(f'[name="run"][value="{newest.pk}"]')
    page.click('.pager [rel="next"]')
    page.get_by_role("button", name="Add tag").last.click()
    page.get_by_text("enter a tag").wait_for()
    page.get_by_text(f"1 on other pages: {newest.slug}").wait_for()


def test_selection_is_cleared_by_a_new_visit_an_action_or_deselecting(visit, seeded):
    grow_runs(seeded["run"], 40)
    newest = Run.objects.order_by("-pk")[0]
    window = visit(seeded["alice"])
    page = window.open(reverse("runs"))
    page.check(f'[name="run"][value="{newest.pk}"]')
    page = window.open(reverse("runs"))
    assert page.locator('[name="run"]:checked').count() == 0
    page.check(f'[name="run"][value="{newest.pk}"]')
    page.click('.pager [rel="next"]')
    page.fill("#tag-words", "long")
    page.press("#tag-words", "Enter")
    page.get_by_text("1 tagged").wait_for()
    assert (
        Run.objects.get(pk=newest.pk).tags == ["long"]
        and page.get_by_text("Select runs").is_visible()
    )
    box = page.locator('input[type="checkbox"][name="run"]').first
    box.check()
    page.get_by_role("button", name="Clear selection").click()
    assert not box.is_checked() and page.get_by_text("Select runs").is_visible()


def test_shift_click_selects_all_rows_between(visit, seeded):
    grow_runs(seeded["run"], 6)
    page = visit(seeded["alice"]).open(reverse("runs"))
    boxes = page.locator('td.tick [name="run"]')
    boxes.nth(1).click()
    boxes.nth(4).click(modifiers=["Shift"])
    assert [boxes.nth(place).is_checked() for place in range(6)] == [False, *[True] * 4, False]
    assert page.locator("[data-selection-label]").inner_text() == "4 runs selected"


def test_checkbox_in_the_header_selects_the_page(visit, seeded):
    grow_runs(seeded["run"], 3)
    page = visit(seeded["alice"]).open(reverse("runs"))
    page.locator("[data-select-page] input").check()
    assert page.locator('td.tick [name="run"]:checked').count() == Run.objects.count()
    page.locator('td.tick [name="run"]').first.uncheck()
    assert not page.locator("[data-select-page] input").is_checked()
