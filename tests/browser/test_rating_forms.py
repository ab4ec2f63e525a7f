"""Every rating form, by keyboard only, from the page to a row in PostgreSQL."""

import pytest

from apps.feedback.models import Demonstration, Rating, Skip
from tests.browser.conftest import DESKTOP, PHONE
from tests.browser.rating import PARCEL, asking, close_held
from tests.keeping import elsewhere

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def rate(visit, transactional_db, eventually):
    """Return `rate(form, *keys)`, which presses these keys on the first item of a run with this
    form, and returns run, page and rating.
    """

    def decide(form: str, *keys: str, **people: object):
        asked = elsewhere(lambda: asking(form, **people))
        window = visit(asked.bob)
        page = window.open("/rate/")
        page.wait_for_selector(f"[data-form={form}]")
        members = [
            int(pk) for pk in page.locator("[data-item]").get_attribute("data-members").split(",")
        ]
        window.press(*keys)
        [rating] = eventually(asked.ratings)
        assert rating.form == form and rating.members == members and window.complaints == []
        return asked, page, rating

    return decide


@pytest.mark.parametrize(("key", "up"), [("1", False), ("2", True)])
def test_thumbs_are_rated_by_keys(rate, key, up):
    assert rate("thumbs", key, "Enter")[2].answer == {"up": up}


def test_stars_are_stored_with_their_duration(rate):
    _, _, rating = rate("stars", "2", "4", "Enter")
    assert [made.reward.value for made in rating.rating_rewards.all()] == [0.75]
    assert (
        rating.answer == {"stars": 4}
        and rating.changes == 2
        and 0 < rating.seconds < 60
        and rating.first_key_ms is not None
    )


@pytest.mark.parametrize(
    ("keys", "answer"),
    [
        (["a"], {"preference": -1}),
        (["a", "a"], {"preference": -2}),
        (["a", "b", "b", "b"], {"preference": 3}),
        (["t"], {"preference": 0}),
        (["x"], {"both_bad": True}),
        (["7"], {"preference": 3}),
        (["ArrowRight", "ArrowRight"], {"preference": 2}),
    ],
)
def test_pairs_are_rated_by_keys(rate, keys, answer):
    _, _, rating = rate("pairwise", *keys, "Enter")
    assert rating.answer == answer and len(rating.shown) == 2


def test_words_that_differ_in_a_pair_are_marked_and_counted(rate):
    texts = ("Wait *a* day.", "Wait *two* days.")
    _, page, rating = rate("pairwise", "d", "a", "Enter", texts=texts, size=2)
    page.wait_for_selector(".differs")  # stays on for the next pair
    marked = sorted(page.locator(".differs").all_inner_texts())
    assert marked == ["a", "day.", "days.", "two"]
    assert (
        page.locator("[data-differences-summary]").inner_text() == "2 words only in A, 2 only in B"
    )
    page.keyboard.press("d")
    assert page.locator(".differs").count() == 0 and rating.answer == {"preference": -1}


def test_ranking_by_digits_and_with_a_tie(rate):
    _, _, rating = rate("ranking", "3", "j", "t", "Enter")
    first, second, third, fourth = rating.shown
    # 3: the first goes to place three; j: move to the fourth; t: tie with the one above it.
    assert rating.answer == {
        "ranks": {str(second): 1, str(third): 2, str(first): 3, str(fourth): 3}
    }


def test_ranking_by_moving_a_reply_with_keys(rate):
    _, _, rating = rate("ranking", "j", " ", "k", " ", "Enter")
    first, second, third, fourth = rating.shown
    assert rating.answer == {
        "ranks": {str(second): 1, str(first): 2, str(third): 3, str(fourth): 4}
    }


def test_unchanged_ranking_needs_confirmation(visit, transactional_db, eventually):
    asked = elsewhere(lambda: asking("ranking"))
    window = visit(asked.bob)
    page = window.open("/rate/")
    page.wait_for_selector("[data-form=ranking]")
    window.press("Enter")
    page.get_by_text("haven’t changed the order").wait_for()
    window.press("Enter")
    [rating] = eventually(asked.ratings)
    assert rating.answer == {
        "ranks": {str(rollout): place for place, rollout in enumerate(rating.shown, start=1)}
    }


def test_ranking_by_dragging(visit, transactional_db, eventually):
    asked = elsewhere(lambda: asking("ranking"))
    window = visit(asked.bob)
    page = window.open("/rate/")
    rows = page.locator("[data-ranked] > li")
    rows.nth(3).wait_for()
    handle = rows.nth(3).locator("[data-handle]").bounding_box()
    target = rows.nth(0).bounding_box()
    page.mouse.move(handle["x"] + 8, handle["y"] + 8)
    page.mouse.down()
    page.mouse.move(handle["x"] + 8, target["y"] + 4, steps=24)
    page.mouse.up()
    page.keyboard.press("Enter")
    [rating] = eventually(asked.ratings)
    assert rating.answer["ranks"][str(rating.shown[3])] == 1


def test_best_and_worst_by_digits(rate):
    _, _, rating = rate("best_worst", "3", "1", "Enter")
    assert rating.answer == {"best": rating.shown[2], "worst": rating.shown[0]}


def test_best_and_worst_are_chosen_for_the_focused_reply(rate):
    _, _, rating = rate("best_worst", "j", "b", "j", "w", "Enter")
    assert rating.answer == {"best": rating.shown[1], "worst": rating.shown[2]}


def test_rubric_keys_move_from_scale_to_scale(rate):
    _, _, rating = rate("rubric", "4", "0", "2", "Enter")
    assert rating.answer == {"scales": {"polite": 4, "right": 0, "leaning": -1}}


def test_incomplete_rubric_lists_the_missing_scales(visit, transactional_db):
    asked = elsewhere(lambda: asking("rubric"))
    window = visit(asked.bob)
    page = window.open("/rate/")
    page.wait_for_selector("[data-form=rubric]")
    window.press("5", "Enter")
    page.get_by_text("Not rated yet: right, leaning.").wait_for()
    assert asked.ratings() == []


def test_turns_are_marked_in_order(rate):
    _, _, rating = rate("turns", "3", "1", "2", "Enter")
    assert rating.answer == {"marks": {"0": 1, "1": -1, "2": 0}}


def test_first_wrong_turn_is_marked(rate):
    assert rate("turns", "3", "x", "Enter")[2].answer == {"first_error": 1, "of": 3}


def test_no_wrong_turn_is_marked(rate):
    assert rate("turns", "n", "Enter")[2].answer == {"first_error": None, "of": 3}


def test_spans_by_keyboard_with_a_note(visit, transactional_db, eventually):
    asked = elsewhere(lambda: asking("spans", texts=("Aé 👋🏽 no\r\nblame for us",)))
    window = visit(asked.bob)
    page = window.open("/rate/")
    page.wait_for_selector("[data-form=spans]")
    window.press("j", "j", " ", "j", " ")  # from the third word to the fourth
    page.keyboard.type("unkind; 5 s?")
    window.press("Enter")  # leaves the note
    window.press("Enter")
    [rating] = eventually(asked.ratings)
    [span] = rating.answer["spans"]
    text = rating.rollout.text
    assert (
        text[span["start"] : span["end"]].split() == ["no", "blame"]
        and span["note"] == "unkind; 5 s?"
    )


def test_spans_by_pointer(visit, transactional_db, eventually):
    asked = elsewhere(lambda: asking("spans", texts=("One two three four",)))
    window = visit(asked.bob)
    page = window.open("/rate/")
    words = page.locator("[data-spantext] [data-start]")
    words.nth(3).wait_for()
    first = words.nth(1).bounding_box()
    last = words.nth(2).bounding_box()
    page.mouse.move(first["x"] + 2, first["y"] + first["height"] / 2)
    page.mouse.down()
    page.mouse.move(last["x"] + last["width"] - 2, last["y"] + last["height"] / 2, steps=6)
    page.mouse.up()
    page.wait_for_selector(".spanlist li")
    window.press("Enter", "Enter")
    [rating] = eventually(asked.ratings)
    assert rating.answer == {"spans": [{"start": 4, "end": 13, "note": ""}]}


def test_critique_is_sent_from_the_text_field(visit, transactional_db, eventually):
    asked = elsewhere(lambda: asking("critique"))
    window = visit(asked.bob)
    page = window.open("/rate/")
    page.wait_for_selector("[data-form=critique]")
    page.keyboard.type("It blames 1 person, and says so.")
    window.press("Control+Enter")
    [rating] = eventually(asked.ratings)
    assert (rating.answer, rating.critique) == ({}, "It blames 1 person, and says so.")


def test_rewrite_shows_the_changes_and_becomes_a_demonstration(visit, transactional_db, eventually):
    asked = elsewhere(lambda: asking("rewrite", texts=("Not our fault. Wait for it.",)))
    window = visit(asked.bob)
    page = window.open("/rate/")
    page.wait_for_selector("[data-form=rewrite]")
    window.press("Control+a")
    page.keyboard.type("Not your fault. Wait for us.")
    difference = page.locator("[data-difference]")
    assert [difference.locator(kind).all_inner_texts() for kind in ("del", "ins")] == [
        ["our", "it."],
        ["your", "us."],
    ]
    window.press("Control+Enter")
    [rating] = eventually(asked.ratings)
    assert rating.answer == {"text": "Not your fault. Wait for us."}
    assert Demonstration.objects.get(author=asked.bob).answer == "Not your fault. Wait for us."


def test_reply_is_rewritten_in_addition_to_its_stars(visit, transactional_db, eventually):
    asked = elsewhere(lambda: asking("stars", texts=("Not our fault.",)))
    window = visit(asked.bob)
    page = window.open("/rate/")
    page.wait_for_selector("[data-form=stars]")
    window.press("e")
    page.wait_for_selector("[data-rewrite-box] textarea:focus")
    window.press("Control+a")
    page.keyboard.type("It is our fault.")
    window.press("Control+Enter")
    page.wait_for_selector("[data-rewrite-box]", state="detached")
    window.press("1", "Enter")
    ratings = eventually(lambda: len(asked.ratings()) == 2 and asked.ratings())
    assert [(rating.form, rating.answer) for rating in ratings] == [
        ("rewrite", {"text": "It is our fault."}),
        ("stars", {"stars": 1}),
    ]


def test_critique_can_accompany_a_rating(visit, transactional_db, eventually):
    asked = elsewhere(lambda: asking("stars"))
    window = visit(asked.bob)
    page = window.open("/rate/")
    page.wait_for_selector("[data-form=stars]")
    window.press("4", "c")
    page.keyboard.type("warm, but 2 days late")
    window.press("Escape", "Enter")
    [rating] = eventually(asked.ratings)
    assert (rating.answer, rating.critique) == ({"stars": 4}, "warm, but 2 days late")


def test_flag_stores_its_reason_and_gives_no_reward(visit, transactional_db, eventually):
    asked = elsewhere(lambda: asking("stars"))
    window = visit(asked.bob)
    page = window.open("/rate/")
    page.wait_for_selector("[data-form=stars]")
    window.press("f", "2")
    [rating] = eventually(asked.ratings)
    assert (rating.form, rating.answer) == ("flag", {"reason": "Not readable"})
    assert [made.reward.value for made in rating.rating_rewards.all()] == [None]
    page.wait_for_selector("[data-form=stars]")


def test_focused_reply_of_several_is_flagged(visit, transactional_db, eventually):
    asked = elsewhere(lambda: asking("ranking"))
    window = visit(asked.bob)
    page = window.open("/rate/")
    page.wait_for_selector("[data-form=ranking]")
    window.press("f", "2")
    [rating] = eventually(asked.ratings)
    assert rating.form == "flag" and rating.answer["rollout"] in rating.shown
    assert [made.reward.rollout_id for made in rating.rating_rewards.all()] == [
        rating.answer["rollout"]
    ]


def test_skip_stores_its_reason_and_the_item_does_not_return(visit, transactional_db, eventually):
    asked = elsewhere(lambda: asking("stars", groups=1, size=2))
    window = visit(asked.bob)
    page = window.open("/rate/")
    page.wait_for_selector("[data-form=stars]")
    item = page.locator("[data-item]").get_attribute("data-item")
    window.press("s")
    page.wait_for_selector("dialog[open]")
    page.fill("#skip-words", "I know the writer")
    window.press("Enter")
    page.wait_for_selector(f"[data-item]:not([data-item='{item}'])")
    skip = eventually(lambda: Skip.objects.filter(rater=asked.bob).first())
    assert (skip.item_id, skip.reason) == (int(item), "I know the writer")
    window.press("3", "Enter")
    page.wait_for_selector("[data-queue-end]")


@pytest.mark.parametrize("viewport", [DESKTOP, PHONE])
def test_no_rating_form_is_wider_than_the_screen(visit, transactional_db, viewport):
    for place, form in enumerate(
        ("pairwise", "ranking", "best_worst", "rubric", "turns", "spans", "rewrite")
    ):
        asked = elsewhere(
            lambda form=form, place=place: asking(
                form, slug=f"tone-{place}", groups=1, texts=(PARCEL[3] + " x" * 30 + "y" * 400,)
            )
        )
        page = visit(asked.bob, viewport=viewport).open(f"/rate/?run={asked.run.pk}")
        page.wait_for_selector(f"[data-form={form}]")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), form
        page.context.close()
        elsewhere(close_held)
    assert Rating.objects.count() == 0
