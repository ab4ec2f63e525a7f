"""Style guide: the components of the pages, for developers. Served in debug mode only."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from apps.rollouts.markup import markup

SAMPLE = r"""We will **gladly** repair it:

1. pack the lamp
2. send it to [the workshop](https://example.org/repair)

> Thank you!

`order 4431`

With $a = 2$ the answer is \(\boxed{\frac{a^2 + 1}{\sqrt{2}}}\), and it costs $5:

\[
\sum_{i=1}^{n} i = \begin{cases} \frac{n(n+1)}{2} & n > 0 \\ 0 & \text{otherwise} \end{cases}
\]

```python
def area(side: float) -> str:
    return f"{side ** 2} square metres"  # a comment
```"""
COLOURS = [
    "paper",
    "sheet",
    "wash",
    "line",
    "edge",
    "faint",
    "quiet",
    "ink",
    "accent",
    "good",
    "warn",
    "bad",
]
COLOURS += ["r-low", "r-mid", "r-high"]


@require_safe
def styleguide(request: HttpRequest) -> HttpResponse:
    """Everybody: it shows no data."""
    context = {
        "rewards": [n / 10 for n in range(11)],
        "shades": [f"p{n}" for n in range(10)],
        "prose": markup(SAMPLE),
        "colours": COLOURS,
    }
    return render(request, "dashboard/styleguide.html", context)
