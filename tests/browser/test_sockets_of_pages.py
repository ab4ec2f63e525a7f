"""The web sockets of pages: one connection after a restored page, patience after a refusal, replies
whose chunks were lost, and no requests for replies that have no place in the grid.
"""

import pytest
import redis
from django.conf import settings
from django.urls import reverse

from apps.streaming.chunks import rollout_key, topic_key
from tests.browser.speaking import Speaker

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
SAID = "I am very sorry about the parcel."
LEAVE = "() => dispatchEvent(new PageTransitionEvent('pagehide', {persisted: true}))"
COME_BACK = "() => dispatchEvent(new PageTransitionEvent('pageshow', {persisted: true}))"
SHOW_ONLY = """(rollout) => {
    const grid = document.querySelector("[data-live-grid]");
    grid.dataset.maxCards = 1;
    for (const card of grid.querySelectorAll(".rollout-card"))
        if (card.id !== `card-${rollout}`) card.remove();
}"""
OPEN_MOST = """async (path) => {
    window.sockets = Array.from({length: 16}, () => new WebSocket(path));
    const first = (socket) => new Promise((heard) => (socket.onmessage = heard));
    await Promise.all(window.sockets.map(first));
}"""


def state_is(page, state: str) -> None:
    page.wait_for_selector(f"[data-connection][data-state={state}]")


def test_restored_page_shows_each_new_word_once(visit, seeded):
    speaker = Speaker(seeded["run"], SAID)
    window = visit(seeded["alice"])
    window.page.clock.install()
    opened = []
    window.page.on("websocket", lambda socket: opened.append(socket))
    page = window.open(f"/live/{speaker.rollout.pk}/")
    state_is(page, "live")
    page.evaluate(LEAVE)
    state_is(page, "offline")
    page.evaluate(COME_BACK)
    state_is(page, "live")
    page.clock.run_for(2_000)  # longer than the first delay of a reconnection
    speaker.say("Afterwards.")
    text = page.locator("[data-turns] .assistant .words").last
    text.get_by_text("Afterwards.").wait_for()
    assert text.inner_text().split() == [*SAID.split(), "Afterwards."]
    assert len(opened) == 2


def test_page_that_connects_before_it_is_restored_has_one_connection(visit, seeded):
    speaker = Speaker(seeded["run"], SAID)
    window = visit(seeded["alice"])
    opened = []
    window.page.on("websocket", lambda socket: opened.append(socket))
    page = window.open(f"/live/{speaker.rollout.pk}/")
    state_is(page, "live")
    page.evaluate(LEAVE)
    state_is(page, "offline")
    state_is(page, "live")  # connected by the timer
    page.evaluate(COME_BACK)
    speaker.say("Afterwards.")
    text = page.locator("[data-turns] .assistant .words").last
    text.get_by_text("Afterwards.").wait_for()
    page.wait_for_load_state("networkidle")
    assert text.inner_text().split() == [*SAID.split(), "Afterwards."]
    assert [socket.is_closed() for socket in opened].count(False) == 1


def test_page_connects_less_often_after_each_refusal(visit, seeded):
    run = seeded["run"]
    window = visit(seeded["alice"])
    full = window.page.context.new_page()
    full.goto(f"{window.site}{reverse('help')}")
    full.evaluate(OPEN_MOST, f"/ws/events/?topic={run.topic_id}")
    window.page.clock.install()
    opened = []
    window.page.on("websocket", lambda socket: opened.append(socket))
    page = window.open(reverse("run", args=["lab", run.slug]))
    for _ in range(20):
        page.clock.run_for(500)
        state_is(page, "offline")
    assert 2 <= len(opened) <= 7


def test_reply_without_a_place_waits_and_then_shows_its_whole_text(visit, seeded):
    speaker = Speaker(seeded["run"], SAID)
    window = visit(seeded["alice"])
    page = window.open(f"/live/?run={seeded['run'].pk}")
    page.locator(f"#card-{speaker.rollout.pk}").get_by_text("parcel.").wait_for()
    page.wait_for_load_state("networkidle")
    page.evaluate(SHOW_ONLY, speaker.rollout.pk)
    other = speaker.group.rollouts.exclude(pk=speaker.rollout.pk).first().pk
    fetched = len(window.fetched)
    speaker.writer.started(other, speaker.group.pk, "", speaker.run.published_version)
    speak(speaker, other, "The beginning, ")
    speaker.say("More.")
    page.locator(f"#card-{speaker.rollout.pk}").get_by_text("More.").wait_for()
    assert [url for url in window.fetched[fetched:] if "/live/cards/" in url] == []
    page.evaluate("() => (document.querySelector('[data-live-grid]').dataset.maxCards = 2)")
    speak(speaker, other, "and the end.", at=1)
    page.locator(f"#card-{other}").get_by_text("The beginning, and the end.").wait_for()


GAP = "[text missing here until the reply is complete]"


def lose_stream(page, speaker: Speaker) -> None:
    """Delete the reply's chunks, one of which the page has not seen, while it is disconnected."""
    page.evaluate(LEAVE)
    state_is(page, "offline")
    speaker.say("Meanwhile.")
    with redis.Redis.from_url(settings.REDIS_URL) as client:
        client.delete(rollout_key(speaker.rollout.pk))
    speaker.say("Later.")
    page.evaluate(COME_BACK)
    state_is(page, "live")


def test_card_keeps_the_beginning_of_a_reply_whose_chunks_were_lost(visit, seeded):
    speaker = Speaker(seeded["run"], SAID)
    page = visit(seeded["alice"]).open(f"/live/?run={seeded['run'].pk}")
    reply = page.locator(f"#card-{speaker.rollout.pk} [data-reply-text]")
    reply.get_by_text("parcel.").wait_for()
    lose_stream(page, speaker)
    reply.get_by_text("Later.").wait_for()
    page.wait_for_load_state("networkidle")
    assert reply.inner_text().split() == f"{SAID} {GAP} Later.".split()
    speaker.end()
    whole = page.locator(f"#card-{speaker.rollout.pk}[data-state=finished] [data-reply-text]")
    whole.get_by_text("Meanwhile.").wait_for()
    assert whole.inner_text().split() == f"{SAID} Meanwhile. Later.".split()


def test_turn_whose_beginning_was_lost_can_not_be_edited(visit, seeded):
    speaker = Speaker(seeded["run"], SAID)
    with redis.Redis.from_url(settings.REDIS_URL) as client:
        client.delete(rollout_key(speaker.rollout.pk))
    speaker.say("Later.")
    window = visit(seeded["alice"])
    page = window.open(f"/live/{speaker.rollout.pk}/")
    page.locator("[data-turns]").get_by_text("Later.").wait_for()
    window.press("e")
    page.get_by_text("you can’t edit it").wait_for()
    assert page.locator("textarea").is_hidden()
    assert page.locator("[data-turns] .gap").inner_text().strip() == GAP


def test_reply_that_is_no_longer_streamed_is_shown_when_it_is_complete(visit, seeded):
    speaker = Speaker(seeded["run"], SAID)
    with redis.Redis.from_url(settings.REDIS_URL) as client:
        client.delete(rollout_key(speaker.rollout.pk), topic_key(speaker.run.topic_id))
    page = visit(seeded["alice"]).open(f"/live/{speaker.rollout.pk}/")
    state_is(page, "live")
    speaker.finish()
    page.get_by_text("complete,").wait_for()
    page.locator("[data-turns]").get_by_text("parcel.").wait_for()


def speak(speaker: Speaker, rollout: int, text: str, at: int = 0) -> None:
    """Stream one token of another rollout of the group."""
    speaker.writer.add(rollout, at, text, [-0.1], speaker.run.published_version)
    speaker.writer.flush(at_once=True)
