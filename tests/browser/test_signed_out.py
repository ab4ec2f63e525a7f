"""A session that ends while a page is open: the page keeps its content and what was typed, and says
that the person is signed out.
"""

import pytest
from django.contrib.sessions.models import Session
from django.urls import reverse

from apps.runs.models import Run
from tests.browser.rating import asking
from tests.browser.speaking import Speaker, obeying
from tests.conftest import PASSWORD
from tests.keeping import elsewhere

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def type_after_session_end(window):
    """Change a setting of a new run after the session has ended; return the page."""
    page = window.open(reverse("run-new"))
    page.fill("#slug", "kept")
    page.fill("#knob-steps", "7")
    page.wait_for_function("() => document.getElementById('yaml').value.includes('steps: 7')")
    Session.objects.all().delete()
    page.fill("#knob-steps", "8")
    page.get_by_text("You are signed out.").wait_for()
    return page


def test_new_run_keeps_its_form_when_the_session_ends(visit, seeded):
    window = visit(seeded["alice"])
    page = type_after_session_end(window)
    assert page.locator("#id_login").count() == 0
    assert "steps: 7" in page.input_value("#yaml") and page.input_value("#knob-steps") == "8"
    assert window.complaints == []


def test_run_is_created_after_a_login_in_another_tab(visit, seeded, may_log_in):
    window = visit(seeded["alice"])
    page = type_after_session_end(window)
    may_log_in(seeded["alice"])
    with page.context.expect_page() as opened:
        page.locator("[data-signed-out] a").click()
    login = opened.value
    login.fill("#id_login", "alice")
    login.fill("#id_password", PASSWORD)
    login.press("#id_password", "Enter")
    login.wait_for_url("**/runs/new/")
    page.get_by_role("button", name="Create run").click()
    page.wait_for_url("**/runs/lab/kept/")
    assert Run.objects.get(slug="kept").settings.steps == 8


def test_refreshed_part_is_not_replaced_by_the_login_page(visit, seeded):
    window = visit(seeded["alice"])
    page = window.open("/")
    Session.objects.all().delete()
    page.get_by_text("You are signed out.").wait_for()
    assert page.locator("#home-now #id_login").count() == 0
    assert window.complaints == []


def test_live_page_shows_no_login_page_as_a_reply(visit, seeded):
    speaker = Speaker(seeded["run"])
    page = visit(seeded["alice"]).open(f"/live/?run={seeded['run'].pk}")
    page.wait_for_selector("[data-connection][data-state=live]")
    page.evaluate("(id) => document.getElementById(id).remove()", f"card-{speaker.rollout.pk}")
    Session.objects.all().delete()
    speaker.say("Hello.")  # the page asks for the card
    page.get_by_text("You are signed out.").wait_for()
    cards = page.locator("[data-live-grid] > *")
    assert cards.count() == page.locator("[data-live-grid] > .rollout-card").count()
    assert page.locator("#id_login").count() == 0


def test_charts_of_a_run_say_that_they_are_old_when_the_session_ends(visit, seeded):
    window = visit(seeded["alice"])
    window.page.clock.install()
    page = window.open(reverse("run", args=["lab", seeded["run"].slug]))
    page.wait_for_selector("[data-curve=reward] canvas")
    Session.objects.all().delete()
    page.clock.run_for(16_000)
    page.get_by_text("Couldn’t load new data.").wait_for()
    page.get_by_text("You are signed out.").wait_for()


def test_steering_uses_the_token_of_a_login_in_another_tab(visit, seeded, may_log_in):
    speaker = Speaker(seeded["run"], "I am sorry.")
    window = visit(seeded["alice"])
    page = window.open(f"/live/{speaker.rollout.pk}/")
    page.locator("[data-turns]").get_by_text("sorry.").wait_for()
    may_log_in(seeded["alice"])
    Session.objects.all().delete()
    login = page.context.new_page()
    login.goto(f"{window.site}/accounts/login/")
    login.fill("#id_login", "alice")
    login.fill("#id_password", PASSWORD)
    login.press("#id_password", "Enter")
    login.wait_for_url(lambda url: "/login/" not in url)
    with obeying(speaker):
        window.press("x")
        page.locator("[data-status].good").wait_for()


def test_focus_stays_on_the_link_to_log_in_of_the_rating_page(visit, transactional_db):
    asked = elsewhere(lambda: asking("stars"))
    window = visit(asked.bob)
    window.page.clock.install()
    page = window.open("/rate/")
    page.wait_for_selector("[data-item]")
    Session.objects.all().delete()
    window.press("4", "Enter")
    link = page.locator("[data-error]").get_by_text("Log in")
    link.focus()
    with page.expect_response("**/keep/") as renewal:
        page.clock.run_for(60_000)
    assert renewal.value.status == 401
    renewal.value.finished()
    page.clock.run_for(1_000)
    assert link.evaluate("(link) => link === document.activeElement")
