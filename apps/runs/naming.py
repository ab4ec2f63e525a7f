"""Free names for generated objects: the wanted name, or with a number."""

from itertools import chain, count
from typing import Any

from django.db.models import Manager, QuerySet

LONGEST_SLUG = 50


def free_name(preferred: str, among: QuerySet[Any] | Manager[Any]) -> str:
    """Return a slug that none of these rows has."""
    room = LONGEST_SLUG - 7
    taken_slugs = set(
        among.filter(slug__startswith=preferred[:room]).values_list("slug", flat=True)
    )
    tried = chain((preferred[:LONGEST_SLUG],), (f"{preferred[:room]}-{n}" for n in count(2)))
    return next(name for name in tried if name not in taken_slugs)
