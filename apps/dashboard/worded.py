"""The rollouts of a run that say certain words, a page at a time: the index is asked for one part of the run after another."""

from collections.abc import Iterator

from django.db.models import Max, Min, QuerySet
from django.http import HttpRequest

from apps.dashboard.paging import PAGE_ROWS, Page, cursor_in, query_with
from apps.rollouts.models import Rollout
from apps.rollouts.words import Says, Sought, first_of, last_of, part_of
from apps.runs.models import Run

# Parts of 4,096 ids asked for at once: of a frequent word the first fills a page; of a rare one few looks go through millions.
LOOKS = (1, 4, 16, *(32,) * 17)


def page_of_words(
    rows: QuerySet[Rollout], sought: Sought, run: Run, request: HttpRequest, size: int = PAGE_ROWS, *,
    among: QuerySet[Rollout], reach: int | None,
) -> Page:  # fmt: skip
    """As page_of; with a `reach` as page_within, of so many of `among`.

    Its links go on beyond the last part that was looked through, should a run have more than a page looks at."""
    before, after = cursor_in(request, "before"), cursor_in(request, "after")
    is_upwards = after is not None
    cursor = after if is_upwards else before
    found, edge = ids_of(rows, sought, run, size + 1, cursor, is_upwards, among=among, reach=reach)
    has_more, found = len(found) > size, sorted(found[:size], reverse=True)
    if is_upwards:
        newer, older = (found[0] if has_more else edge), (found[-1] if found else None)
    else:
        newer, older = (found[0] if found and before is not None else None), (found[-1] if has_more else edge)
    return Page(
        rows=list(rows.filter(pk__in=found).order_by("-pk")) if found else [],
        newer=query_with(request, "after", newer) if newer is not None else "",
        older=query_with(request, "before", older) if older is not None else "",
        is_cut=edge is not None,
    )


def ids_of(
    rows: QuerySet[Rollout], sought: Sought, run: Run, most: int, cursor: int | None = None, is_upwards: bool = False, *,
    among: QuerySet[Rollout], reach: int | None,
) -> tuple[list[int], int | None]:  # fmt: skip
    """At most so many ids, from the cursor on; and up to which id was looked, where there are more of the run beyond it.

    `reach`: how many of `among` are looked through, where rows are asked for by what has no index besides.
    """
    ends = run.rollouts.aggregate(first=Min("pk"), last=Max("pk"))
    if ends["first"] is None:
        return [], None
    ahead = {f"pk__{'gt' if is_upwards else 'lt'}": cursor} if cursor is not None else {}
    edge = _edge(among.filter(**ahead), reach, is_upwards)
    rows = rows.filter(**ahead).order_by("pk" if is_upwards else "-pk").values_list("pk", flat=True)
    if edge is not None:
        rows = rows.filter(**{f"pk__{'lte' if is_upwards else 'gte'}": edge})
    low, high = _stretch(part_of(ends["first"]), part_of(ends["last"]), cursor, edge, is_upwards)
    found: list[int] = []
    reached = None
    for parts in _looks(low, high, is_upwards):
        found += rows.filter(*sought.phrases, Says(sought.within(run.pk, parts)))[: most - len(found)]
        last = parts[-1] if is_upwards else parts[0]
        if len(found) == most:
            return found, None
        if last == (high if is_upwards else low):
            return found, edge
        reached = last_of(last) if is_upwards else first_of(last)
    return found, reached


def _edge(ahead: QuerySet[Rollout], reach: int | None, is_upwards: bool) -> int | None:
    """The last of those that may be looked at; None where all may."""
    if reach is None:
        return None
    ids = ahead.order_by(*(("-run_id", "pk") if is_upwards else ("run_id", "-pk"))).values_list("pk", flat=True)
    return next(iter(ids[reach - 1 : reach]), None)


def _stretch(low: int, high: int, cursor: int | None, edge: int | None, is_upwards: bool) -> tuple[int, int]:
    """The parts of the run that lie between the cursor and the edge."""
    first, last = (cursor, edge) if is_upwards else (edge, cursor)
    return (low if first is None else max(low, part_of(first))), (high if last is None else min(high, part_of(last)))


def _looks(low: int, high: int, is_upwards: bool) -> Iterator[range]:
    """Stretches of parts, each in rising order, from one end of them on."""
    for wide in LOOKS:
        if low > high:
            return
        if is_upwards:
            yield range(low, min(high, low + wide - 1) + 1)
            low += wide
        else:
            yield range(max(low, high - wide + 1), high + 1)
            high -= wide
