"""The comparison of runs in Chromium: its charts are zoomed together."""

import pytest
from django.urls import reverse

from tests.browser.fingers import touch

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
SCALES = "() => uPlot.sync('compare').plots.map((plot) => [plot.scales.x.min, plot.scales.x.max])"


def test_swipe_on_one_chart_zooms_all_charts_and_double_tap_resets_them(visit, seeded, eventually):
    window = visit(seeded["alice"])
    page = window.open(f"{reverse('compare')}?runs=lab/{seeded['run'].slug}")
    page.wait_for_selector("[data-overlay] canvas")
    whole = page.evaluate(SCALES)
    touch(page, "[data-overlay] .u-over", (0.4, 0.5), (1.0, 0.55))
    eventually(lambda: page.evaluate(SCALES) != whole)
    zoomed = page.evaluate(SCALES)
    assert len(zoomed) > 1 and all(
        low > was[0] for (low, _), was in zip(zoomed, whole, strict=True)
    )
    page.locator("[data-overlay] .u-over").first.dblclick()
    eventually(lambda: page.evaluate(SCALES) == whole)
    assert window.complaints == []
