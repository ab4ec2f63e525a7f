"""A run's charts in Chromium: zoomed, on a time axis, smoothed, chosen, downloaded, and growing
while they are shown.
"""

import random
from urllib.parse import parse_qs, urlsplit

import pytest
from django.urls import reverse
from playwright.sync_api import Page

from apps.accounts.models import User
from apps.runs.models import Run
from tests.browser.fingers import touch
from tests.keeping import elsewhere
from tests.seeding import Story

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
LARGE = ".curve.large .u-over"


@pytest.fixture
def window(visit, seeded):
    return visit(seeded["alice"])


@pytest.fixture
def page(window) -> Page:
    page = window.open(reverse("run", args=["lab", "tone-7"]))
    page.wait_for_selector("[data-curve=reward] canvas")
    page.wait_for_selector(".connection[data-state=live]")
    return page


def asked(page: Page) -> dict[str, list[str]]:
    return parse_qs(urlsplit(page.url).query)


def drag(page: Page, since: float, until: float) -> None:
    """Drag over the large chart, from and to these fractions of its width."""
    box = page.locator(LARGE).bounding_box()
    height = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * since, height)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * until, height, steps=4)
    page.mouse.up()


def another_step() -> None:
    people = {name: User.objects.get(username=name) for name in ("alice", "bob", "simulated")}
    Story(Run.objects.get(slug="tone-7"), people, random.Random(1)).step()


def test_dragged_range_is_in_the_url_and_stays_when_steps_arrive(window, page, eventually):
    drag(page, 0.2, 1.0)
    eventually(lambda: page.evaluate("location.search.includes('from_step')"))
    assert asked(page)["to_step"] == ["3"]
    elsewhere(another_step)
    eventually(
        lambda: page.evaluate(
            "document.querySelector('#now .state').textContent.includes('step 4')"
        )
    )
    assert page.locator("[name=to_step]").last.input_value() == "3" and asked(page)["to_step"] == [
        "3"
    ]
    page.locator("[data-full-range]").click()
    eventually(lambda: page.evaluate("location.search === ''"))
    eventually(lambda: page.evaluate("document.querySelector('[data-full-range]').hidden"))
    assert window.complaints == []


def test_horizontal_swipe_on_a_chart_selects_a_range(window, page, eventually):
    touch(page, LARGE, (0.2, 0.5), (1.0, 0.55))
    eventually(lambda: page.evaluate("location.search.includes('from_step')"))
    assert asked(page)["to_step"] == ["3"] and window.complaints == []
    elsewhere(another_step)  # the chart is no longer held
    eventually(
        lambda: page.evaluate(
            "document.querySelector('#now .state').textContent.includes('step 4')"
        )
    )


def test_vertical_swipe_on_a_chart_scrolls_the_page_and_selects_no_range(window, page, eventually):
    before = page.evaluate("scrollY")
    touch(page, LARGE, (0.5, 0.9), (0.52, 0.1))
    eventually(lambda: page.evaluate(f"scrollY > {before}"))
    assert asked(page) == {} and window.complaints == []


def test_new_step_updates_the_numbers_without_redrawing_the_charts(window, page, eventually):
    page.evaluate("document.querySelector('.curve.large canvas').dataset.mine = 'yes'")
    before = page.locator("[data-curve=entropy] [data-value]").inner_text()
    elsewhere(another_step)
    eventually(
        lambda: page.evaluate(
            "document.querySelector('[data-curve=entropy] [data-value]').textContent !=="
            f" '{before}'"
        )
    )
    assert page.locator(".curve.large canvas[data-mine=yes]").count() == 1
    assert window.complaints == []


def test_series_is_chosen_by_name_and_kept_in_the_url(window, page, eventually):
    page.locator(".picker summary").click()
    page.locator("[data-metric-search]").fill("loss")
    assert page.locator(".names li:visible").count() == 1
    page.check(".names input[value=loss]")
    page.locator("[data-curve=also-loss] canvas").wait_for()
    assert asked(page)["also"] == ["loss"]
    page.reload()
    page.locator("[data-curve=also-loss]").scroll_into_view_if_needed()
    page.locator("[data-curve=also-loss] canvas").wait_for()
    page.uncheck(".names input[value=loss]")
    assert page.locator("[data-curve=also-loss]").count() == 0 and window.complaints == []


def test_charts_can_use_the_time_axis_be_smoothed_and_be_downloaded(window, page, eventually):
    page.locator("[data-axis=time]").click()
    page.locator("[data-smooth]").fill("0.5")
    eventually(lambda: page.evaluate("location.search === '?x=time&smooth=0.5'"))
    page.locator("[data-curve=kl]").hover()
    page.locator("[data-curve=kl] .menu summary").click()
    with page.expect_download() as download:
        page.locator("[data-curve=kl] [data-png]").click()
    assert download.value.suggested_filename == "tone-7-kl.png"
    with page.expect_download() as download:
        page.locator("[data-curve=kl] .menu summary").click()
        page.locator("[data-curve=kl] [data-csv]").click()
    assert download.value.suggested_filename == "tone-7-curves.csv" and window.complaints == []


def test_range_can_be_entered_without_a_mouse(window, page, eventually):
    page.locator("[data-zoom] [name=from_step]").fill("2")
    page.locator("[data-zoom] [name=to_step]").fill("3")
    page.keyboard.press("Enter")
    eventually(lambda: asked(page) == {"from_step": ["2"], "to_step": ["3"]})
    page.locator("[data-zoom] [name=to_step]").fill("1")
    page.keyboard.press("Enter")
    assert page.locator("[data-zoom] [name=to_step]:invalid").count() == 1 and asked(page)[
        "to_step"
    ] == ["3"]
    assert window.complaints == []


def test_page_still_updates_with_invalid_query_parameters(window, eventually):
    page = window.open(reverse("run", args=["lab", "tone-7"]) + "?x=moon&also=a%20b")
    page.wait_for_selector("[data-curve=reward] canvas")
    page.wait_for_selector(".connection[data-state=live]")
    elsewhere(another_step)
    eventually(
        lambda: page.evaluate(
            "document.querySelector('#now .state').textContent.includes('step 4')"
        )
    )
    assert window.complaints == []


def test_range_that_cannot_be_loaded_keeps_the_previous_one(page, eventually):
    page.route("**/curves/**", lambda route: route.abort())
    page.locator("[data-zoom] [name=from_step]").fill("2")
    page.keyboard.press("Enter")
    page.locator("[data-error]:visible").wait_for()
    assert asked(page) == {} and page.locator("[data-zoom] [name=from_step]").input_value() == ""


def test_each_line_of_the_large_chart_has_its_own_colour_and_label(window, page):
    page.locator("[data-curve=starved] h3 > a").click()
    page.wait_for_selector("[data-curve=starved].large canvas")
    legend = page.locator(".curve.large .legend")
    assert "for scoring" in legend.inner_text() and "starved_" not in legend.inner_text()
    inks = page.locator(".curve.large .key").evaluate_all(
        "keys => keys.map((key) => getComputedStyle(key).borderTopColor)"
    )
    assert len(set(inks)) == 4 and window.complaints == []


def test_click_on_a_chart_opens_its_step_and_keys_move_between_steps(window, page, eventually):
    def shows(number: int) -> None:
        page.wait_for_url(f"**{reverse('run-step', args=['lab', 'tone-7', number])}")
        page.locator(f"dialog #step-title:text('{number}')").wait_for()

    box = page.locator(LARGE).bounding_box()
    page.mouse.click(box["x"] + box["width"] - 2, box["y"] + 80)
    shows(3)
    eventually(lambda: page.evaluate("document.activeElement.id === 'step-title'"))
    window.press("ArrowLeft")
    shows(2)
    page.locator("dialog [rel=next]").click()
    shows(3)
    window.press("g", "h")  # means the home page outside of the drawer
    assert page.locator("dialog.drawer[open]").count() == 1
    window.press("Escape")
    page.wait_for_url(f"**{reverse('run', args=['lab', 'tone-7'])}")
    assert page.locator("dialog.drawer[open]").count() == 0
    assert page.locator("[data-curve=reward] canvas").count() == 1 and window.complaints == []
    page.go_forward()  # the address is also a page of its own
    page.locator(".step-page").wait_for()


def test_going_back_closes_the_drawer_and_keeps_the_charts(window, page, eventually):
    page.locator("[data-newest-step]").click()
    page.locator("dialog [data-part-of-step=metrics]").wait_for()
    page.evaluate("window.isSame = true")
    page.go_back()
    eventually(lambda: page.evaluate("!document.querySelector('dialog.drawer').open"))
    assert page.evaluate("window.isSame") and window.complaints == []


def test_charts_page_shows_chosen_metrics_on_a_log_scale_and_saves_a_view(window, page, eventually):
    page.locator("[data-curve=kl] summary").click()
    page.locator("[data-curve=kl] [data-full]").click()
    page.locator(".own-chart canvas").wait_for()
    assert asked(page)["names"] == ["behaviour_kl", "kl"]
    page.locator(".names [value=behaviour_kl]").uncheck()
    page.locator(".names [value=entropy]").check()
    page.locator("[data-log]").check()
    eventually(lambda: page.locator("[data-value=entropy]").text_content() != "")
    assert (asked(page)["names"], asked(page)["log"]) == (["kl", "entropy"], ["1"])
    with page.expect_download() as saved:
        page.locator("[data-png]").click()
    assert saved.value.suggested_filename.startswith("tone-7-")
    page.locator("#view-name").fill("KL and entropy")
    page.locator(".save-view button").click()
    page.locator(".views li a").wait_for()
    assert asked(page)["names"] == ["kl", "entropy"]
    assert page.locator("[data-log]").is_checked() and window.complaints == []
