"""Names that are free."""

from django.db.models import QuerySet

LONGEST_SLUG = 50


def free_name(wanted: str, among: QuerySet) -> str:
    """The slug `wanted`, or the first of `wanted-2`, `wanted-3`, … that none of these rows has."""
    wanted = wanted[:LONGEST_SLUG]
    taken = set(among.filter(slug__startswith=wanted[: LONGEST_SLUG - 4]).values_list("slug", flat=True))
    tried = (wanted, *(f"{wanted[: LONGEST_SLUG - 4]}-{n}" for n in range(2, 1000)))
    return next(name for name in tried if name not in taken)
