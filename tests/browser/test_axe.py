"""axe finds nothing serious on the pages people work with, light and dark; nor on any form of decision."""

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from django.urls import reverse

from tests.browser.conftest import PHONE
from tests.browser.desk import of_the_desk
from tests.browser.rating import asking
from tests.browser.test_rating_page import item_on, wait_for_another
from tests.keeping import elsewhere
from tests.played import play

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}
FORMS = ("thumbs", "stars", "pairwise", "ranking", "best_worst", "rubric", "turns", "spans", "critique", "rewrite")


def findings(page) -> list[str]:
    """What axe calls serious or critical on this page, with where."""
    page.evaluate(AXE_SCRIPT)
    found = page.evaluate("(rules) => axe.run(document, rules)", RULES)
    assert len(found["passes"]) > 5  # it did look
    grave = [one for one in found["violations"] if one["impact"] in ("serious", "critical")]
    return [
        f"{one['id']}: {node['html'][:160]} {node['any'][:1] and node['any'][0]['message']}"
        for one in grave
        for node in one["nodes"][:3]
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_serious_on_the_pages(visit, seeded, scheme):
    run = seeded["run"]
    rollout = run.rollouts.filter(state="finished").first()
    elsewhere(lambda: play(run))
    played = run.episodes.values_list("pk", "state")
    window = visit(seeded["alice"], scheme=scheme)
    addresses = [
        *(reverse(name) for name in ("live", "runs", "settings", "rate", "environments")),
        reverse("environment", args=["lab", "maze"]), *{state: reverse("episode", args=[pk]) for pk, state in played}.values(),
        reverse("run", args=["lab", run.slug]), reverse("rollouts", args=["lab", run.slug]), reverse("rollout", args=[rollout.pk]),
        *of_the_desk(run),
    ]  # fmt: skip
    found = {}
    for address in addresses:
        page = window.open(address)
        page.wait_for_load_state("networkidle")
        found[address] = findings(page)
    assert {address: grave for address, grave in found.items() if grave} == {}


@pytest.mark.parametrize(("scheme", "viewport"), [("light", None), ("dark", None), ("light", PHONE)])
def test_nothing_serious_on_any_form(visit, transactional_db, scheme, viewport):
    found = {}
    for place, form in enumerate(FORMS):
        asked = elsewhere(lambda form=form, place=place: asking(form, slug=f"tone-{place}", groups=1, guidelines="Be **kind**."))
        window = visit(asked.bob, scheme=scheme, **({"viewport": viewport} if viewport else {}))
        page = window.open(f"/rate/?run={asked.run.pk}")
        page.wait_for_selector(f"[data-form={form}]")
        if form in ("thumbs", "stars", "rubric", "turns", "pairwise"):
            window.press("2")
        if form not in ("critique", "rewrite"):
            window.press("c", "Escape", "g")
            page.locator("[data-guide] .prose").wait_for()
        found[form] = findings(page)
        page.context.close()
    assert {form: grave for form, grave in found.items() if grave} == {}


def test_nothing_serious_in_the_dialogs_and_at_the_end(visit, transactional_db):
    asked = elsewhere(lambda: asking("stars", groups=1, size=2))
    window = visit(asked.bob)
    page = window.open("/rate/")
    page.wait_for_selector("[data-item]")
    window.press("f")
    assert findings(page) == []
    window.press("Escape", "e")
    page.wait_for_selector("[data-beside]")
    assert findings(page) == []
    item = item_on(page)
    window.press("Escape", "1", "Enter")
    wait_for_another(page, item)
    window.press("1", "Enter")
    page.wait_for_selector("[data-nothing]")
    assert findings(page) == []
