"""Chromium visits the pages: they work by keyboard, report no errors, run no text of a model."""

import pytest
from django.urls import reverse

from apps.feedback.models import Rating
from apps.rollouts.models import Group, Outcome, Rollout
from apps.streaming.chunks import ChunkWriter
from tests.browser.conftest import DESKTOP, PHONE
from tests.browser.run_pages import list_run_pages
from tests.conftest import tokens_of
from tests.keeping import elsewhere
from tests.played import play

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def addresses(run) -> list[str]:
    elsewhere(lambda: play(run))
    of_run = [reverse(name, args=["lab", run.slug]) for name in ("run", "rollouts", "run-weights")]
    of_run += [reverse("environment", args=["lab", "maze"])]
    of_run += [
        reverse("episode", args=[pk])
        for pk in run.episodes.distinct("state").values_list("pk", flat=True)
    ]
    rollout = reverse("rollout", args=[run.rollouts.filter(state="finished").first().pk])
    return [
        *of_run,
        rollout,
        reverse("help-page", args=["evaluation"]),
        *(
            reverse(name)
            for name in (
                "live",
                "rate",
                "runs",
                "compare",
                "tasksets",
                "environments",
                "weights",
                "help",
                "settings",
                "mfa_index",
                "account_change_password",
            )
        ),
    ]


def test_user_logs_in_by_form(visit, seeded):
    seeded["bob"].set_password("correct horse battery")
    seeded["bob"].save()
    window = visit(None)
    page = window.open("/runs/")
    page.fill("#id_login", "bob")
    page.fill("#id_password", "a wrong password")
    page.click("text=Log in >> nth=-1")
    page.wait_for_selector(".note.error")
    page.fill("#id_password", "correct horse battery")
    page.click("button.first")
    page.wait_for_url("**/runs/")
    assert page.locator("h1").inner_text() == "Runs" and window.complaints == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_report_no_errors_and_load_nothing_from_other_sites(visit, seeded, site, scheme):
    who, more = ("bob", []) if scheme == "light" else ("alice", list_run_pages(seeded["run"]))
    window = visit(seeded[who], scheme=scheme)
    for address in [*addresses(seeded["run"]), *more]:
        window.open(address).wait_for_load_state("networkidle")
        assert window.complaints == [], address
    assert [url for url in window.fetched if not url.startswith(site)] == []


@pytest.mark.parametrize("who", ["bob", "alice"])
def test_pages_open_at_the_top_on_a_phone_and_do_not_scroll_sideways(visit, seeded, who):
    window = visit(seeded[who], viewport=PHONE)
    for address in addresses(seeded["run"]) if who == "bob" else list_run_pages(seeded["run"]):
        page = window.open(address)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), address
        assert page.evaluate("scrollY") == 0, address


def test_curves_are_drawn_with_their_newest_values(visit, seeded, eventually):
    page = visit(seeded["alice"]).open(reverse("run", args=["lab", "tone-7"]))
    page.wait_for_selector("[data-curve=reward] canvas")
    page.wait_for_function(
        "() => document.querySelector('[data-value=reward_mean]').textContent !== ''"
    )
    page.locator("[data-curve=starved]").scroll_into_view_if_needed()
    eventually(lambda: page.locator(".multiples canvas").count() == 16)


def test_stars_pressed_during_streaming_are_sent_when_the_reply_ends(visit, seeded, eventually):
    run = seeded["run"]
    group = Group.objects.get(run=run, state=Group.State.SAMPLING)
    rollout = group.rollouts.first()
    page = visit(seeded["bob"]).open(f"/live/?run={run.pk}")
    page.wait_for_selector(".connection[data-state=live]")
    writer = ChunkWriter(run.topic_id)
    writer.started(rollout.pk, group.pk, group.task.question, run.published_version)
    writer.add(rollout.pk, 0, "Thank you", [-0.1, -2.0], run.published_version)
    writer.flush()
    card = page.locator(f"#card-{rollout.pk}")
    card.get_by_text("Thank you").wait_for()
    card.focus()
    page.keyboard.press("5")
    card.get_by_text("sent when the reply is complete").wait_for()
    outcomes = [
        Outcome(r.pk, tokens_of("Thank you"), "Thank you", "stop") for r in group.rollouts.all()
    ]
    Group.finish_rollouts({group.pk: group.claimed}, outcomes)
    eventually(lambda: not writer.pending or writer.flush())
    writer.end(rollout.pk, "stop")
    eventually(lambda: writer.flush() or not writer.pending)
    eventually(
        lambda: Rating.objects.filter(
            rollout=rollout, rater=seeded["bob"], answer={"stars": 5}
        ).exists()
    )
    card.locator(".chip.human").wait_for()


def test_stars_given_offline_in_two_tabs_are_all_stored_and_sent(visit, seeded, site, eventually):
    fresh = Rollout.objects.filter(run=seeded["run"], state=Rollout.State.FINISHED).exclude(
        ratings__rater=seeded["bob"]
    )
    replies = list(fresh.order_by("-pk").values_list("pk", flat=True)[:2])
    window = visit(seeded["bob"])
    tabs = [window.page, window.page.context.new_page()]
    for page, reply in zip(tabs, replies, strict=True):
        page.goto(f"{site}/rollouts/{reply}/")
    window.page.context.set_offline(True)
    for page in tabs:
        page.locator("[data-stars] button[value='4']").first.click()
    kept = "() => Object.keys(localStorage).filter((key) => key.includes(':stars:')).length"
    eventually(lambda: tabs[0].evaluate(kept) == 2)
    window.page.context.set_offline(False)
    eventually(
        lambda: (
            Rating.objects.filter(
                rollout__in=replies, rater=seeded["bob"], answer={"stars": 4}
            ).count()
            == 2
        )
    )
    eventually(lambda: tabs[0].evaluate(kept) == 0)


def test_keys_open_pages_and_the_shortcut_dialog(visit, seeded):
    window = visit(seeded["bob"])
    page = window.open("/runs/")
    window.press("?")
    assert page.locator("[data-keys-sheet]").is_visible()
    window.press("Escape", "g", "s")
    page.wait_for_url("**/settings/")


def test_letters_typed_into_a_field_trigger_no_shortcut(visit, seeded):
    window = visit(seeded["bob"])
    page = window.open("/settings/")
    page.focus("#id_name")
    window.press("g", "l", "?")
    assert page.input_value("#id_name") == "gl?" and page.url.endswith("/settings/")


def test_chosen_theme_survives_a_reload(visit, seeded):
    page = visit(seeded["bob"]).open("/runs/")
    page.click("[data-theme-switch]")
    page.click("[data-theme-switch]")
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_stopping_a_run_asks_for_its_name(visit, seeded):
    page = visit(seeded["alice"]).open(reverse("run", args=["lab", "tone-7"]))
    page.click("summary[aria-label=More]")
    page.click("text=Stop run…")
    page.fill("#stop-name", "tone-7")
    page.click("dialog >> text=Stop run >> nth=-1")
    page.wait_for_selector("text=Stopped")


def test_run_page_updates_without_a_reload(visit, seeded):
    run = seeded["run"]
    page = visit(seeded["alice"]).open(reverse("run", args=["lab", "tone-7"]))
    page.wait_for_selector(".connection[data-state=live]")
    elsewhere(lambda: run.pause(by=seeded["alice"], reason="to look at something"))
    page.wait_for_selector("text=to look at something")


@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_download_menu_of_a_taskset_fits_into_the_window(visit, seeded, viewport):
    taskset = seeded["run"].taskset
    window = visit(seeded["alice"], viewport)
    page = window.open(reverse("taskset", args=[taskset.project.slug, taskset.slug]))
    page.get_by_text("Download", exact=True).click()
    for name in ("JSON Lines", "CSV", "Parquet"):
        box = page.get_by_role("link", name=name).bounding_box()
        assert box is not None and box["x"] >= 0
        assert box["x"] + box["width"] <= viewport["width"]
    assert not window.has_overflow() and window.complaints == []
