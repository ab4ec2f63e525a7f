"""The list of runs under a hand: what Enter does, and what stays out of its way."""

import pytest
from django.urls import reverse

from apps.runs.models import Run
from tests.dashboard.growing import grow_runs

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_enter_in_the_field_of_tags_adds_the_tag(visit, seeded):
    page = visit(seeded["alice"]).open(reverse("runs"))
    page.check(f'[name="run"][value="{seeded["run"].pk}"]')
    page.fill("#tag-words", "long")
    page.press("#tag-words", "Enter")
    page.get_by_text("1 tagged").wait_for()
    assert Run.objects.get().tags == ["long"]


def test_the_acts_lie_over_the_list_only_once_something_is_ticked(visit, seeded):
    page = visit(seeded["alice"]).open(reverse("runs"))
    place = "() => getComputedStyle(document.getElementById('ticked')).position"
    assert page.evaluate(place) == "static"
    page.check(f'[name="run"][value="{seeded["run"].pk}"]')
    assert page.evaluate(place) == "sticky"


def test_ticks_go_along_from_page_to_page_and_are_told(visit, seeded):
    grow_runs(seeded["run"], 40)
    newest, oldest = Run.objects.order_by("-pk")[0], Run.objects.order_by("pk")[0]
    page = visit(seeded["alice"]).open(reverse("runs"))
    page.check(f'[name="run"][value="{newest.pk}"]')
    page.click('.pager [rel="next"]')
    page.get_by_text("1 run ticked").wait_for()
    page.get_by_text(f"1 on other pages: {newest.slug}").wait_for()
    page.check(f'[name="run"][value="{oldest.pk}"]')
    page.go_back()
    page.get_by_text("2 runs ticked").wait_for()
    page.get_by_text(f"1 on other pages: {oldest.slug}").wait_for()
    assert page.is_checked(f'[name="run"][value="{newest.pk}"]')
    page.get_by_role("button", name="Compare").click()
    page.wait_for_url("**/compare/**")
    assert newest.slug in page.url and oldest.slug in page.url


def test_ticks_stay_where_an_act_is_refused(visit, seeded):
    grow_runs(seeded["run"], 40)
    newest = Run.objects.order_by("-pk")[0]
    page = visit(seeded["alice"]).open(reverse("runs"))
    page.check(f'[name="run"][value="{newest.pk}"]')
    page.click('.pager [rel="next"]')
    page.get_by_role("button", name="Add tag").last.click()
    page.get_by_text("type a tag first").wait_for()
    page.get_by_text(f"1 on other pages: {newest.slug}").wait_for()


def test_ticks_end_with_the_list_with_an_act_and_with_untick(visit, seeded):
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
    assert Run.objects.get(pk=newest.pk).tags == ["long"] and page.get_by_text("Tick runs to act on them.").is_visible()
    box = page.locator('input[type="checkbox"][name="run"]').first
    box.check()
    page.get_by_role("button", name="Untick all").click()
    assert not box.is_checked() and page.get_by_text("Tick runs to act on them.").is_visible()
