"""A run that has ended, once more: the same configuration, from the policy's first weights."""

import re
from itertools import count

from django.db import IntegrityError, transaction

from apps.accounts.models import User
from apps.runs.models import NotPossible, Run
from apps.runs.naming import LONGEST_SLUG


def can_run_again(run: Run) -> bool:
    """Whether its configuration alone says what to do: not for evaluations, replays and lessons."""
    return run.state in Run.ENDED and not run.is_evaluation and run.settings.samples


def run_again(run: Run, by: User) -> Run:
    """Create the next run of this name and start it. Raises NotPossible and ConfigError."""
    if not can_run_again(run):
        raise NotPossible(
            f"run {run.slug} is {run.get_state_display()}; only one that has ended can be run again"
        )
    slug = next_name(run)
    try:
        with transaction.atomic():
            new = Run.create(
                project=run.project, slug=slug, title=run.title, plan=run.settings, owner=by
            )
            new.start(by=by, reason=f"{run.slug} once more")
    except IntegrityError:
        raise NotPossible(f"somebody has just made run {slug}; try again") from None
    return new


def next_name(run: Run) -> str:
    """tone, tone-2, tone-3 …: the first free number after its own."""
    base, number = re.fullmatch(r"(.*?)(?:-([0-9]{1,6}))?", run.slug).groups()
    base = base[: LONGEST_SLUG - 7]
    taken = set(run.project.runs.filter(slug__startswith=base).values_list("slug", flat=True))
    tried = (f"{base}-{n}" for n in count(int(number or 1) + 1))
    return next(name for name in tried if name not in taken)
