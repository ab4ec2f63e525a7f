"""The command palette: opened, searched and closed by keyboard."""

import pytest
from django.urls import reverse

from apps.runs.models import Run

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
SELECTED = '#palette [aria-selected="true"]'


def test_page_is_found_and_opened_by_keyboard_only(visit, seeded):
    window = visit(seeded["alice"])
    page = window.open(reverse("home"))
    window.press("Control+k")
    page.keyboard.type("tone gold")
    field = page.get_by_role("combobox", name="Search pages")
    option = page.get_by_role("option", name="Gold items", selected=True)
    option.wait_for()
    assert field.get_attribute("aria-activedescendant") == option.get_attribute("id")
    window.press("Enter")
    page.wait_for_url("**" + reverse("run-gold", args=["lab", "tone-7"]))
    assert window.complaints == []


def test_arrow_keys_move_through_the_options_and_wrap_around(visit, seeded):
    window = visit(seeded["alice"])
    page = window.open(reverse("home"))
    page.locator("[data-palette]").click()
    page.locator(SELECTED).wait_for()
    first = page.locator(SELECTED).get_attribute("id")
    window.press("ArrowDown")
    assert page.locator(SELECTED).get_attribute("id") != first
    window.press("ArrowUp", "ArrowUp")
    last = page.get_by_role("option").last
    assert page.locator(SELECTED).get_attribute("id") == last.get_attribute("id")
    window.press("Escape")
    page.locator("#palette").wait_for(state="hidden")


def test_typing_sends_one_search_request_per_pause(visit, seeded):
    window = visit(seeded["alice"])
    page = window.open(reverse("home"))
    window.press("Control+k")
    page.locator(SELECTED).wait_for()
    window.fetched.clear()
    # All keys in one task of the browser: no pause between them, however slow the machine.
    page.evaluate(
        """() => {
            const field = document.querySelector("#palette input");
            for (const text of ["t", "to", "ton", "tone"]) {
                field.value = text;
                field.dispatchEvent(new Event("input"));
            }
        }"""
    )
    page.get_by_role("option", name="tone-7").first.wait_for()
    assert len([url for url in window.fetched if "/find/rows/" in url]) == 1


def test_palette_keys_do_not_reach_the_page_beneath(visit, seeded):
    window = visit(seeded["alice"])
    page = window.open(reverse("runs"))
    box = page.locator('td.tick [name="run"]').first
    window.press("Control+k")
    page.locator(SELECTED).wait_for()
    window.press("g", "r", "?", "/", "j", "k", "x", "Control+k")
    page.locator("#palette").wait_for(state="hidden")
    assert page.url.endswith(reverse("runs"))
    assert not page.locator("[data-keys-sheet]").is_visible() and not box.is_checked()
    assert Run.objects.filter(state="running").count() == 1


def test_search_button_opens_the_search_page_without_scripts(visit, seeded):
    page = visit(seeded["alice"], scripts=False).open(reverse("home"))
    page.locator("[data-palette]").click()
    page.fill("#words", "tone-7")
    page.locator("main").get_by_role("button", name="Search").click()
    page.get_by_role("link", name="tone-7").first.click()
    page.wait_for_url("**" + reverse("run", args=["lab", "tone-7"]))
