"""Pages are readable without scripts: metrics, curves and lists are in the HTML that the server
sends.
"""

import pytest
from django.urls import reverse

from apps.evaluation.asking import start_evaluation
from apps.runs.evaluation import Questions
from apps.runs.models import Usage
from tests.keeping import elsewhere

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def read(place, what: str) -> None:
    """Check that the text is visible, not only in the page's source."""
    place.get_by_text(what).first.wait_for(state="visible")


def test_run_pages_are_readable_without_scripts(visit, seeded):
    run = seeded["run"]
    elsewhere(
        lambda: start_evaluation(
            run.weight_versions.get(version=1), Questions(taskset="tone", samples=2)
        )
    )
    elsewhere(lambda: Usage.add(run.pk, "a", {"trainer.cpu_s": 3_600}))
    rollout = run.rollouts.filter(state="finished").order_by("-pk").first()
    window = visit(seeded["alice"], scripts=False)

    def of_run(name: str) -> str:
        return reverse(name, args=["lab", run.slug])

    page = window.open(of_run("run"))
    assert page.locator(".chart svg polyline").count() > 3
    assert not page.get_by_text("The curve starts").first.is_visible()
    page = window.open(of_run("rollouts"))
    assert page.locator(".tablebox tbody tr").count() > 3
    page = window.open(reverse("rollout", args=[rollout.pk]))
    read(page, rollout.text[:20])
    page = window.open(of_run("run-weights"))
    assert page.locator(".tablebox tbody tr").count() >= 3
    read(window.open(of_run("run-evaluations")), "tone")
    read(window.open(of_run("run-cost")).locator(".costs"), "trainer")
    read(window.open(reverse("workers")), "lab:3")
    page = window.open(reverse("compare") + f"?runs=lab/{run.slug}")
    read(page, run.slug)


def test_page_of_human_time_shows_its_curve_without_scripts(visit, seeded):
    page = visit(seeded["alice"], scripts=False).open(
        reverse("run-bought", args=["lab", seeded["run"].slug])
    )
    assert page.locator("[data-chart=bought] polyline").count() == 2
    assert not page.get_by_text("The curve starts").is_visible()
    assert page.locator("[data-value=reward_mean]").inner_text().strip() not in ("", "–")


def test_script_replaces_the_static_chart(visit, seeded):
    window = visit(seeded["alice"])
    page = window.open(reverse("run-bought", args=["lab", seeded["run"].slug]))
    page.wait_for_selector("[data-chart=bought] canvas")
    assert page.locator("[data-chart=bought] .sketch").count() == 0 and window.complaints == []
