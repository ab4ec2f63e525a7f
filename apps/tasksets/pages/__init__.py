"""HTML pages as pictures: what of a page's markup is taken, and the renderer that shows the rest (docs/pictures.md).

Markup is hostile, as a policy writes it. It is read, and written anew from an allow-list, before the renderer sees any of it.
"""

from apps.tasksets.pages.cleaning import LONGEST, MOST_ELEMENTS, cleaned
from apps.tasksets.pages.refusals import NoPage, NoRenderer
from apps.tasksets.pages.rendering import HEIGHT, LONGEST_SIDE, PACKAGES, SHORTEST_SIDE, WIDTH, rendered, require

__all__ = [
    "HEIGHT", "LONGEST", "LONGEST_SIDE", "MOST_ELEMENTS", "PACKAGES", "SHORTEST_SIDE", "WIDTH", "NoPage", "NoRenderer", "cleaned",
    "rendered", "require",
]  # fmt: skip
