"""Rollouts are selected and acted on by touch as by mouse."""

import pytest
from django.urls import reverse

from tests.browser.conftest import PHONE

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_rollouts_are_selected_and_rescored_on_a_phone(visit, seeded):
    window = visit(seeded["alice"], PHONE)
    page = window.open(reverse("rollouts", args=["lab", seeded["run"].slug]))
    targets = page.locator("td.tick label, .selection-actions label, .selection-actions button")
    sizes = [one.bounding_box() for one in targets.all()]
    assert len(sizes) > 5 and all(size["width"] >= 40 and size["height"] >= 40 for size in sizes)
    for tick in page.locator("td.tick label").all()[:2]:
        tick.tap()
    assert page.locator("[name=rollout]:checked").count() == 2
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.locator(".tablebox").evaluate("box => box.scrollWidth <= box.clientWidth")
    page.get_by_role("button", name="Rescore").tap()
    page.wait_for_selector("h1:has-text('Rescore')")
    assert "2 rollouts" in page.locator(".head .state").inner_text()
    assert (
        page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        and window.complaints == []
    )


def test_ctrl_click_on_a_row_opens_its_page_in_a_new_tab(visit, seeded):
    address = reverse("rollouts", args=["lab", seeded["run"].slug])
    page = visit(seeded["alice"]).open(address)
    age = page.locator("tr.open td").last
    with page.context.expect_page() as opened:
        age.click(modifiers=["Control"])
    opened.value.wait_for_url("**/rollouts/*/")
    assert page.url.endswith(address)


def test_selecting_text_in_a_row_does_not_open_its_page(visit, seeded):
    address = reverse("rollouts", args=["lab", seeded["run"].slug])
    page = visit(seeded["alice"]).open(address)
    page.locator("tr.open td").last.evaluate(
        "(cell) => { getSelection().selectAllChildren(cell); cell.click(); }"
    )
    assert page.url.endswith(address) and page.evaluate("() => getSelection().toString()")
