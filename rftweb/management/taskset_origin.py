"""Names of new tasksets on the command line."""

from typing import Any

from django.core.management.base import CommandError

from apps.accounts.models import Project
from apps.tasksets.storing import Origin


def named_origin(option: str, project: Project, slug: str, *args: Any, **kwargs: Any) -> Origin:
    """Return the origin of a new taskset.

    Raises CommandError that names the option if pages could not show its name.
    """
    try:
        return Origin(project, slug, *args, **kwargs)
    except ValueError as error:
        raise CommandError(f"{option}: {error}") from None
