"""Judging in a blind arena by keys: the next pair appears at once, no vote is lost without a
network, and the standings are updated.
"""

import re

import pytest
from django.urls import reverse

from apps.evaluation.arena.making import create_arena
from apps.evaluation.models import Arena, Pairing, Vote
from apps.rollouts.evaluation_groups import close_evaluation_groups, complete_measured
from apps.rollouts.models import Group, Outcome, Rollout
from apps.runs.models import Run
from apps.runs.parsing import parse_config
from tests.browser.test_axe import findings
from tests.conftest import tokens_of
from tests.evaluation.arena.contests import asked, say
from tests.keeping import elsewhere
from tests.seeding import _stage

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
TASKS = 6


def opened() -> tuple[Arena, dict]:
    """Create an arena of two evaluations of the base model, whose replies differ."""
    project, cast = _stage("", TASKS, None)
    runs = [
        evaluated(project, f"evaluation-{n}", f"Answer number {n}, **politely**.", cast["alice"])
        for n in range(2)
    ]
    return create_arena(project, cast["alice"], "First comparison", [run.pk for run in runs]), cast


def evaluated(project, slug: str, text: str, by) -> Run:
    plan = parse_config(
        {
            "policy": "tone",
            "taskset": "tone",
            "steps": 0,
            "group_size": 1,
            "rewards": [{"scorer": "tone"}],
            "evaluation": {},
        }
    )
    run = Run.create(project=project, slug=slug, title=slug, plan=plan, owner=by)
    run.start(by=by)
    groups = Group.open(run, "explorer", 60, TASKS, 0)
    rollouts = Rollout.objects.filter(group__in=groups)
    Group.finish_rollouts(
        {g.pk: g.claimed for g in groups},
        [Outcome(r.pk, tokens_of(text), text, "stop") for r in rollouts],
    )
    Group.objects.filter(run=run).update(state="judged")
    close_evaluation_groups(Group.objects.claim("judged", "refiner", 60, TASKS, run))
    complete_measured()
    return Run.objects.get(pk=run.pk)


@pytest.fixture
def judging(visit, transactional_db):
    """Open the arena's first pair in bob's window."""
    arena, cast = elsewhere(opened)
    window = visit(cast["bob"])
    page = window.open(reverse("arena-judge", args=[arena.pk]))
    page.wait_for_selector("[data-pair]")
    return arena, cast, window, page


def pair_on(page) -> str:
    return page.locator("[data-pair]").get_attribute("data-pair")


def wait_for_votes(eventually, count: int) -> None:
    eventually(lambda: Vote.objects.count() == count)


def test_five_pairs_are_judged_by_keys_and_appear_in_the_standings(judging, visit, eventually):
    arena, cast, window, page = judging
    met = [pair_on(page)]
    for key in "abtxb":
        window.press(key)
        page.wait_for_function(
            "(last) => document.querySelector('[data-pair]')?.dataset.pair !== last", arg=met[-1]
        )
        met.append(pair_on(page))
    assert len(set(met)) == 6
    wait_for_votes(eventually, 5)
    window.press("z")
    page.wait_for_function(
        "(last) => document.querySelector('[data-pair]')?.dataset.pair === last", arg=met[4]
    )
    window.press("t")
    wait_for_votes(eventually, 7)
    eventually(lambda: Pairing.objects.get().votes == 5)
    said = list(Vote.objects.order_by("pk").values_list("choice", flat=True))
    assert said[2:4] == ["tie", "bad"] and said[5:] == ["back", "tie"]
    assert "5 today · 5 total · 1 remaining" in page.locator("[data-counts]").inner_text()
    window.press("a")
    page.wait_for_selector("[data-queue-end]")
    assert (
        "All pairs compared" in page.locator("[data-queue-end]").inner_text()
        and window.complaints == []
    )
    hers = visit(cast["alice"])
    standings = hers.open(reverse("arena", args=["lab", arena.pk]))
    assert re.search(r"6\s+votes? by\s+1\s+person", standings.locator(".head").inner_text())
    assert standings.locator(".strengths tbody tr").count() == 2 and hers.complaints == []


def test_votes_are_kept_in_the_browser_until_the_network_is_back(judging, eventually):
    _, _, window, page = judging
    page.wait_for_function(
        "document.querySelector('[data-counts]').textContent.includes('6 remaining')"
    )
    page.wait_for_load_state("networkidle")  # the next pairs are loaded
    page.context.set_offline(True)
    window.press("a", "b")
    page.wait_for_selector("[data-outbox]:not([hidden])")
    assert (
        "not sent yet" in page.locator("[data-outbox]").inner_text() and not Vote.objects.exists()
    )
    page.context.set_offline(False)
    wait_for_votes(eventually, 2)
    page.wait_for_selector("[data-outbox]", state="hidden")
    assert len(set(Vote.objects.values_list("task", flat=True))) == 2


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_problems(judging, visit, scheme):
    arena, cast, *_ = judging
    elsewhere(lambda: say(cast["bob"], arena, asked(cast["bob"], arena)[0], "first"))
    window = visit(cast["alice"], scheme=scheme)
    found = {}
    for address in (
        reverse("arenas"),
        reverse("arena", args=["lab", arena.pk]),
        reverse("arena-judge", args=[arena.pk]),
    ):
        page = window.open(address)
        page.wait_for_load_state("networkidle")
        found[address] = findings(page)
    assert {address: grave for address, grave in found.items() if grave} == {}
