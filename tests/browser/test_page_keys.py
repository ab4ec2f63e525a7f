"""A key pressed in a dialog, menu, list or text field never reaches the page beneath."""

import pytest
from django.urls import reverse

from apps.feedback.models import Skip, Slot
from tests.browser.rating import asking
from tests.browser.speaking import Speaker
from tests.browser.test_arena import opened as open_arena
from tests.browser.test_rating_page import item_on, wait_for_another
from tests.keeping import elsewhere

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
EVERYWHERE = ("g", "l", ".", "t", "/", "j", "k", "o", "x", "e", "p", "z", "n", "b", "s", "f", "c")
MORE = ("ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", *"0123456789")
SHEET = "[data-keys-sheet]"
RATING_KEYS = """() => [...new Set(Object.values(JSON.parse(
    document.querySelector("[data-rating-page]").dataset.keys)).flatMap(Object.keys))]"""
CHOSEN = "input[type=radio]:checked"


class Watched:
    """A window that records what its page sends and whether it is left."""

    def __init__(self, window, path: str) -> None:
        self.window = window
        self.page = window.open(path)
        self.url = self.page.url
        self.sent: list[str] = []
        self.page.on("request", self._note)

    def _note(self, request) -> None:
        is_watching = any(part in request.url for part in ("/keep/", "/check/", "/next/"))
        if request.method == "POST" and not is_watching:
            self.sent.append(request.url)

    def documented(self) -> list[str]:
        """Return the single keys in the page's own shortcut dialog, and those of all others."""
        named = self.page.locator(f"{SHEET} kbd").all_text_contents()
        single = [key for key in named if len(key) == 1 and key not in "?⌘↵"]
        return list(dict.fromkeys([*single, *EVERYWHERE, *MORE]))

    def press_all(self, *left_out: str) -> None:
        keys = [key for key in self.documented() if key not in left_out]
        self.window.press(*keys)

    def is_unmoved(self) -> bool:
        return self.page.url == self.url and self.sent == []


def pages_with_keys(seeded) -> list[str]:
    run = seeded["run"]
    speaker = Speaker(run, "I am very sorry and")
    finished = run.rollouts.filter(state="finished").order_by("-pk").first()
    return [
        f"/live/?run={run.pk}",
        f"/live/{speaker.rollout.pk}/",
        reverse("rollout", args=[finished.pk]),
        reverse("rollouts", args=["lab", run.slug]),
        reverse("run", args=["lab", run.slug]),
        f"/rate/?run={run.pk}",
    ]


def test_documented_keys_do_nothing_in_a_dialog_list_or_text_field(visit, seeded):
    window = visit(seeded["alice"])
    for path in pages_with_keys(seeded):
        watched = Watched(window, path)
        page = watched.page
        window.press("?")
        page.locator(f"{SHEET}[open]").wait_for()
        watched.press_all()
        assert page.locator("dialog[open]").count() == 1 and watched.is_unmoved(), path
        window.press("Escape")
        page.locator(f"{SHEET}:not([open])").wait_for(state="attached")
        for selector in ("main select:visible", "main input[type=text]:visible"):
            if page.locator(selector).count():
                page.locator(selector).first.focus()
                watched.press_all()
                assert page.locator("dialog[open]").count() == 0 and watched.is_unmoved(), path
    assert window.complaints == []


def test_open_menu_captures_keys_until_escape_or_loss_of_focus(visit, seeded):
    window = visit(seeded["alice"])
    watched = Watched(window, reverse("run", args=["lab", "tone-7"]))
    page, menu = watched.page, watched.page.locator("details.menu").first
    menu.locator("summary").click()
    watched.press_all()
    assert page.locator("details.menu[open]").count() == 1 and watched.is_unmoved()
    window.press("Escape")
    assert page.locator("details.menu[open]").count() == 0
    assert menu.locator("summary").evaluate("(it) => it === document.activeElement")
    menu.locator("summary").click()
    window.press("Shift+Tab")
    assert page.locator("details.menu[open]").count() == 0


def test_key_held_down_acts_only_where_it_was_pressed(visit, seeded):
    window = visit(seeded["alice"])
    speaker = Speaker(seeded["run"], "I am very sorry and")
    watched = Watched(window, f"/live/{speaker.rollout.pk}/")
    page = watched.page
    page.locator("[data-turns]").get_by_text("sorry and").wait_for()
    page.keyboard.down("t")
    page.locator("[data-editor] textarea").wait_for()
    page.keyboard.down("t")  # repeats
    page.keyboard.up("t")
    assert page.locator("[data-editor] textarea").input_value() == ""
    page.keyboard.down("Escape")
    page.keyboard.down("Escape")
    page.keyboard.up("Escape")
    assert page.locator("[data-editor]").is_hidden() and page.url == watched.url


def test_keys_pressed_in_the_reason_dialog_never_rate_the_next_reply(
    visit, transactional_db, eventually
):
    asked = elsewhere(lambda: asking("stars", groups=2))
    window = visit(asked.bob)
    watched = Watched(window, "/rate/")
    page = watched.page
    page.wait_for_selector("[data-item]")
    keys = page.evaluate(RATING_KEYS)
    page.check("[data-auto-submit]")
    for verb in "sf":
        item = item_on(page)
        page.locator("[data-item]").focus()
        window.press(verb)
        page.locator("dialog[open]").wait_for()
        kept = [key for key in (*keys, *"0789") if key not in ("Enter", "Space", "Escape")]
        window.press(*kept)
        assert page.locator("dialog[open]").count() == 1 and watched.sent == []
        page.keyboard.down("1")
        wait_for_another(page, item)
        page.keyboard.down("1")  # repeats
        page.keyboard.up("1")
        assert page.locator(CHOSEN).count() == 0 and page.locator("dialog[open]").count() == 0
        eventually(lambda: watched.sent)
        assert [url.rstrip("/").rsplit("/", 1)[1] for url in watched.sent] in (["skip"], ["flag"])
        watched.sent.clear()
    eventually(lambda: Skip.objects.filter(rater=asked.bob).exists())
    assert [rating.form for rating in eventually(asked.ratings)] == ["flag"]
    assert window.complaints == []


def test_digit_held_down_rates_only_one_reply(visit, transactional_db, eventually):
    asked = elsewhere(lambda: asking("stars", groups=2))
    page = visit(asked.bob).open("/rate/")
    page.wait_for_selector("[data-item]")
    item = item_on(page)
    page.check("[data-auto-submit]")
    page.locator("[data-item]").focus()
    page.keyboard.down("4")
    wait_for_another(page, item)
    page.keyboard.down("4")  # repeats
    page.keyboard.down("4")
    page.keyboard.up("4")
    assert page.locator(CHOSEN).count() == 0
    assert len(eventually(asked.ratings)) == 1


def test_keys_send_nothing_on_an_item_that_another_rater_holds(visit, transactional_db):
    asked = elsewhere(lambda: asking("stars", lease_s=3))
    window = visit(asked.bob)
    watched = Watched(window, "/rate/")
    page = watched.page
    page.wait_for_selector("[data-item]")
    item = item_on(page)
    keys = page.evaluate(RATING_KEYS)
    slot = int(page.locator("[data-item]").get_attribute("data-slot"))
    Slot.objects.filter(pk=slot).update(rater=asked.people["alice"], fence=99)
    page.get_by_text("Another rater has this item now").wait_for()
    for key in (*keys, *"0123456789"):
        window.press(key)
        assert page.locator("dialog[open]").count() == 0, key
        window.press("Escape")
    assert item_on(page) == item and watched.sent == [] and asked.ratings() == []


def test_rating_keys_do_nothing_when_no_items_are_left(visit, transactional_db):
    asked = elsewhere(lambda: asking("stars", groups=1, size=2))
    Slot.objects.update(state="closed")
    window = visit(asked.bob)
    watched = Watched(window, f"/rate/?run={asked.run.pk}")
    page = watched.page
    page.locator("[data-queue-end]").wait_for()
    window.press(*(key for key in page.evaluate(RATING_KEYS) if key != "g"), *"0123456789")
    assert page.locator("dialog[open]").count() == 0 and watched.is_unmoved()
    window.press("g")
    page.locator("[data-guide] h2").wait_for()
    window.press("Escape")
    assert page.locator("[data-guide]").is_hidden() and window.complaints == []


def test_keys_in_the_shortcut_dialog_of_an_arena_cast_no_vote(visit, transactional_db):
    arena, cast = elsewhere(open_arena)
    window = visit(cast["bob"])
    watched = Watched(window, reverse("arena-judge", args=[arena.pk]))
    watched.page.wait_for_selector("[data-pair]")
    window.press("?")
    watched.press_all()
    assert watched.page.locator(f"{SHEET}[open]").count() == 1 and watched.is_unmoved()
    window.press("Escape")
    pair = watched.page.locator("[data-pair]").get_attribute("data-pair")
    watched.page.keyboard.down("a")
    watched.page.wait_for_selector(f"[data-pair]:not([data-pair='{pair}'])")
    watched.page.keyboard.down("a")  # repeats
    watched.page.keyboard.up("a")
    assert "1 total" in watched.page.locator("[data-counts]").inner_text()
