"""Free names for generated objects: the wanted name, or with a number."""

from itertools import chain, count
from typing import Any

from django.db.models import Manager, QuerySet

MAX_SLUG_LENGTH = 50


def free_name(preferred: str, among: QuerySet[Any] | Manager[Any]) -> str:
    """Return a slug that none of these rows has."""
    room = MAX_SLUG_LENGTH - 7
    taken_slugs = set(
        among.filter(slug__startswith=preferred[:room]).values_list("slug", flat=True)
    )
    tried = chain((preferred[:MAX_SLUG_LENGTH],), (f"{preferred[:room]}-{n}" for n in count(2)))
    return next(name for name in tried if name not in taken_slugs)
