"""One rollout followed large: token by token, rated while it streams, stopped, edited and typed by
those who may.
"""

import os
from pathlib import Path

import pytest

from apps.feedback.models import Intervention, Rating
from tests.browser.conftest import PHONE
from tests.browser.speaking import Speaker, finished, obeying

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
SAID = "I am very sorry about the parcel and will trace it for you right now."


def picture(page, name: str) -> None:
    """For looking at, where PICTURES names a folder."""
    if folder := os.environ.get("PICTURES"):
        page.screenshot(path=str(Path(folder) / f"{name}.png"))


@pytest.fixture
def speaker(seeded) -> Speaker:
    return Speaker(seeded["run"], SAID)


def opened(visit, user, speaker, **options):
    window = visit(user, **options)
    page = window.open(f"/live/{speaker.rollout.pk}/")
    page.locator("[data-turns]").get_by_text("right now.").wait_for()
    return window, page


def said(page) -> str:
    return page.locator("[data-turns] .assistant .words").last.inner_text().strip()


def test_a_card_is_opened_large_and_left_again_by_keys(visit, seeded, speaker):
    window = visit(seeded["alice"])
    page = window.open(f"/live/?run={seeded['run'].pk}")
    card = page.locator(f"#card-{speaker.rollout.pk}")
    card.get_by_text("right now.").wait_for()
    card.focus()
    picture(page, "wall")
    window.press("o")
    page.wait_for_url(f"**/live/{speaker.rollout.pk}/")
    page.locator("[data-turns]").get_by_text("right now.").wait_for()
    assert said(page) == SAID
    window.press("Escape")
    page.wait_for_url("**/live/?run=*")
    assert window.complaints == []


def test_each_token_is_shaded_by_its_own_probability(visit, seeded, speaker):
    _, page = opened(visit, seeded["alice"], speaker)
    shades = page.locator("[data-turns] .assistant .words span[class^=p]")
    assert shades.count() == len(SAID.split())
    assert {shades.nth(n).get_attribute("class") for n in range(shades.count())} == {"p0", "p9"}


def test_a_blind_rater_sees_words_without_shades_or_version_and_no_acts(visit, seeded, speaker):
    _, page = opened(visit, seeded["bob"], speaker)
    assert said(page) == SAID and page.locator("[data-turns] [class^=p]").count() == 0
    assert (
        page.locator("[data-version]").inner_text() == ""
        and page.locator("[data-act]").count() == 0
    )
    page.keyboard.press("x")
    page.keyboard.press("e")
    assert not Intervention.objects.exists()


def test_stars_pressed_while_it_streams_are_sent_when_it_ends(visit, seeded, speaker, eventually):
    _, page = opened(visit, seeded["bob"], speaker)
    page.keyboard.press("4")
    page.get_by_text("sent when the reply is complete").wait_for()
    speaker.end()
    eventually(
        lambda: Rating.objects.filter(
            rollout=speaker.rollout, rater=seeded["bob"], answer={"stars": 4}
        ).exists()
    )
    page.locator(".chip.human").wait_for()


def test_stars_pressed_while_it_streams_outlive_the_page_they_were_pressed_on(
    visit, seeded, speaker, eventually
):
    window, page = opened(visit, seeded["bob"], speaker)
    page.keyboard.press("4")
    page.get_by_text("sent when the reply is complete").wait_for()
    window.open("/runs/")
    speaker.end()
    window.open(f"/rollouts/{speaker.rollout.pk}/")
    eventually(
        lambda: Rating.objects.filter(
            rollout=speaker.rollout, rater=seeded["bob"], answer={"stars": 4}
        ).exists()
    )


def test_it_is_stopped_by_a_key(visit, seeded, speaker):
    window, page = opened(visit, seeded["alice"], speaker)
    with obeying(speaker):
        window.press("x")
        page.locator("[data-status].good").wait_for()
        page.get_by_text("complete, stopped by a person").wait_for()
    assert page.locator("[data-acting]").is_hidden() and finished(speaker.rollout.pk)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_its_words_are_edited_and_it_goes_on_from_there(visit, seeded, speaker, scheme):
    window, page = opened(visit, seeded["alice"], speaker, scheme=scheme)
    with obeying(speaker):
        window.press("e")
        page.get_by_text("You are writing. The policy is paused.").wait_for()
        assert page.locator("textarea").input_value().strip() == SAID
        page.locator("textarea").fill("I am very sorry about your order")
        picture(page, f"editor-{scheme}")
        window.press("Control+Enter")
        page.locator("[data-status].good").wait_for()
        speaker.say(" and thank you.")
        page.locator("[data-turns]").get_by_text("thank you.").wait_for()
    assert said(page) == "I am very sorry about your order and thank you."
    assert page.locator("[data-turns] .typed").inner_text() == "your order"
    assert page.locator("[data-turns] .typed").get_attribute("title") == "Written by alice"
    assert page.locator("textarea").is_hidden() and window.complaints == []
    picture(page, f"edited-{scheme}")


def test_the_seat_is_taken_and_the_turn_ends_with_the_persons_words(visit, seeded, speaker):
    window, page = opened(visit, seeded["alice"], speaker)
    with obeying(speaker):
        window.press("t")
        page.keyboard.type("Thank you for writing.")
        window.press("Control+Enter")
        page.get_by_text("complete, typed by a person").wait_for()
    assert said(page) == "Thank you for writing."


def test_what_was_typed_outlives_a_reload_and_a_refusal(visit, seeded, speaker):
    window, page = opened(visit, seeded["alice"], speaker)
    with obeying(speaker, refusing="the tokens do not fit"):
        window.press("e")
        page.locator("textarea").fill("I am not")
        page.reload()
        page.wait_for_selector("textarea")
        assert page.locator("textarea").input_value() == "I am not"
        window.press("Control+Enter")
        page.get_by_text("the tokens do not fit").wait_for()
    assert page.locator("textarea").input_value() == "I am not"


def test_cancelling_lets_it_go_on_and_forgets_the_draft(visit, seeded, speaker, eventually):
    window, page = opened(visit, seeded["alice"], speaker)
    with obeying(speaker):
        window.press("e")
        page.get_by_text("You are writing").wait_for()
        window.press("Escape")
        eventually(lambda: Intervention.objects.filter(kind="free", state="done").exists())
        page.get_by_text("You are writing").wait_for(state="hidden")
    page.reload()
    page.locator("[data-turns]").get_by_text("right now.").wait_for()
    assert page.locator("textarea").is_hidden()


def test_words_typed_are_kept_when_the_server_does_not_answer(visit, seeded, speaker):
    window, page = opened(visit, seeded["alice"], speaker)
    with obeying(speaker):
        window.press("e")
        page.get_by_text("You are writing").wait_for()
        page.locator("textarea").fill("I am sure")
        page.context.set_offline(True)
        window.press("Control+Enter")
        page.get_by_text("The server doesn’t respond").wait_for()
        page.context.set_offline(False)
        window.press("Control+Enter")
        page.locator("[data-status].good").wait_for()
    assert Intervention.objects.filter(kind="edit").count() == 1


def test_another_watcher_sees_who_types_and_what(visit, seeded, speaker):
    _, page = opened(visit, seeded["bob"], speaker)
    speaker.writer.held(speaker.rollout.pk, "alice", 120)
    speaker.writer.flush(at_once=True)
    page.get_by_text("alice is writing. The policy is paused.").wait_for()
    speaker.edit("I am glad", "alice")
    page.locator("[data-turns] .typed[title='Written by alice']").wait_for()
    assert page.get_by_text("The policy is paused").is_hidden() and said(page) == "I am glad"


def test_a_dialogue_is_shown_turn_by_turn(visit, seeded, speaker):
    _, page = opened(visit, seeded["alice"], speaker)
    speaker.writer.turn(speaker.rollout.pk, speaker.next, 4, "And when?")
    speaker.next += 4
    speaker.say("By Friday.")
    page.get_by_text("By Friday.").wait_for()
    speaker.writer.edit(speaker.rollout.pk, 0, 3, len("I am very"), " glad 🙂", 2, "alice")
    speaker.writer.flush(at_once=True)
    page.get_by_text("glad 🙂").wait_for()
    assert said(page) == "I am very glad 🙂" and page.locator("[data-turns] .say").count() == 1


@pytest.mark.parametrize(("viewport", "scheme"), [(PHONE, "light"), (PHONE, "dark")])
def test_on_a_phone_nothing_scrolls_sideways(visit, seeded, speaker, viewport, scheme):
    window, page = opened(visit, seeded["alice"], speaker, viewport=viewport, scheme=scheme)
    picture(page, f"large-phone-{scheme}")
    with obeying(speaker):
        page.locator("[data-act=edit]").click()
        page.wait_for_selector("textarea")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        picture(page, f"editor-phone-{scheme}")
    assert window.complaints == []
