"""The main pages at 200 % zoom: nothing is wider than the window, so no page scrolls sideways."""

import pytest
from django.urls import reverse

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
ZOOMED = {"width": 640, "height": 512}  # 1280 × 1024 at 200 %
MAIN = ("home", "live", "rate", "my-work", "runs", "run-new", "tasksets", "policies", "projects")
OF_A_RUN = ("run", "run-charts", "rollouts", "run-people", "run-gold", "run-settings")


def test_no_main_page_scrolls_sideways_at_200_percent_zoom(visit, seeded):
    window = visit(seeded["alice"], viewport=ZOOMED)
    addresses = [reverse(name) for name in MAIN]
    addresses += [reverse(name, args=["lab", seeded["run"].slug]) for name in OF_A_RUN]
    wide = []
    for address in addresses:
        window.open(address)
        if window.has_overflow():
            wide.append(address)
    assert wide == []
