"""HTML pages as pictures: the accepted markup, and its renderer (docs/pictures.md).

Markup is hostile, as a policy writes it. It is parsed, and rewritten from an allow-list, before
the renderer sees any of it.
"""

from apps.tasksets.pages.cleaning import MAX_ELEMENTS, MAX_MARKUP_LENGTH, cleaned
from apps.tasksets.pages.refusals import NoPage, NoRenderer
from apps.tasksets.pages.rendering import (
    HEIGHT,
    MAX_SIDE,
    MIN_SIDE,
    PACKAGES,
    WIDTH,
    render_page,
    require_renderer,
)

__all__ = [
    "HEIGHT",
    "MAX_ELEMENTS",
    "MAX_MARKUP_LENGTH",
    "MAX_SIDE",
    "MIN_SIDE",
    "PACKAGES",
    "WIDTH",
    "NoPage",
    "NoRenderer",
    "cleaned",
    "render_page",
    "require_renderer",
]
