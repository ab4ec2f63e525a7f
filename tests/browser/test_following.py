"""One rollout in full view: shown token by token, rated while it streams, stopped, edited and typed
by users with that right.
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
    """Save a screenshot if PICTURES is set to a folder."""
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


def test_card_is_opened_in_full_view_and_closed_by_keys(visit, seeded, speaker):
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


def test_blind_rater_sees_text_without_shades_version_or_actions(visit, seeded, speaker):
    _, page = opened(visit, seeded["bob"], speaker)
    assert said(page) == SAID and page.locator("[data-turns] [class^=p]").count() == 0
    assert (
        page.locator("[data-version]").inner_text() == ""
        and page.locator("[data-act]").count() == 0
    )
    page.keyboard.press("x")
    page.keyboard.press("e")
    assert not Intervention.objects.exists()


def test_stars_pressed_during_streaming_are_sent_when_the_reply_ends(
    visit, seeded, speaker, eventually
):
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


def test_stars_pressed_during_streaming_are_sent_after_leaving_the_page(
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


def test_rollout_is_stopped_by_a_key(visit, seeded, speaker):
    window, page = opened(visit, seeded["alice"], speaker)
    with obeying(speaker):
        window.press("x")
        page.locator("[data-status].good").wait_for()
        page.get_by_text("complete, stopped by a person").wait_for()
    assert page.locator("[data-reply-actions]").is_hidden() and finished(speaker.rollout.pk)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_reply_is_edited_and_the_policy_continues_from_there(visit, seeded, speaker, scheme):
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
    assert page.locator("[data-turns] .human-text").inner_text() == "your order"
    assert page.locator("[data-turns] .human-text").get_attribute("title") == "Written by alice"
    assert page.locator("textarea").is_hidden() and window.complaints == []
    picture(page, f"edited-{scheme}")


def test_user_types_the_reply_and_the_turn_ends_with_it(visit, seeded, speaker):
    window, page = opened(visit, seeded["alice"], speaker)
    with obeying(speaker):
        window.press("t")
        page.keyboard.type("Thank you for writing.")
        window.press("Control+Enter")
        page.get_by_text("complete, typed by a person").wait_for()
    assert said(page) == "Thank you for writing."


def test_draft_survives_a_reload_and_a_refusal(visit, seeded, speaker):
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


def test_cancelling_resumes_the_policy_and_deletes_the_draft(visit, seeded, speaker, eventually):
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


def test_text_is_kept_when_the_editor_is_closed_by_escape(visit, seeded, speaker, eventually):
    window, page = opened(visit, seeded["alice"], speaker)
    with obeying(speaker):
        window.press("e")
        page.get_by_text("You are writing").wait_for()
        page.locator("textarea").fill("I am not lost")
        window.press("Escape")
        eventually(lambda: Intervention.objects.filter(kind="free", state="done").exists())
        page.reload()
        page.locator("[data-turns]").get_by_text("right now.").wait_for()
        assert page.locator("textarea").is_hidden()
        page.get_by_role("button", name="Continue writing").click()
        assert page.locator("textarea").input_value() == "I am not lost"
        window.press("Control+Enter")
        page.locator("[data-status].good").wait_for()
    assert page.locator("[data-kept-text]").is_hidden() and said(page) == "I am not lost"


def test_unsent_text_can_be_read_after_the_reply_has_ended(visit, seeded, speaker):
    window, page = opened(visit, seeded["alice"], speaker)
    with obeying(speaker):
        window.press("t")
        page.get_by_text("You are writing").wait_for()
        page.keyboard.type("My words")
    speaker.end()
    page.get_by_text("The reply has ended in the meantime.").wait_for()
    page.reload()
    page.get_by_role("button", name="Continue writing").click()
    assert page.locator("textarea").input_value() == "My words"
    window.press("Escape")
    page.get_by_role("button", name="Discard").click()
    page.reload()
    page.locator("[data-turns]").get_by_text("right now.").wait_for()
    assert page.locator("[data-kept-text]").is_hidden()


def test_typed_text_is_kept_when_the_server_does_not_respond(visit, seeded, speaker):
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


def test_edit_is_sent_while_the_browsers_storage_is_full(visit, seeded, speaker):
    window, page = opened(visit, seeded["alice"], speaker)
    page.evaluate("() => { Storage.prototype.setItem = () => { throw new Error('full'); }; }")
    with obeying(speaker):
        window.press("e")
        page.get_by_text("You are writing").wait_for()
        page.locator("textarea").fill("I am sure")
        window.press("Control+Enter")
        page.locator("[data-status].good").wait_for()
    assert Intervention.objects.filter(kind="edit").count() == 1


def test_other_viewers_see_who_is_writing_and_the_text(visit, seeded, speaker):
    _, page = opened(visit, seeded["bob"], speaker)
    speaker.writer.held(speaker.rollout.pk, "alice", 120)
    speaker.writer.flush(at_once=True)
    page.get_by_text("alice is writing. The policy is paused.").wait_for()
    speaker.edit("I am glad", "alice")
    page.locator("[data-turns] .human-text[title='Written by alice']").wait_for()
    assert page.get_by_text("The policy is paused").is_hidden() and said(page) == "I am glad"


def test_dialogue_is_shown_turn_by_turn(visit, seeded, speaker):
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
def test_page_does_not_scroll_sideways_on_a_phone(visit, seeded, speaker, viewport, scheme):
    window, page = opened(visit, seeded["alice"], speaker, viewport=viewport, scheme=scheme)
    picture(page, f"large-phone-{scheme}")
    with obeying(speaker):
        page.locator("[data-act=edit]").click()
        page.wait_for_selector("textarea")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        picture(page, f"editor-phone-{scheme}")
    assert window.complaints == []
