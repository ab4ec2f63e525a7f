"""No page runs text that anybody wrote, requests anything from another site, or is redirected by
it.
"""

from urllib.parse import urlsplit

import pytest
from django.contrib import admin
from django.test import Client
from django.urls import reverse

from apps.accounts.models import User
from apps.feedback.forms import BUILT_IN
from apps.rollouts.models import Rollout
from apps.streaming.chunks import ChunkWriter
from tests.browser.conftest import Visit
from tests.browser.rating import asking
from tests.crawling import addresses
from tests.keeping import elsewhere
from tests.played import play
from tests.poisoning import HOSTILE, poison
from tests.rollouts.hostile import PAYLOADS

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.django_db(transaction=True)]
# Requested by payloads: a request to it that the page itself does not make is theirs.
BAIT = ("/accounts/logout/", "/settings/")


def test_there_are_more_than_sixty_payloads_and_all_differ():
    assert len(set(PAYLOADS)) == len(PAYLOADS) > 60


def require_harmless(window: Visit, address: str) -> None:
    """Check that no script ran, no other site was requested, and the page was not left."""
    page = window.page
    assert page.evaluate("[typeof window.pwned, window.length]") == ["undefined", 0], address
    assert page.url == window.site + address
    asked = [
        url
        for url in window.fetched
        if not url.startswith((window.site, window.site.replace("http", "ws"), "data:image/svg"))
    ]
    assert asked == [], address
    assert [
        url
        for url in window.fetched
        if urlsplit(url).path in BAIT and urlsplit(url).path != address
    ] == [], address
    window.fetched.clear()


def shown(user: User, paths: list[str]) -> list[str]:
    """Return the addresses that show this user a page."""
    client = Client(raise_request_exception=False)
    client.force_login(user)
    answers = {path: client.get(path) for path in paths}
    return [
        path
        for path, answer in answers.items()
        if answer.status_code == 200 and "attachment" not in answer.get("Content-Disposition", "")
    ]


@pytest.fixture
def poisoned(seeded) -> dict:
    elsewhere(lambda: play(seeded["run"]))
    assert elsewhere(lambda: poison(seeded["run"])) > 300
    return seeded


def test_no_page_runs_text_written_by_others(visit, poisoned, site):
    finished = poisoned["run"].rollouts.filter(state=Rollout.State.FINISHED).order_by("-pk")
    rollouts = list(finished.values_list("pk", flat=True)[:10])
    window = visit(poisoned["alice"])
    walked = elsewhere(lambda: shown(poisoned["alice"], addresses(poisoned["run"], rollouts)))
    assert len(walked) > 40
    for address in walked:
        window.open(address).wait_for_load_state("load")
        require_harmless(window, address)
    assert [words for words in window.complaints if "429" not in words] == []


@pytest.mark.nightly
def test_no_admin_page_runs_text_written_by_others(visit, poisoned, admin_user):
    paths = []
    for model in admin.site._registry:
        name = f"admin:{model._meta.app_label}_{model._meta.model_name}"
        paths.append(reverse(f"{name}_changelist"))
        if (row := model._default_manager.order_by("-pk").first()) is not None:
            paths.append(reverse(f"{name}_change", args=[row.pk]))
    window = visit(admin_user)
    walked = elsewhere(lambda: shown(admin_user, paths))
    assert len(walked) > len(admin.site._registry)
    for address in walked:
        window.open(address).wait_for_load_state("load")
        require_harmless(window, address)


@pytest.mark.parametrize("form", [name for name in BUILT_IN if name != "flag"])
def test_no_rating_form_runs_text_written_by_others(visit, transactional_db, form):
    texts = tuple("\n\n".join(HOSTILE[n::8]) for n in range(8))
    asked = elsewhere(lambda: asking(form, texts=texts))
    elsewhere(lambda: poison(asked.run))
    window = visit(asked.bob)
    address = f"/rate/?run={asked.run.pk}"
    page = window.open(address)
    page.locator("[data-rating-bar]").wait_for()  # an item is shown
    page.get_by_text("window.pwned=1").first.wait_for(state="attached")  # maybe in the guidelines
    page.wait_for_load_state("networkidle")
    require_harmless(window, address)
    window.press("Escape", "g")  # leave the text field that two forms focus first
    page.locator("[data-guide] .prose").wait_for()
    page.wait_for_load_state("networkidle")
    require_harmless(window, address)
    assert window.complaints == []


def test_live_pages_run_no_streamed_text(visit, seeded, eventually):
    run = seeded["run"]
    rollout = run.rollouts.filter(state=Rollout.State.SAMPLING).first()
    window = visit(seeded["bob"])
    large = visit(seeded["alice"])
    wall = f"/live/?run={run.pk}"
    followed = f"/live/{rollout.pk}/"
    for one, address in ((window, wall), (large, followed)):
        one.open(address).wait_for_selector(".connection[data-state=live]")
    writer = ChunkWriter(run.topic_id)
    writer.started(rollout.pk, rollout.group_id, PAYLOADS[0], 0)
    for n, payload in enumerate(PAYLOADS):
        writer.add(rollout.pk, n, payload, [-0.5], 0)
    writer.held(rollout.pk, PAYLOADS[1], 120)
    writer.flush(at_once=True)
    large.page.get_by_text("The policy is paused").wait_for()
    writer.turn(rollout.pk, len(PAYLOADS), 1, "".join(PAYLOADS))
    writer.edit(rollout.pk, 2, len(PAYLOADS) + 1, 0, "".join(PAYLOADS), 1, PAYLOADS[2])
    writer.end(rollout.pk, PAYLOADS[3])
    writer.flush(at_once=True)
    window.page.locator(f"#card-{rollout.pk} .human-text").wait_for()
    large.page.locator("[data-turns] .human-text").wait_for()
    for one, address in ((window, wall), (large, followed)):
        require_harmless(one, address)
        assert one.complaints == []
