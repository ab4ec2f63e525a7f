"""The list of runs under a hand: what Enter does, and what stays out of its way."""

import pytest
from django.urls import reverse

from apps.runs.models import Run

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_enter_in_the_field_of_tags_adds_the_tag(visit, seeded):
    page = visit(seeded["alice"]).open(reverse("runs"))
    page.check(f'[name="run"][value="{seeded["run"].pk}"]')
    page.fill("#tag-words", "long")
    page.press("#tag-words", "Enter")
    page.get_by_text("1 tagged").wait_for()
    assert Run.objects.get().tags == ["long"]


def test_the_acts_lie_over_the_list_only_once_something_is_ticked(visit, seeded):
    page = visit(seeded["alice"]).open(reverse("runs"))
    place = "() => getComputedStyle(document.getElementById('ticked')).position"
    assert page.evaluate(place) == "static"
    page.check(f'[name="run"][value="{seeded["run"].pk}"]')
    assert page.evaluate(place) == "sticky"
