"""Keys of the rating page: what must not trigger them, a rater's own keys, and touch."""

import pytest

from tests.browser.conftest import PHONE
from tests.browser.rating import asking, close_held
from tests.browser.test_rating_page import item_on, unsent, wait_for_another
from tests.keeping import elsewhere

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def begun(visit, transactional_db):
    """Return `begun(form, keys)`, which returns a run, bob's window on its first item, and the
    page; `keys` are those that bob changed.
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
    """Return whether the item is the same, without a rating, unsent data, dialog or guidelines."""
    return (
        item_on(page) == item
        and chosen(page) == []
        and unsent(page) == 0
        and page.locator("dialog[open]").count() == 0
        and page.locator("[data-guide]").is_hidden()
    )


def test_keys_do_nothing_while_the_rater_types(begun):
    _asked, window, page = begun()
    item = item_on(page)
    window.press("c")
    window.press(*"12345sfzgej?./", "Enter")
    assert page.locator("[data-critique]").input_value() == "12345sfzgej?./\n" and is_untouched(
        page, item
    )
    window.press("Escape", "4")
    assert chosen(page) == ["4"]


def test_keys_do_nothing_while_the_rater_types_the_goal(begun):
    _, window, page = begun()
    item = item_on(page)
    page.focus("[data-goal]")
    window.press("4", "2", "Enter")
    assert page.input_value("[data-goal]") == "42" and is_untouched(page, item)


@pytest.mark.parametrize("modifier", ["Control", "Alt", "Meta"])
def test_keys_do_nothing_with_a_modifier(begun, modifier):
    _, window, page = begun()
    item = item_on(page)
    # Chromium's own shortcuts (find, address, new window…) are left out: pages do not receive
    # them.
    window.press(*(f"{modifier}+{key}" for key in ("4", "z", "e", "Enter")))
    assert is_untouched(page, item)


def test_keys_do_nothing_with_shift(begun):
    _, window, page = begun()
    item = item_on(page)
    window.press("Shift+S", "Shift+F", "Shift+Enter")
    assert is_untouched(page, item)


def test_alt_with_arrow_keys_is_left_to_the_browser(begun):
    _asked, window, page = begun("pairwise")
    item = item_on(page)
    page.evaluate(
        "window.left = 0; addEventListener('keydown', (event) => (window.left +="
        " !event.defaultPrevented))"
    )
    window.press("Alt+ArrowDown", "Alt+ArrowUp")
    assert page.evaluate("window.left") >= 2 and is_untouched(page, item)


def test_enter_on_a_focused_button_activates_that_button(begun):
    _, window, page = begun()
    item = item_on(page)
    window.press("4")
    page.focus(".rating-bar [data-act=guidelines]")
    window.press("Enter")
    page.locator("[data-guide] h2").wait_for()
    assert item_on(page) == item and unsent(page) == 0


def test_keys_do_nothing_behind_a_dialog(begun):
    _, window, page = begun()
    item = item_on(page)
    window.press("?")
    assert page.locator("[data-keys-sheet]").is_visible()
    window.press("4", "z", "g")
    assert item_on(page) == item and chosen(page) == [] and page.locator("[data-guide]").is_hidden()
    window.press("Escape", "5")
    assert chosen(page) == ["5"]


def test_enter_held_down_does_not_confirm_an_unchanged_ranking(begun, eventually):
    asked, _, page = begun("ranking")
    page.keyboard.down("Enter")
    page.keyboard.down("Enter")  # repeats
    page.keyboard.down("Enter")
    page.keyboard.up("Enter")
    assert (
        "haven’t changed the order" in page.locator("[data-status]").inner_text()
        and asked.ratings() == []
    )


def test_g_opens_the_guidelines_and_dot_starts_navigation(begun):
    _, window, page = begun()
    window.press("g")
    page.locator("[data-guide] h2").wait_for()
    window.press("Escape", ".", "s")
    page.wait_for_url("**/settings/")


def test_changed_keys_work_and_the_old_ones_do_nothing(begun, eventually):
    asked, window, page = begun(keys={"submit": "n", "undo": "u"})
    item = item_on(page)
    assert page.locator(".rating-bar [data-act=submit] kbd").inner_text() == "n"
    window.press("4", "Enter")
    assert item_on(page) == item and asked.ratings() == []
    window.press("n")
    wait_for_another(page, item)
    eventually(asked.ratings)
    window.press("u")
    page.wait_for_selector(f"[data-item='{item}']")


def test_keys_are_changed_on_the_settings_page(begun):
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


def test_one_key_submits_if_that_option_is_checked(begun, eventually):
    asked, window, page = begun()
    item = item_on(page)
    page.check("[data-auto-submit]")
    page.locator("[data-item]").focus()
    window.press("4")
    wait_for_another(page, item)
    assert eventually(asked.ratings)[0].answer == {"stars": 4}


def swipe(page, dx: int) -> None:
    """Swipe over the reply by pointer events."""
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


def test_swipe_gives_a_thumb(begun, eventually):
    asked, _, page = begun("thumbs", viewport=PHONE)
    item = item_on(page)
    swipe(page, 40)  # too short to count
    assert item_on(page) == item
    swipe(page, 140)
    wait_for_another(page, item)
    swipe(page, -140)
    ratings = eventually(lambda: len(asked.ratings()) == 2 and asked.ratings())
    assert [rating.answer["up"] for rating in ratings] == [True, False]


def test_swipe_left_opens_the_skip_dialog(begun):
    _, _, page = begun("stars", viewport=PHONE)
    swipe(page, -140)
    assert page.locator("dialog[open] #skip-title").is_visible()


def test_touch_targets_are_large_enough(visit, transactional_db):
    small = {}
    for place, form in enumerate(
        ("thumbs", "stars", "pairwise", "ranking", "best_worst", "rubric", "turns")
    ):
        asked = elsewhere(
            lambda form=form, place=place: asking(form, slug=f"tone-{place}", groups=1)
        )
        page = visit(asked.bob, viewport=PHONE).open(f"/rate/?run={asked.run.pk}")
        page.wait_for_selector(f"[data-form={form}]")
        sizes = page.locator(
            ".rating-area :is(button, label.choice, label.star):visible"
        ).evaluate_all(
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


def press_on_other_layout(page, key: str, code: str, **modifiers: bool) -> None:
    """Press a key as a browser reports it on a layout without Latin letters."""
    event = {"key": key, "code": code, "bubbles": True, "cancelable": True, **modifiers}
    page.evaluate(
        "(init) => document.body.dispatchEvent(new KeyboardEvent('keydown', init))", event
    )


def test_keys_work_on_a_layout_without_latin_letters(begun):
    _asked, _window, page = begun()
    press_on_other_layout(page, "л", "KeyK", ctrlKey=True)
    page.wait_for_selector("dialog#palette[open]")
    page.keyboard.press("Escape")
    press_on_other_layout(page, "с", "KeyC")  # a Cyrillic letter
    page.locator("[data-critique]").wait_for()


def test_item_is_rated_where_the_browser_offers_no_uuids(begun, eventually):
    """Over plain HTTP in a network, browsers lack crypto.randomUUID."""
    _asked, window, page = begun()
    page.add_init_script("Object.defineProperty(crypto, 'randomUUID', { value: undefined });")
    page.reload()
    page.wait_for_selector("[data-item]")
    item = item_on(page)
    window.press("4", "Enter")
    wait_for_another(page, item)
    eventually(lambda: unsent(page) == 0)
    assert window.complaints == []
