"""Lists that page by key: "newer" and "older" from an id, never an offset, whatever the table's size."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Model, QuerySet
from django.http import Http404, HttpRequest, QueryDict

PAGE_ROWS = 50


@dataclass(frozen=True)
class Page:
    """Rows, newest first, and the query strings of the neighbouring pages ("" where there is none)."""

    rows: Sequence[Model]
    newer: str
    older: str


def page_of(rows: QuerySet, request: HttpRequest, size: int = PAGE_ROWS) -> Page:
    """The page the URL asks for with `before=<id>` or `after=<id>`; one query. Raises Http404 for a cursor that is no id."""
    before, after = _cursor(request, "before"), _cursor(request, "after")
    if after is not None:
        found = list(rows.filter(pk__gt=after).order_by("pk")[: size + 1])
        has_newer, has_older, found = len(found) > size, True, found[:size][::-1]
    else:
        older = rows if before is None else rows.filter(pk__lt=before)
        found = list(older.order_by("-pk")[: size + 1])
        has_newer, has_older, found = before is not None, len(found) > size, found[:size]
    return Page(
        rows=found,
        newer=_query(request, "after", found[0].pk) if has_newer and found else "",
        older=_query(request, "before", found[-1].pk) if has_older and found else "",
    )


def _cursor(request: HttpRequest, name: str) -> int | None:
    text = request.GET.get(name)
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise Http404(f"{name} must be the id of a row")
    return int(text)


def _query(request: HttpRequest, name: str, pk: int) -> str:
    """The page's own query string with another cursor: filters stay."""
    query: QueryDict = request.GET.copy()
    for cursor in ("before", "after"):
        query.pop(cursor, None)
    query[name] = str(pk)
    return "?" + query.urlencode()
