"""A run that has ended, once more: the same configuration, from the policy's first weights."""

import re
from itertools import count

from django.db import IntegrityError, transaction

from apps.accounts.models import User
from apps.runs.models import NotPossible, Run
from apps.runs.naming import MAX_SLUG_LENGTH


def can_run_again(run: Run) -> bool:
    """Tell whether the run's configuration alone determines what it does."""
    return run.state in Run.ENDED and not run.is_evaluation and run.settings.samples


def run_again(run: Run, by: User) -> Run:
    """Create the next run of this name and start it. Raises NotPossible and ConfigError."""
    if not can_run_again(run):
        raise NotPossible(
            f"run {run.slug} is {run.get_state_display()}; you can run it again only after it has "
            "ended"
        )
    slug = next_name(run)
    try:
        with transaction.atomic():
            new = Run.create(
                project=run.project, slug=slug, title=run.title, plan=run.settings, owner=by
            )
            new.start(by=by, reason=f"{run.slug} again")
    except IntegrityError:
        raise NotPossible(f"someone has just created run {slug}; try again") from None
    return new


def next_name(run: Run) -> str:
    """Return the first free slug among tone, tone-2, tone-3 … after the run's own."""
    parts = re.fullmatch(r"(.*?)(?:-([0-9]{1,6}))?", run.slug)
    assert parts is not None  # a slug is one line
    base, number = parts.groups()
    base = base[: MAX_SLUG_LENGTH - 7]
    taken_slugs = set(run.project.runs.filter(slug__startswith=base).values_list("slug", flat=True))
    tried = (f"{base}-{n}" for n in count(int(number or 1) + 1))
    return next(name for name in tried if name not in taken_slugs)
