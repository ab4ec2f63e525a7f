"""Names of new runs: a generated one, the next free one, and what is wrong with a typed one."""

from collections.abc import Mapping
from typing import Any

from django.core.exceptions import ValidationError
from django.core.validators import validate_slug
from django.utils.text import slugify

from apps.accounts.models import Project
from apps.dashboard.knobs import TAG
from apps.runs.naming import MAX_SLUG_LENGTH, free_name

MAX_STEM_LENGTH = MAX_SLUG_LENGTH - 8  # room for a dash and a number
TRIED_AT_ONCE = 100


def generated_slug(project: Project, values: Mapping[str, Any]) -> str:
    """Return a free name that says what is learned and how, such as `tone-grpo-2`.

    `values` is the configuration as it is shown; it may be invalid. One query.
    """
    algorithm = values.get("algorithm")
    method = algorithm.get(TAG) if isinstance(algorithm, Mapping) else algorithm
    words = (
        values.get("taskset") or values.get("policy"),
        "evaluation" if values.get("evaluation") is not None else method,
    )
    stem = slugify("-".join(word for word in words if isinstance(word, str)))
    return free_name(stem[:MAX_STEM_LENGTH].strip("-_") or "run", project.runs.all())


def slug_problem(project: Project, slug: str) -> str:
    """Return what is wrong with the name of a new run; "" if nothing is."""
    try:
        validate_slug(slug)
    except ValidationError:
        return "use letters, digits, dashes and underscores" if slug else "enter a name"
    if len(slug) > MAX_SLUG_LENGTH:
        return f"has {len(slug)} characters; at most {MAX_SLUG_LENGTH} are allowed"
    return refuse_taken_slug(project, slug) if project.runs.filter(slug=slug).exists() else ""


def refuse_taken_slug(project: Project, slug: str) -> str:
    return f"{project.slug} already has a run {slug}. {free_slug(project, slug)} is available"


def free_slug(project: Project, slug: str) -> str:
    """Return the slug with the lowest number that no run of the project has.

    One query per hundred taken numbers.
    """
    stem = slug.rstrip("0123456789").rstrip("-") or slug
    stem = stem[:MAX_STEM_LENGTH]
    first = 2
    while True:
        names = [f"{stem}-{n}" for n in range(first, first + TRIED_AT_ONCE)]
        used = set(project.runs.filter(slug__in=names).values_list("slug", flat=True))
        if free := [name for name in names if name not in used]:
            return free[0]
        first += TRIED_AT_ONCE
