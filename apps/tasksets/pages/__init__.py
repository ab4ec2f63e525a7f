"""HTML pages as pictures: the accepted markup, and its renderer (docs/pictures.md).

Markup is hostile, as a policy writes it. It is parsed, and rewritten from an allow-list, before
the renderer sees any of it.
"""

from apps.tasksets.pages.cleaning import LONGEST, MOST_ELEMENTS, cleaned
from apps.tasksets.pages.refusals import NoPage, NoRenderer
from apps.tasksets.pages.rendering import (
    HEIGHT,
    LONGEST_SIDE,
    PACKAGES,
    SHORTEST_SIDE,
    WIDTH,
    render_page,
    require_renderer,
)

__all__ = [
    "HEIGHT",
    "LONGEST",
    "LONGEST_SIDE",
    "MOST_ELEMENTS",
    "PACKAGES",
    "SHORTEST_SIDE",
    "WIDTH",
    "NoPage",
    "NoRenderer",
    "cleaned",
    "render_page",
    "require_renderer",
]
