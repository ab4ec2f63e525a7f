"""The rating page around its forms: it shows ratings as saved at once and loses no text; undo,
offline, two windows, and a session that ends.
"""

import pytest
from django.contrib.sessions.models import Session

from apps.feedback.forms.words import MAX_TEXT_LENGTH
from apps.feedback.models import Item, Rating, Slot
from tests.browser.rating import asking
from tests.keeping import elsewhere

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
RELEASES_NOTHING = """() => {
    const send = window.fetch;
    window.fetch = (url, how) =>
        url.endsWith("/release/") ? new Promise(() => {}) : send(url, how);
}"""


@pytest.fixture
def begun(visit, transactional_db):
    """Return `begun(form)`, which returns a run, bob's window on its first item, and the page."""

    def begin(form: str = "stars", **how: object):
        asked = elsewhere(lambda: asking(form, **how))
        window = visit(asked.bob)
        page = window.open("/rate/")
        page.wait_for_selector("[data-item]")
        return asked, window, page

    return begin


def item_on(page) -> str:
    return page.locator("[data-item]").get_attribute("data-item")


def unsent(page) -> int:
    return page.evaluate(
        "() => Object.keys(localStorage).filter((key) => key.includes(':out:')).length"
    )


def wait_for_another(page, item: str) -> None:
    page.wait_for_selector(f"[data-item]:not([data-item='{item}'])")


def test_rating_is_shown_as_saved_and_the_next_item_appears_at_once(begun, eventually):
    asked, window, page = begun()
    first = item_on(page)
    window.press("4", "Enter")
    assert item_on(page) != first  # without a wait: it was preloaded
    assert "Saved: 4 stars." in page.locator("[data-status]").inner_text()
    page.get_by_text("1 today · 1 this session").wait_for()
    assert eventually(asked.ratings)[0].item_id == int(first)


def test_undo_withdraws_several_ratings_and_shows_each_rating(begun, eventually):
    asked, window, page = begun(groups=6, overlap=1)
    items = []
    for stars in "12345":
        items.append(item_on(page))
        window.press(stars, "Enter")
        wait_for_another(page, items[-1])
    eventually(lambda: len(asked.ratings()) == 5)
    for item, stars in zip(reversed(items), "54321", strict=True):
        window.press("z")
        page.wait_for_selector(f"[data-item='{item}']")
        assert page.locator("input:checked").get_attribute("value") == stars
    assert len(asked.ratings(is_withdrawn=True)) == 5 and asked.ratings(is_current=True) == []
    window.press("z")
    page.get_by_text("Nothing to undo").wait_for()


def test_withdrawn_rating_can_be_given_again(begun, eventually):
    asked, window, page = begun()
    item = item_on(page)
    window.press("1", "Enter")
    eventually(asked.ratings)
    window.press("z")
    page.wait_for_selector(f"[data-item='{item}']")
    window.press("5", "Enter")
    eventually(
        lambda: [rating.answer for rating in asked.ratings(is_current=True)] == [{"stars": 5}]
    )


def test_undo_works_after_a_reload(begun, eventually):
    asked, window, page = begun("best_worst")
    item = item_on(page)
    window.press("2", "1", "Enter")
    eventually(asked.ratings)
    page.reload()
    page.wait_for_selector("[data-item]")
    window.press("z")
    page.wait_for_selector(f"[data-item='{item}']")
    assert page.locator("input:checked").count() == 2


def test_ratings_given_offline_are_kept_and_sent_once(begun, eventually):
    asked, window, page = begun()
    page.context.set_offline(True)
    for stars in "345":
        window.press(stars, "Enter")
    page.get_by_text("3 ratings not sent yet").wait_for()
    page.get_by_text("Waiting for the server…").wait_for()
    page.context.set_offline(False)
    eventually(lambda: [rating.answer["stars"] for rating in asked.ratings()] == [3, 4, 5])
    page.wait_for_selector("[data-outbox]", state="hidden")
    page.wait_for_selector("[data-item]")


def test_empty_page_shows_that_it_waits_for_a_silent_server(begun, eventually):
    asked, window, page = begun()
    held = []
    falls_silent = False
    for address in ("**/rate/slots/*/", "**/rate/next/**"):
        page.route(address, lambda route: route.abort() if falls_silent else held.append(route))
    for stars in "345":
        window.press(stars, "Enter")
    page.get_by_text("Loading the next item…").wait_for()
    falls_silent = True
    for route in held:
        route.abort()
    page.get_by_text("Waiting for the server…").wait_for()
    page.unroute_all()
    eventually(lambda: [rating.answer["stars"] for rating in asked.ratings()] == [3, 4, 5])


def test_rating_is_stored_once_if_its_response_is_lost(begun, eventually):
    asked, window, page = begun()
    lost = []

    def swallow(route):
        if not lost and route.request.method == "POST":
            lost.append(route.fetch().status)  # the server has it; the browser gets no response
            route.abort()
        else:
            route.continue_()

    page.route("**/rate/slots/*/", swallow)
    window.press("2", "Enter")
    eventually(lambda: unsent(page) == 0 and lost)
    assert lost == [201] and len(asked.ratings()) == 1


def test_unsent_rating_survives_the_closing_of_its_window(begun, eventually):
    asked, window, page = begun()
    page.route("**/rate/slots/*/", lambda route: route.abort())
    window.press("2", "Enter")
    eventually(lambda: unsent(page))
    page.reload()
    page.wait_for_selector("[data-item]")
    assert asked.ratings() == [] and unsent(page) == 1
    page.unroute("**/rate/slots/*/")
    page.evaluate(
        """() => {
          for (const [key, kept] of Object.entries(localStorage)) {
            if (!key.includes(":out:")) continue;
            const old = { ...JSON.parse(kept), tab: "closed" };
            localStorage.setItem(key, JSON.stringify({ ...old, at: old.at - 60000 }));
          }
        }"""
    )
    page.reload()
    eventually(lambda: len(asked.ratings()) == 1)


def test_drafts_survive_a_reload_on_the_same_item(begun):
    _, window, page = begun("rubric")
    item = item_on(page)
    window.press("4", "2", "c")
    page.keyboard.type("half a though")
    page.reload()
    page.wait_for_selector(f"[data-item='{item}']")
    assert page.locator("input:checked").evaluate_all("(all) => all.map((one) => one.value)") == [
        "4",
        "2",
    ]
    assert page.locator("[data-critique]").input_value() == "half a though"


def test_unfinished_ranking_survives_a_reload(begun):
    _, window, page = begun("ranking")
    item = item_on(page)
    window.press("4", "k")
    order = page.locator("[data-ranked] > li").evaluate_all(
        "(all) => all.map((one) => one.dataset.rollout)"
    )
    page.reload()
    page.wait_for_selector(f"[data-item='{item}']")
    assert (
        page.locator("[data-ranked] > li").evaluate_all(
            "(all) => all.map((one) => one.dataset.rollout)"
        )
        == order
    )


def test_text_is_kept_when_the_session_ends_and_sent_after_login(begun, eventually):
    asked, window, page = begun()
    asked.bob.set_password("correct horse battery")
    item = item_on(page)
    window.press("5", "c")
    page.keyboard.type("kept while signed out")
    Session.objects.all().delete()
    asked.bob.save()
    window.press("Control+Enter")
    page.get_by_text("You are signed out.").wait_for()
    page.click("text=Log in")
    page.fill("#id_login", "bob")
    page.fill("#id_password", "correct horse battery")
    page.click("button.first")
    page.wait_for_url("**/rate/")
    [rating] = eventually(asked.ratings)
    assert (rating.item_id, rating.answer, rating.critique) == (
        int(item),
        {"stars": 5},
        "kept while signed out",
    )


def test_item_rated_in_two_windows_is_stored_once(begun, eventually):
    asked, window, page = begun(groups=1, size=2)
    other = page.context.new_page()
    other.goto(page.url)
    other.click("[data-reclaim-slots]")  # the first window holds all waiting items
    other.wait_for_selector("[data-item]")
    assert item_on(other) == item_on(page)
    other.keyboard.press("5")
    other.keyboard.press("Enter")
    [rating] = eventually(asked.ratings)
    page.bring_to_front()
    window.press("c")
    page.keyboard.type("words of the first window")
    window.press("Escape", "1", "Enter")
    page.wait_for_selector("[data-error]:not([hidden])")
    error = page.locator("[data-error]")
    assert "already rated" in error.inner_text()
    assert error.locator("textarea").input_value() == "words of the first window"
    assert [r.answer for r in asked.ratings(item=rating.item)] == [{"stars": 5}]


def test_reload_keeps_the_items_although_the_old_page_did_not_release_them(begun):
    _, _, page = begun(groups=1, size=2)
    item = item_on(page)
    page.evaluate(RELEASES_NOTHING)
    page.reload()
    page.wait_for_selector("[data-item], [data-queue-end]")
    assert page.locator("[data-item]").count() == 1 and item_on(page) == item


def test_lost_lease_is_reported_and_the_text_is_kept(begun):
    asked, window, page = begun(lease_s=3)
    slot = int(page.locator("[data-item]").get_attribute("data-slot"))
    window.press("c")
    page.keyboard.type("my words")
    Slot.objects.filter(pk=slot).update(rater=asked.people["alice"], fence=99)
    page.get_by_text("Another rater has this item now").wait_for()
    assert page.locator("[data-critique]").input_value() == "my words"
    assert page.locator("[data-rating-bar]").is_hidden()
    window.press("Escape", "4", "Enter")
    page.get_by_text("Another rater has this item now. Show the next item.").wait_for()
    page.click("text=Show next item")
    wait_for_another(page, str(Slot.objects.get(pk=slot).item_id))
    assert page.locator("[data-rating-bar]").is_visible() and not asked.ratings()


def test_lease_is_renewed_while_the_page_is_open(begun, eventually):
    _, _, page = begun(lease_s=3)
    slot = int(page.locator("[data-item]").get_attribute("data-slot"))
    before = Slot.objects.get(pk=slot).lease_until
    eventually(lambda: Slot.objects.get(pk=slot).lease_until > before)


def test_leaving_the_page_releases_its_items(begun, eventually):
    _asked, _, page = begun()
    eventually(lambda: Slot.objects.filter(state="held").count() == 3)
    page.goto(page.url.replace("/rate/", "/settings/"))
    eventually(lambda: not Slot.objects.filter(state="held").exists())
    assert Slot.objects.filter(state="open").count() == Slot.objects.count()


def test_critique_of_a_megabyte_is_refused_and_stays_in_its_field(begun):
    asked, window, page = begun()
    item = item_on(page)
    window.press("3", "c")
    page.locator("[data-critique]").fill("words " * 166_666)
    window.press("Control+Enter")
    page.get_by_text("999,996 characters; the maximum is 20,000").wait_for()
    assert item_on(page) == item and asked.ratings() == []
    assert page.locator("[data-critique]").evaluate("(box) => box.value.length") == 999_996
    page.locator("[data-critique]").fill("words " * (MAX_TEXT_LENGTH // 6))
    window.press("Control+Enter")
    wait_for_another(page, item)


def test_rating_refused_by_the_server_returns_with_its_text(begun):
    asked, window, page = begun()
    item = item_on(page)
    page.evaluate("document.querySelector('[data-item]').dataset.maxLength = 10000000")
    window.press("3", "c")
    page.locator("[data-critique]").fill("words " * 5_000)
    window.press("Control+Enter")
    page.get_by_text("30,000 characters").wait_for()
    assert item_on(page) == item and asked.ratings() == []
    assert page.locator("[data-critique]").evaluate("(box) => box.value.length") == 30_000


def test_rating_of_a_changed_item_version_is_refused(begun):
    asked, window, page = begun()
    page.evaluate("document.querySelector('[data-item]').dataset.version = 7")
    window.press("3", "Enter")
    page.get_by_text("This item was changed while you had it open").wait_for()
    assert asked.ratings() == []


def test_gold_item_shows_the_correct_rating_afterwards(begun):
    _asked, window, page = begun(gold={"rate": 0.0, "feedback": True})
    item = int(item_on(page))
    Item.objects.filter(pk=item).update(
        expected={"stars": 5}, purpose="gold", explanation="It says sorry and what is done."
    )
    window.press("1", "Enter")
    page.get_by_text(
        "The correct rating of this gold item: 5 of 5 stars. It says sorry and what is done."
    ).wait_for()
    page.get_by_text("gold items correct: 0 of 1").wait_for()


def test_end_of_the_queue_shows_the_effect_of_the_ratings(visit, seeded):
    run = seeded["run"]
    elsewhere(
        lambda: run.change_config(seeded["alice"], people={"blind": False})
    )  # a blind rater sees no curve of rewards
    window = visit(seeded["bob"])
    page = window.open("/rate/")
    for _ in range(60):
        page.wait_for_selector("[data-item], [data-queue-end]")
        if page.locator("[data-queue-end]").count():
            break
        item = item_on(page)
        window.press("4", "Enter")
        page.wait_for_selector(f"[data-item]:not([data-item='{item}']), [data-queue-end]")
    words = page.locator("[data-queue-end]").inner_text()
    mine = Rating.objects.filter(rater=seeded["bob"]).count()
    assert (
        f"You gave {mine} ratings in tone-7. They were used in " in words
        and "weight versions" in words
    )
    assert page.locator("[data-queue-end] circle").count() > 0 and window.complaints == []


def test_new_items_appear_on_a_waiting_page(begun):
    _asked, window, page = begun(groups=1, size=2)
    for _ in range(2):
        item = item_on(page)
        window.press("4", "Enter")
        page.wait_for_selector(f"[data-item]:not([data-item='{item}']), [data-queue-end]")
    page.wait_for_selector("[data-queue-end]")
    elsewhere(lambda: asking("thumbs", slug="tone-8"))
    page.wait_for_selector("[data-form=thumbs]")


@pytest.fixture
def empty_queue(visit, transactional_db, eventually):
    """Return bob's page after he rated the only item; its clock can be put forward."""
    asked = elsewhere(lambda: asking("thumbs", groups=1, size=2, per_group=1))
    window = visit(asked.bob)
    window.page.clock.install()
    page = window.open("/rate/")
    page.wait_for_selector("[data-item]")
    window.press("1", "Enter")
    eventually(asked.ratings)
    page.get_by_text("None of them has been used in training yet.").wait_for()
    return page


def put_clock_forward(page, interval: str) -> None:
    """Put the page's clock forward by one of its own intervals."""
    page.clock.fast_forward(int(page.locator("[data-rating-page]").get_attribute(interval)) + 1)


def test_an_empty_queue_shows_a_new_item_within_one_interval(empty_queue):
    elsewhere(lambda: asking("stars", slug="tone-8"))
    put_clock_forward(empty_queue, "data-poll-ms")
    empty_queue.wait_for_selector("[data-form=stars]")


def test_empty_queue_updates_the_outcome_of_the_ratings_within_one_interval(empty_queue):
    elsewhere(lambda: Rating.objects.update(is_late=True))
    put_clock_forward(empty_queue, "data-end-refresh-ms")
    empty_queue.get_by_text("1 arrived after its group was closed").wait_for()


def test_goal_and_its_progress_survive_a_reload(begun):
    _, window, page = begun()
    page.fill("[data-goal]", "4")
    page.keyboard.press("Tab")
    page.locator("[data-item]").focus()
    window.press("4", "Enter")
    bar = page.locator("[data-goal-bar]")
    assert bar.get_attribute("aria-valuenow") == "25"
    page.reload()
    page.wait_for_selector("[data-item]")
    assert (page.input_value("[data-goal]"), bar.get_attribute("aria-valuenow")) == ("4", "25")


def test_guidelines_can_be_read_beside_the_item(begun):
    _, window, page = begun(guidelines="Be **kind**. <img src=x onerror=window.pwned=1>")
    window.press("g")
    page.locator("[data-guide] strong").wait_for()
    window.press("4")
    assert page.locator("input:checked").get_attribute("value") == "4"
    window.press("Escape")
    assert (
        page.locator("[data-guide]").is_hidden()
        and page.evaluate("typeof window.pwned") == "undefined"
    )


def badge(page) -> str:
    return page.locator("[data-waiting-badge]").inner_text() if has_badge(page) else ""


def has_badge(page) -> bool:
    return page.locator("[data-waiting-badge]").is_visible()


def test_second_window_shows_the_items_of_the_first_and_takes_them_over(begun):
    asked, window, page = begun(groups=1, size=2)
    item = item_on(page)
    other = page.context.new_page()
    other.goto(page.url)
    other.get_by_role("heading", name="2 items open in another window").wait_for()
    assert badge(other) == "2"
    other.get_by_role("button", name="Rate them here").click()
    other.wait_for_selector(f"[data-item='{item}']")
    for _ in range(2):
        before = item_on(other)
        other.keyboard.press("4")
        other.keyboard.press("Enter")
        other.wait_for_selector(f"[data-item]:not([data-item='{before}']), [data-queue-end]")
    other.get_by_role("heading", name="All caught up").wait_for()
    assert not has_badge(other) and len(asked.ratings()) == 2 and window.complaints == []


def test_page_of_one_run_shows_only_that_run_after_another_run(begun):
    asked, window, page = begun(groups=2)
    second = elsewhere(lambda: asking("thumbs", slug="tone-8", groups=1, size=2))
    page.evaluate(RELEASES_NOTHING)
    page = window.open(f"/rate/?run={second.run.pk}")
    for _ in range(2):
        page.wait_for_selector("[data-form=thumbs]")
        before = item_on(page)
        window.press("1", "Enter")
        page.wait_for_selector(f"[data-item]:not([data-item='{before}']), [data-queue-end]")
    page.get_by_role("heading", name="Nothing to rate in tone-8").wait_for()
    assert badge(page) == str(Slot.objects.filter(run=asked.run, state="open").count())
    page.get_by_role("link", name="Rate them").click()
    page.wait_for_selector("[data-form=stars]")
    assert window.complaints == []
