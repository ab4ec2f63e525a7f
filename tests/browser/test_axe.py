"""axe finds no serious problems on the main pages, light and dark, nor on any rating form."""

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from django.urls import reverse

from tests.browser.conftest import DESKTOP, PHONE
from tests.browser.rating import asking, close_held
from tests.browser.run_pages import list_run_pages
from tests.browser.test_rating_page import item_on, wait_for_another
from tests.keeping import elsewhere
from tests.played import play

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}
CONTRAST = {"runOnly": {"type": "rule", "values": ["color-contrast"]}}
FORMS = (
    "thumbs",
    "stars",
    "pairwise",
    "ranking",
    "best_worst",
    "rubric",
    "turns",
    "spans",
    "critique",
    "rewrite",
)


def findings(page, rules: dict = RULES) -> list[str]:
    """Return the problems that axe calls serious or critical on this page, with their location."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE_SCRIPT)  # half a megabyte, once for each page
    options = {**rules, "resultTypes": ["violations"]}  # listing every node that passes takes long
    found = page.evaluate("(options) => axe.run(document, options)", options)
    assert len(found["passes"]) > (5 if rules is RULES else 0)  # axe did run
    grave = [one for one in found["violations"] if one["impact"] in ("serious", "critical")]
    return [
        f"{one['id']}: {node['html'][:160]} {node['any'][:1] and node['any'][0]['message']}"
        for one in grave
        for node in one["nodes"][:3]
    ]


def findings_of_both_schemes(page) -> list[str]:
    """Run all rules in the light scheme, and in the dark one only the rule on contrast."""
    light = findings(page)
    page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    dark = findings(page, CONTRAST)
    page.emulate_media(color_scheme="light", reduced_motion="reduce")
    return [*light, *(f"dark: {finding}" for finding in dark)]


def test_axe_finds_no_serious_problems_on_the_pages(visit, seeded):
    run = seeded["run"]
    rollout = run.rollouts.filter(state="finished").first()
    elsewhere(lambda: play(run))
    played = run.episodes.values_list("pk", "state")
    window = visit(seeded["alice"], scheme="light")
    addresses = [
        *(reverse(name) for name in ("live", "runs", "settings", "rate", "environments")),
        *(reverse(name) for name in ("policies", "model-add")),
        reverse("policy", args=["lab", run.policy.slug]),
        reverse("environment", args=["lab", "maze"]),
        reverse("help-page", args=["people"]),
        reverse("help-search") + "?q=gold",
        *{state: reverse("episode", args=[pk]) for pk, state in played}.values(),
        reverse("run", args=["lab", run.slug]),
        reverse("run-step", args=["lab", run.slug, 2]),
        reverse("run-charts", args=["lab", run.slug]),
        reverse("rollouts", args=["lab", run.slug]),
        reverse("rollout", args=[rollout.pk]),
        *list_run_pages(run),
    ]
    found = {}
    for address in addresses:
        page = window.open(address)
        page.wait_for_load_state("networkidle")
        found[address] = findings_of_both_schemes(page)
    assert {address: grave for address, grave in found.items() if grave} == {}


@pytest.mark.parametrize("viewport", [DESKTOP, PHONE])
def test_axe_finds_no_serious_problems_on_any_form(visit, transactional_db, viewport):
    found = {}
    for place, form in enumerate(FORMS):
        asked = elsewhere(
            lambda form=form, place=place: asking(
                form, slug=f"tone-{place}", groups=1, guidelines="Be **kind**."
            )
        )
        window = visit(asked.bob, scheme="light", viewport=viewport)
        page = window.open(f"/rate/?run={asked.run.pk}")
        page.wait_for_selector(f"[data-form={form}]")
        if form in ("thumbs", "stars", "rubric", "turns", "pairwise"):
            window.press("2")
        if form not in ("critique", "rewrite"):
            window.press("c", "Escape", "g")
            page.locator("[data-guide] .prose").wait_for()
        found[form] = findings_of_both_schemes(page)
        page.context.close()
        elsewhere(close_held)
    assert {form: grave for form, grave in found.items() if grave} == {}


def test_axe_finds_no_serious_problems_in_dialogs_and_at_the_end(visit, transactional_db):
    asked = elsewhere(lambda: asking("stars", groups=1, size=2))
    window = visit(asked.bob)
    page = window.open("/rate/")
    page.wait_for_selector("[data-item]")
    window.press("f")
    assert findings(page) == []
    window.press("Escape", "e")
    page.wait_for_selector("[data-rewrite-box]")
    assert findings(page) == []
    item = item_on(page)
    window.press("Escape", "1", "Enter")
    wait_for_another(page, item)
    window.press("1", "Enter")
    page.wait_for_selector("[data-queue-end]")
    assert findings(page) == []
