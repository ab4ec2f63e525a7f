"""Parts of a page that refresh themselves: what a person has changed and not sent stays."""

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
REFRESH_MS = 16_000
ADD = """(html) => document.getElementById("home-now").insertAdjacentHTML("beforeend", html)"""
SELECT = '<select id="mine"><option>one</option><option>two</option></select>'


@pytest.fixture
def page(visit, seeded):
    window = visit(seeded["alice"])
    window.page.clock.install()
    return window.open("/")


def run_refresh(page) -> None:
    page.clock.run_for(REFRESH_MS)
    page.wait_for_load_state("networkidle")


@pytest.mark.parametrize(
    ("html", "change"),
    [
        (SELECT, "(control) => { control.selectedIndex = 1; }"),
        (SELECT.replace("id=", "multiple id="), "(control) => { control.selectedIndex = 1; }"),
        ('<input id="mine" type="checkbox">', "(control) => { control.checked = true; }"),
        ('<textarea id="mine"></textarea>', "(control) => { control.value = 'mine'; }"),
    ],
    ids=["select", "multiple select", "checkbox", "text"],
)
def test_part_with_a_changed_control_is_not_replaced(page, html, change):
    page.evaluate(ADD, html)
    page.locator("#mine").evaluate(change)
    run_refresh(page)
    assert page.locator("#mine").count() == 1
    page.get_by_text("paused: unsent changes").wait_for()


def test_part_with_an_unchanged_select_is_refreshed(page):
    page.evaluate(ADD, SELECT)
    run_refresh(page)
    page.locator("#mine").wait_for(state="detached")


def test_part_that_is_changed_during_its_request_is_not_replaced(page):
    page.evaluate(ADD, SELECT)
    page.evaluate(
        """() => document.addEventListener("htmx:after:request", () => {
            document.getElementById("mine").selectedIndex = 1;
        })"""
    )
    run_refresh(page)
    assert page.locator("#mine").evaluate("(control) => control.selectedIndex") == 1
