"""The parts of the pages, side by side, for those who build them. Served in debug mode only."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from apps.rollouts.markup import markup

SAMPLE = """We will **gladly** repair it:

1. pack the lamp
2. send it to [the workshop](https://example.org/repair)

> Thank you!

`order 4431`"""
COLOURS = ["paper", "sheet", "wash", "line", "edge", "faint", "quiet", "ink", "accent", "good", "warn", "bad"]
COLOURS += ["r-low", "r-mid", "r-high"]


@require_safe
def styleguide(request: HttpRequest) -> HttpResponse:
    """Everybody: it shows no data."""
    context = {
        "rewards": [n / 10 for n in range(11)], "shades": [f"p{n}" for n in range(10)], "prose": markup(SAMPLE),
        "colours": COLOURS,
    }  # fmt: skip
    return render(request, "dashboard/styleguide.html", context)
