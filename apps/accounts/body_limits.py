"""How many bytes of a request's body each view takes; rftweb.bodies refuses more before it reads them."""

from collections.abc import Callable
from typing import TypeVar

from django.conf import settings

SMALL = 64 * 1024  # bytes that anybody may send to any address, kept in memory
FORM_OVERHEAD = 1024 * 1024  # bytes of a form around its file
View = TypeVar("View", bound=Callable)


def takes_body(largest: int) -> Callable[[View], View]:
    """Decorate a view, a function or a class, that takes other bodies than DATA_UPLOAD_MAX_MEMORY_SIZE."""

    def mark(view: View) -> View:
        view.largest_body = largest
        return view

    return mark


def largest_body(view: Callable) -> int:
    """Return how many bytes the resolved view takes."""
    view = getattr(view, "cls", None) or getattr(view, "view_class", None) or view
    return getattr(view, "largest_body", settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
