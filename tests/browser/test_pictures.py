"""Pictures on the rating page: they load, fit the screen and move nothing, and the keys still
work.
"""

import pytest

from tests.browser.conftest import DESKTOP, PHONE
from tests.browser.rating import asking
from tests.dashboard.test_pictures_shown import show_pictures
from tests.keeping import elsewhere

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def ask_about_a_picture(form: str, width: int, height: int):
    asked = asking(form)
    show_pictures(asked.run.project, width, height)
    return asked


@pytest.mark.parametrize(
    ("viewport", "scheme", "size"),
    [(DESKTOP, "light", (96, 96)), (PHONE, "dark", (1024, 300)), (PHONE, "light", (300, 1024))],
)
def test_picture_is_rated_by_the_same_keys_and_loading_it_moves_nothing(
    visit, transactional_db, eventually, viewport, scheme, size
):
    asked = elsewhere(lambda: ask_about_a_picture("stars", *size))
    window = visit(asked.bob, viewport, scheme)
    held = []
    window.page.route("**/pictures/**", lambda route: held.append(route))
    window.page.goto(
        f"{window.site}/rate/", wait_until="commit"
    )  # the picture is held back, and with it the page's load event
    picture = window.page.locator("[data-item] img.shown").first
    picture.wait_for(state="attached")
    eventually(lambda: held)
    before = picture.bounding_box()
    for route in held:
        route.continue_()
    window.page.unroute("**/pictures/**")
    eventually(lambda: picture.evaluate("drawn => drawn.complete && drawn.naturalWidth > 0"))
    assert picture.bounding_box() == before
    assert before["x"] >= 0 and before["x"] + before["width"] <= viewport["width"]
    assert before["height"] <= 0.27 * viewport["height"]
    window.press("2", "Enter")
    [rating] = eventually(asked.ratings)
    assert rating.answer == {"stars": 2} and window.complaints == []
