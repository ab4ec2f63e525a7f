"""Full-text search of a run's rollouts, one page at a time and one part of the index at a time."""

from collections.abc import Iterator
from typing import TypeVar

from django.db.models import Max, Min, QuerySet
from django.http import HttpRequest

from apps.dashboard.paging import PAGE_ROWS, Page, cursor_in, query_with
from apps.rollouts.full_text_search import (
    MatchesQuery,
    ParsedQuery,
    part_end,
    part_start,
    search_part,
)
from apps.rollouts.models import Rollout
from apps.runs.models import Run

R = TypeVar("R", bound=Rollout)
# Parts of 4,096 ids per query: for a frequent word the first fills a page; for a rare one a few
# queries cover millions of ids.
LOOKS = (1, 4, 16, *(32,) * 17)


def page_of_words(
    rows: QuerySet[R],
    sought: ParsedQuery,
    run: Run,
    request: HttpRequest,
    size: int = PAGE_ROWS,
    *,
    among: QuerySet[Rollout],
    reach: int | None,
) -> Page[R]:
    """Return a page as `page_of` does; with a `reach` as `page_within` over `among`.

    The links continue beyond the last part that was searched, if the run has more than one page
    searches.
    """
    before = cursor_in(request, "before")
    after = cursor_in(request, "after")
    is_upwards = after is not None
    cursor = after if is_upwards else before
    ids, edge = search_ids(
        rows, sought, run, size + 1, cursor, is_upwards, among=among, reach=reach
    )
    has_more = len(ids) > size
    ids = sorted(ids[:size], reverse=True)
    if is_upwards:
        newer = ids[0] if has_more else edge
        older = ids[-1] if ids else None
    else:
        newer = ids[0] if ids and before is not None else None
        older = ids[-1] if has_more else edge
    return Page(
        rows=list(rows.filter(pk__in=ids).order_by("-pk")) if ids else [],
        newer=query_with(request, "after", newer) if newer is not None else "",
        older=query_with(request, "before", older) if older is not None else "",
        is_cut=edge is not None,
    )


def search_ids(
    rows: QuerySet[Rollout],
    sought: ParsedQuery,
    run: Run,
    limit: int,
    cursor: int | None = None,
    is_upwards: bool = False,
    *,
    among: QuerySet[Rollout],
    reach: int | None,
) -> tuple[list[int], int | None]:
    """Return up to `limit` ids from the cursor on, and the id that the search has reached.

    That id is None if there is nothing beyond it. `reach` bounds how many of `among` are scanned if
    other conditions have no index.
    """
    ends = run.rollouts.aggregate(first=Min("pk"), last=Max("pk"))
    if ends["first"] is None:
        return [], None
    ahead = {f"pk__{'gt' if is_upwards else 'lt'}": cursor} if cursor is not None else {}
    edge = _edge(among.filter(**ahead), reach, is_upwards)
    ordered = rows.filter(**ahead).order_by("pk" if is_upwards else "-pk")
    keys = ordered.values_list("pk", flat=True)
    if edge is not None:
        keys = keys.filter(**{f"pk__{'lte' if is_upwards else 'gte'}": edge})
    low, high = _stretch(
        search_part(ends["first"]), search_part(ends["last"]), cursor, edge, is_upwards
    )
    ids: list[int] = []
    reached = None
    for parts in _looks(low, high, is_upwards):
        ids += keys.filter(*sought.phrases, MatchesQuery(sought.within(run.pk, parts)))[
            : limit - len(ids)
        ]
        last = parts[-1] if is_upwards else parts[0]
        if len(ids) == limit:
            return ids, None
        if last == (high if is_upwards else low):
            return ids, edge
        reached = part_end(last) if is_upwards else part_start(last)
    return ids, reached


def _edge(ahead: QuerySet[Rollout], reach: int | None, is_upwards: bool) -> int | None:
    """Return the last id that may be scanned; None if all may."""
    if reach is None:
        return None
    ids = ahead.order_by(*(("-run_id", "pk") if is_upwards else ("run_id", "-pk"))).values_list(
        "pk", flat=True
    )
    return next(iter(ids[reach - 1 : reach]), None)


def _stretch(
    low: int, high: int, cursor: int | None, edge: int | None, is_upwards: bool
) -> tuple[int, int]:
    """Return the parts of the run between the cursor and the edge."""
    first, last = (cursor, edge) if is_upwards else (edge, cursor)
    return (low if first is None else max(low, search_part(first))), (
        high if last is None else min(high, search_part(last))
    )


def _looks(low: int, high: int, is_upwards: bool) -> Iterator[range]:
    """Yield ranges of parts, each in rising order, starting from one end."""
    for wide in LOOKS:
        if low > high:
            return
        if is_upwards:
            yield range(low, min(high, low + wide - 1) + 1)
            low += wide
        else:
            yield range(max(low, high - wide + 1), high + 1)
            high -= wide
