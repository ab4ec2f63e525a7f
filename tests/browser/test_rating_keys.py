"""Keys of the rating page: what must not trigger them, a person's own, and touch."""

import pytest

from tests.browser.conftest import PHONE
from tests.browser.rating import asking, close_held
from tests.browser.test_rating_page import item_on, unsent, wait_for_another
from tests.keeping import elsewhere

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def begun(visit, transactional_db):
    """`begun(form, keys)`: a run, bob's window on its first item, and the page; `keys` are those
    that bob moved.
    """

    def begin(
        form: str = "stars", keys: dict | None = None, viewport: dict | None = None, **how: object
    ):
        asked = elsewhere(lambda: asking(form, **how))
        if keys:
            asked.bob.rating_keys = keys
            asked.bob.save()
        window = visit(asked.bob, **({"viewport": viewport} if viewport else {}))
        page = window.open("/rate/")
        page.wait_for_selector("[data-item]")
        return asked, window, page

    return begin


def chosen(page) -> list[str]:
    return page.locator("input[type=radio]:checked").evaluate_all(
        "(all) => all.map((one) => one.value)"
    )


def is_untouched(page, item: str) -> bool:
    """The same item, without an answer, nothing sent, no dialog, no guidelines."""
    return (
        item_on(page) == item
        and chosen(page) == []
        and unsent(page) == 0
        and page.locator("dialog[open]").count() == 0
        and page.locator("[data-guide]").is_hidden()
    )


def test_no_key_acts_while_somebody_types(begun):
    _asked, window, page = begun()
    item = item_on(page)
    window.press("c")
    window.press(*"12345sfzgej?./", "Enter")
    assert page.locator("[data-critique]").input_value() == "12345sfzgej?./\n" and is_untouched(
        page, item
    )
    window.press("Escape", "4")
    assert chosen(page) == ["4"]


def test_no_key_acts_while_somebody_types_the_goal(begun):
    _, window, page = begun()
    item = item_on(page)
    page.focus("[data-goal]")
    window.press("4", "2", "Enter")
    assert page.input_value("[data-goal]") == "42" and is_untouched(page, item)


@pytest.mark.parametrize("modifier", ["Control", "Alt", "Meta"])
def test_no_key_acts_with_a_modifier(begun, modifier):
    _, window, page = begun()
    item = item_on(page)
    # Chromium's own of these (find, address, new window…) are left out: they are not this page's to
    # hear.
    window.press(*(f"{modifier}+{key}" for key in ("4", "z", "e", "Enter")))
    assert is_untouched(page, item)


def test_shift_is_a_modifier_too(begun):
    _, window, page = begun()
    item = item_on(page)
    window.press("Shift+S", "Shift+F", "Shift+Enter")
    assert is_untouched(page, item)


def test_alt_and_arrows_stay_the_browsers(begun):
    _asked, window, page = begun("pairwise")
    item = item_on(page)
    page.evaluate(
        "window.left = 0; addEventListener('keydown', (event) => (window.left +="
        " !event.defaultPrevented))"
    )
    window.press("Alt+ArrowDown", "Alt+ArrowUp")
    assert page.evaluate("window.left") >= 2 and is_untouched(page, item)


def test_enter_on_a_focused_button_presses_that_button(begun):
    _, window, page = begun()
    item = item_on(page)
    window.press("4")
    page.focus(".deck [data-act=guidelines]")
    window.press("Enter")
    page.locator("[data-guide] h2").wait_for()
    assert item_on(page) == item and unsent(page) == 0


def test_no_key_acts_behind_a_dialog(begun):
    _, window, page = begun()
    item = item_on(page)
    window.press("?")
    assert page.locator("[data-keys-sheet]").is_visible()
    window.press("4", "z", "g")
    assert item_on(page) == item and chosen(page) == [] and page.locator("[data-guide]").is_hidden()
    window.press("Escape", "5")
    assert chosen(page) == ["5"]


def test_a_key_held_down_takes_one_answer(begun, eventually):
    asked, _, page = begun("ranking")
    page.keyboard.down("Enter")
    page.keyboard.down("Enter")  # repeats
    page.keyboard.down("Enter")
    page.keyboard.up("Enter")
    assert (
        "haven’t changed the order" in page.locator("[data-status]").inner_text()
        and asked.ratings() == []
    )


def test_g_alone_is_guidelines_and_a_dot_goes_elsewhere(begun):
    _, window, page = begun()
    window.press("g")
    page.locator("[data-guide] h2").wait_for()
    window.press("Escape", ".", "s")
    page.wait_for_url("**/settings/")


def test_moved_keys_do_what_they_say_and_the_old_ones_nothing(begun, eventually):
    asked, window, page = begun(keys={"submit": "n", "undo": "u"})
    item = item_on(page)
    assert page.locator(".deck [data-act=submit] kbd").inner_text() == "n"
    window.press("4", "Enter")
    assert item_on(page) == item and asked.ratings() == []
    window.press("n")
    wait_for_another(page, item)
    eventually(asked.ratings)
    window.press("u")
    page.wait_for_selector(f"[data-item='{item}']")


def test_keys_are_moved_on_the_settings_page(begun):
    _asked, window, page = begun()
    page = window.open("/settings/")
    page.fill("#key-skip", "f")
    page.click("text=Save shortcuts")
    page.get_by_text("F is already used: flag as broken.").wait_for()
    page.fill("#key-skip", "q")
    page.click("text=Save shortcuts")
    page.get_by_text("Keyboard shortcuts saved").wait_for()
    page = window.open("/rate/")
    page.wait_for_selector("[data-item]")
    window.press("s")
    assert page.locator("dialog[open]").count() == 0
    window.press("q")
    assert page.locator("dialog[open] #skip-title").is_visible()


def test_one_key_is_enough_for_those_who_asked_for_that(begun, eventually):
    asked, window, page = begun()
    item = item_on(page)
    page.check("[data-at-once]")
    page.locator("[data-item]").focus()
    window.press("4")
    wait_for_another(page, item)
    assert eventually(asked.ratings)[0].answer == {"stars": 4}


def swipe(page, dx: int) -> None:
    """A finger over the reply, as the browser tells of it."""
    page.evaluate(
        """(dx) => {
          const place = document.querySelector(".reply .prose");
          const box = place.getBoundingClientRect();
          const at = (x) => ({
            pointerType: "touch", isPrimary: true, bubbles: true, clientX: x, clientY: box.top + 5,
          });
          place.dispatchEvent(new PointerEvent("pointerdown", at(180)));
          place.dispatchEvent(new PointerEvent("pointerup", at(180 + dx))); }""",
        dx,
    )


def test_a_swipe_judges_with_thumbs(begun, eventually):
    asked, _, page = begun("thumbs", viewport=PHONE)
    item = item_on(page)
    swipe(page, 40)  # too short to mean anything
    assert item_on(page) == item
    swipe(page, 140)
    wait_for_another(page, item)
    swipe(page, -140)
    ratings = eventually(lambda: len(asked.ratings()) == 2 and asked.ratings())
    assert [rating.answer["up"] for rating in ratings] == [True, False]


def test_a_swipe_left_asks_why_to_skip(begun):
    _, _, page = begun("stars", viewport=PHONE)
    swipe(page, -140)
    assert page.locator("dialog[open] #skip-title").is_visible()


def test_everything_to_touch_is_large_enough(visit, transactional_db):
    small = {}
    for place, form in enumerate(
        ("thumbs", "stars", "pairwise", "ranking", "best_worst", "rubric", "turns")
    ):
        asked = elsewhere(
            lambda form=form, place=place: asking(form, slug=f"tone-{place}", groups=1)
        )
        page = visit(asked.bob, viewport=PHONE).open(f"/rate/?run={asked.run.pk}")
        page.wait_for_selector(f"[data-form={form}]")
        sizes = page.locator(".desk :is(button, label.choice, label.star):visible").evaluate_all(
            "(all) => all.map((one) => [one.textContent.trim(), one.offsetWidth, one.offsetHeight])"
        )
        assert len(sizes) > 5
        small |= {
            f"{form}: {words}": (width, height)
            for words, width, height in sizes
            if height < 44 or width < 40
        }
        page.context.close()
        elsewhere(close_held)
    assert small == {}
