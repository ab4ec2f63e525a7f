"""Lists paged by key: "newer" and "older" than an id, never an offset, whatever their size."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from django.db.models import F, Model, Q, QuerySet
from django.http import Http404, HttpRequest, QueryDict

M = TypeVar("M", bound=Model)
PAGE_ROWS = 50


@dataclass(frozen=True)
class Page(Generic[M]):
    """Rows, newest first, and the query strings of the neighbouring pages ("" if there is none)."""

    rows: Sequence[M]
    newer: str
    older: str
    is_cut: bool = False  # some rows were not scanned


def load_page(
    rows: QuerySet[M],
    request: HttpRequest,
    size: int = PAGE_ROWS,
    by: str = "",
    rising: bool = False,
    within: str = "",
) -> Page[M]:
    """Return the page that the URL asks for with `before=<id>` or `after=<id>`; one query.

    Raises Http404 for a cursor that is not an id.

    `by` is a column or annotation to sort by, largest first (smallest if `rising`), instead of the
    newest rows; rows without a value come last. This takes one more query, for the value of the
    cursor's row, which must be one of these rows: the position of any other row would reveal its
    value. `within` is a column that has one value in all these rows and is first in an index of
    them.
    """
    before = cursor_in(request, "before")
    after = cursor_in(request, "after")
    if after is not None:
        newer = _beyond(rows, after, by, not rising, is_back=True)
        page_rows = list(
            newer.order_by(*_order(rows, by, not rising, within, is_back=True))[: size + 1]
        )
        has_newer = len(page_rows) > size
        has_older = True
        page_rows = page_rows[:size][::-1]
    else:
        older = rows if before is None else _beyond(rows, before, by, rising)
        page_rows = list(older.order_by(*_order(rows, by, rising, within))[: size + 1])
        has_newer = before is not None
        has_older = len(page_rows) > size
        page_rows = page_rows[:size]
    return Page(
        rows=page_rows,
        newer=query_with(request, "after", page_rows[0].pk) if has_newer and page_rows else "",
        older=query_with(request, "before", page_rows[-1].pk) if has_older and page_rows else "",
    )


def _order(rows: QuerySet, by: str, rising: bool, within: str, is_back: bool = False) -> list:
    """Return the sort order, with the id last, so that no two rows are equal.

    Backwards, rows without a value come first.
    """
    if within:  # in the direction of the index, which is read from either end
        return [f"-{within}" if rising else within, "pk" if rising else "-pk"]
    if not by:
        return ["pk" if rising else "-pk"]
    nulls = (
        ({"nulls_first": True} if is_back else {"nulls_last": True})
        if _may_be_empty(rows, by)
        else {}
    )
    return [F(by).asc(**nulls) if rising else F(by).desc(**nulls), "pk" if rising else "-pk"]


def page_within(
    rows: QuerySet[M], among: QuerySet, reach: int, request: HttpRequest, within: str = ""
) -> Page[M]:
    """Return a page of rows that no index finds, like `load_page`.

    `reach` rows of `among` are scanned, and the links continue beyond them.
    """
    before = cursor_in(request, "before")
    after = cursor_in(request, "after")
    is_upwards = after is not None
    cursor = after if is_upwards else before
    ahead = (
        among if cursor is None else among.filter(**{f"pk__{'gt' if is_upwards else 'lt'}": cursor})
    )
    ahead = ahead.order_by(*_order(rows, "", is_upwards, within)).values_list("pk", flat=True)
    if not (edge := next(iter(ahead[reach - 1 : reach]), None)):
        return load_page(rows, request, within=within)
    if is_upwards:
        page = load_page(rows.filter(pk__lte=edge), request, within=within)
        return replace(
            page, newer=page.newer or query_with(request, "after", edge), is_cut=not page.newer
        )
    page = load_page(rows.filter(pk__gte=edge), request, within=within)
    return replace(
        page, older=page.older or query_with(request, "before", edge), is_cut=not page.older
    )


def _beyond(rows: QuerySet, cursor: int, by: str, rising: bool, is_back: bool = False) -> QuerySet:
    """Return the rows that follow the row `cursor` in this order."""
    side = "gt" if rising else "lt"
    beyond_cursor = Q(**{f"pk__{side}": cursor})
    if not by:
        return rows.filter(beyond_cursor)
    cursor_row = rows.order_by().filter(pk=cursor).values_list(by).first()
    if cursor_row is None:
        raise Http404("the row to continue from no longer exists; start from the first page")
    [value], is_empty = cursor_row, Q(**{f"{by}__isnull": True})
    if value is None:
        return (
            rows.filter((is_empty & beyond_cursor) | ~is_empty)
            if is_back
            else rows.filter(is_empty & beyond_cursor)
        )
    # Both conditions are needed, so that an index on (by, pk) finds the start.
    ahead = Q(**{f"{by}__{side}e": value}) & (
        Q(**{f"{by}__{side}": value}) | Q(beyond_cursor, **{by: value})
    )
    return rows.filter(ahead | is_empty if _may_be_empty(rows, by) and not is_back else ahead)


def _may_be_empty(rows: QuerySet, by: str) -> bool:
    """Tell whether the column may be null, so that nulls need a place in the order.

    An index of a column without nulls does not serve an order that places them.
    """
    return by in rows.query.annotations or rows.model._meta.get_field(by).null


def cursor_in(request: HttpRequest, name: str) -> int | None:
    text = request.GET.get(name)
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise Http404(f"{name} must be the id of a row")
    return int(text)


def query_with(request: HttpRequest, name: str, pk: int) -> str:
    """Return the page's query string with another cursor; filters stay."""
    query: QueryDict = request.GET.copy()
    for cursor in ("before", "after"):
        query.pop(cursor, None)
    query[name] = str(pk)
    return "?" + query.urlencode()
