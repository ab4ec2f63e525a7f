"""Limits on the size of request bodies, by view.

`rftweb.request_bodies` enforces them before it reads a body.
"""

from collections.abc import Callable
from typing import TypeVar

from django.conf import settings

SMALL = 64 * 1024  # bytes that any client may send to any address, kept in memory
FORM_OVERHEAD = 1024 * 1024  # bytes of a multipart form besides its file
MARK = "largest_body"  # the attribute of a view that accepts another size
View = TypeVar("View", bound=Callable)


def takes_body(largest: int) -> Callable[[View], View]:
    """Decorate a view that accepts other body sizes than DATA_UPLOAD_MAX_MEMORY_SIZE.

    Works on functions and classes.
    """

    def mark(view: View) -> View:
        setattr(view, MARK, largest)
        return view

    return mark


def largest_body(view: Callable) -> int:
    """Return the largest body in bytes that the resolved view accepts."""
    view = getattr(view, "cls", None) or getattr(view, "view_class", None) or view
    return getattr(view, MARK, settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
