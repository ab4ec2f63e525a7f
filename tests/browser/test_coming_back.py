"""A page that loses its server or network, or sleeps, shows every token once when it is back."""

from collections.abc import Callable, Iterator

import pytest
from django.conf import settings
from django.test import Client

from tests.browser.conftest import DESKTOP, PATIENCE_MS, Visit
from tests.browser.speaking import Speaker
from tests.web_process import WebProcess, Wire

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def web(transactional_db) -> Iterator[WebProcess]:
    process = WebProcess()
    process.start()
    yield process
    process.kill()


@pytest.fixture
def visit_at(chromium) -> Iterator[Callable]:
    """Return `visit_at(user, address)`, which opens a window at this address."""
    contexts = []

    def begin(user, address: str) -> Visit:
        context = chromium.new_context(viewport=DESKTOP)
        context.set_default_timeout(PATIENCE_MS)
        contexts.append(context)
        client = Client()
        client.force_login(user)
        name = settings.SESSION_COOKIE_NAME
        context.add_cookies([{"name": name, "value": client.cookies[name].value, "url": address}])
        return Visit(context.new_page(), address)

    yield begin
    for context in contexts:
        context.close()


def words(page, place: str) -> str:
    return page.locator(place).inner_text().strip()


LARGE = "[data-turns]"


def test_edit_is_shown_once_on_both_pages_after_a_server_restart(web, visit_at, seeded):
    speaker = Speaker(seeded["run"], "I am sorry about this and")
    large = visit_at(seeded["alice"], web.address).open(f"/live/{speaker.rollout.pk}/")
    wall = visit_at(seeded["bob"], web.address).open(f"/live/?run={seeded['run'].pk}")
    card = f"#card-{speaker.rollout.pk} [data-reply-text]"
    for page, place in ((large, LARGE), (wall, card)):
        page.locator(place).get_by_text("this and").wait_for()
    web.kill()
    speaker.say("that it came")
    speaker.edit("I am sorry that it was", "alice")
    speaker.say(" late. We")
    web.start()
    speaker.say("trace it now.")
    for page, place in ((large, LARGE), (wall, card)):
        page.locator(place).get_by_text("trace it now.").wait_for()
        said = words(page, place).removeprefix("policy").strip()
        assert said == speaker.text.strip() == "I am sorry that it was late. We trace it now."
    assert large.locator(".human-text").first.inner_text() == "that it was"


def test_every_token_is_shown_once_after_network_cuts(web, visit_at, seeded):
    wire = Wire(web.port)
    speaker = Speaker(seeded["run"], "one two three")
    page = visit_at(seeded["alice"], wire.address).open(f"/live/{speaker.rollout.pk}/")
    for n, word in enumerate(("four five", "six seven", "eight nine")):
        page.locator(LARGE).get_by_text(
            "three" if not n else ("five", "seven")[n - 1]
        ).first.wait_for()
        wire.cut()
        page.locator("[data-connection][data-state=offline]").wait_for()
        speaker.say(word)
        wire.mend()
        page.locator("[data-connection][data-state=live]").wait_for()
    page.locator(LARGE).get_by_text("nine").wait_for()
    assert words(page, f"{LARGE} .words") == "one two three four five six seven eight nine"
    wire.close()


def test_every_token_is_shown_once_after_a_frozen_page_resumes(web, visit_at, seeded):
    speaker = Speaker(seeded["run"], "one two")
    page = visit_at(seeded["alice"], web.address).open(f"/live/{speaker.rollout.pk}/")
    page.locator(LARGE).get_by_text("two").wait_for()
    lid = page.context.new_cdp_session(page)
    lid.send("Page.setWebLifecycleState", {"state": "frozen"})
    speaker.say("three four")
    web.kill()  # the server no longer knows the sleeping page
    web.start()
    speaker.say("five")
    lid.send("Page.setWebLifecycleState", {"state": "active"})
    page.locator(LARGE).get_by_text("five").wait_for()
    assert words(page, f"{LARGE} .words") == "one two three four five"
