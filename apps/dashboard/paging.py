"""Lists that page by key: "newer" and "older" from an id, never an offset, whatever the table's size."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from django.db.models import Model, Q, QuerySet
from django.http import Http404, HttpRequest, QueryDict

PAGE_ROWS = 50


@dataclass(frozen=True)
class Page:
    """Rows, newest first, and the query strings of the neighbouring pages ("" where there is none)."""

    rows: Sequence[Model]
    newer: str
    older: str
    is_cut: bool = False  # there are rows that were not looked through


def page_of(rows: QuerySet, request: HttpRequest, size: int = PAGE_ROWS, by: str = "") -> Page:
    """The page the URL asks for with `before=<id>` or `after=<id>`; one query. Raises Http404 for a cursor that is no id.

    `by`: a column whose largest values come first, instead of the newest rows; one more query, for the cursor's own value.
    """
    before, after = cursor_in(request, "before"), cursor_in(request, "after")
    order = (by, "pk") if by else ("pk",)
    if after is not None:
        found = list(_beyond(rows, after, by, "gt").order_by(*order)[: size + 1])
        has_newer, has_older, found = len(found) > size, True, found[:size][::-1]
    else:
        older = rows if before is None else _beyond(rows, before, by, "lt")
        found = list(older.order_by(*(f"-{name}" for name in order))[: size + 1])
        has_newer, has_older, found = before is not None, len(found) > size, found[:size]
    return Page(
        rows=found,
        newer=query_with(request, "after", found[0].pk) if has_newer and found else "",
        older=query_with(request, "before", found[-1].pk) if has_older and found else "",
    )


def page_within(rows: QuerySet, among: QuerySet, reach: int, request: HttpRequest) -> Page:
    """As page_of, for what no index finds: `reach` rows of `among` are looked through, and the links go on beyond them."""
    before, after = cursor_in(request, "before"), cursor_in(request, "after")
    side, order = ("gt", "pk") if after is not None else ("lt", "-pk")
    cursor = after if after is not None else before
    ahead = (among if cursor is None else among.filter(**{f"pk__{side}": cursor})).order_by(order).values_list("pk", flat=True)
    if not (edge := next(iter(ahead[reach - 1 : reach]), None)):
        return page_of(rows, request)
    if after is not None:
        page = page_of(rows.filter(pk__lte=edge), request)
        return replace(page, newer=page.newer or query_with(request, "after", edge), is_cut=not page.newer)
    page = page_of(rows.filter(pk__gte=edge), request)
    return replace(page, older=page.older or query_with(request, "before", edge), is_cut=not page.older)


def _beyond(rows: QuerySet, cursor: int, by: str, side: str) -> QuerySet:
    """What comes before or after the row `cursor` in the order."""
    here = Q(**{f"pk__{side}": cursor})
    if not by:
        return rows.filter(here)
    value = rows.model.objects.filter(pk=cursor).values_list(by, flat=True).first()
    if value is None:
        raise Http404("there is no such row to go on from")
    # Said twice, so that an index on (by, pk) finds where to begin.
    return rows.filter(Q(**{f"{by}__{side}e": value}), Q(**{f"{by}__{side}": value}) | Q(here, **{by: value}))


def cursor_in(request: HttpRequest, name: str) -> int | None:
    text = request.GET.get(name)
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise Http404(f"{name} must be the id of a row")
    return int(text)


def query_with(request: HttpRequest, name: str, pk: int) -> str:
    """The page's own query string with another cursor: filters stay."""
    query: QueryDict = request.GET.copy()
    for cursor in ("before", "after"):
        query.pop(cursor, None)
    query[name] = str(pk)
    return "?" + query.urlencode()
