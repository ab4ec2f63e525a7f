"""Which runs have something to sample now, told from rows alone, before any engine is built."""

from collections.abc import Sequence

from django.db.models import Q
from django.db.models.functions import Now

from apps.environments.choosing import find as find_environment
from apps.environments.closing import rests
from apps.policies.manifest import DamagedWeights, read_manifest
from apps.policies.transfer.wanted import NotFetched
from apps.rollouts.models import Group
from apps.runs.admission import groups_allowed
from apps.runs.models import Run
from workers import weight_folders

COPIES = 2  # of the weights: in service, and the next version while it is read; or the cache


def due_among(runs: Sequence[Run]) -> set[int]:
    """Ids of those that may open groups, or have groups that nobody samples.

    Such groups were opened by callers, were set aside, or were left by an explorer.
    """
    known = [run.pk for run in runs]
    free = Q(lease_until=None) | Q(lease_until__lt=Now())
    waiting = Group.objects.filter(free, run__in=known, state=Group.State.SAMPLING)
    left = set(waiting.order_by().values_list("run", flat=True).distinct()) if runs else set()
    return left | {run.pk for run in runs if _may_open(run)}


def _may_open(run: Run) -> bool:
    return not run.settings.serve and groups_allowed(run.pace) > 0


def rests_now(run: Run) -> bool:
    """Whether its environment failed so often that nothing is played in it for now."""
    choice = run.settings.environment
    if choice is None:
        return False
    try:
        return rests(find_environment(run.project, choice.name))
    except LookupError:
        return False  # whoever takes the seat says what is missing


def expected_bytes(run: Run) -> int:
    """Roughly what an engine of the run's policy takes; 0 where it cannot be loaded anyway."""
    try:
        files = read_manifest(weight_folders.of_policy(run.policy)).files
    except (DamagedWeights, NotFetched, OSError):
        return 0
    return COPIES * sum(entry.bytes for entry in files.values())
