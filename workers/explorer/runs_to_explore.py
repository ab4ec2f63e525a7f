"""The runs that have something to sample now, found from rows before any engine is built."""

from collections.abc import Sequence

from apps.environments.closing import rests
from apps.environments.environment_lookup import find_or_register as find_environment
from apps.policies.manifest import DamagedWeights, read_manifest
from apps.policies.models import Policy
from apps.policies.transfer.weights_request import NotFetched
from apps.rollouts.models import Group
from apps.runs.admission import groups_allowed
from apps.runs.models import Run
from workers import weight_folders

# Copies of the weights: the served one, and the next version during a load, or the cache.
COPIES = 2


def list_runs_to_explore(runs: Sequence[Run]) -> set[int]:
    """Return the ids of runs that may open groups, or have open groups that nobody samples.

    Such groups were opened by API callers, or released by an explorer.
    """
    run_ids = [run.pk for run in runs]
    waiting = Group.objects.free().filter(run__in=run_ids, state=Group.State.SAMPLING)
    waiting_runs = (
        set(waiting.order_by().values_list("run", flat=True).distinct()) if runs else set()
    )
    return waiting_runs | {run.pk for run in runs if _may_open(run)}


def _may_open(run: Run) -> bool:
    return not run.settings.serve and groups_allowed(run.pace) > 0


def rests_now(run: Run) -> bool:
    """Tell whether the run's environment failed so often that nothing is played in it for now."""
    choice = run.settings.environment
    if choice is None:
        return False
    try:
        return rests(find_environment(run.project, choice.name))
    except LookupError:
        return False  # the session reports what is missing


def estimate_engine_bytes(policy: Policy) -> int:
    """Return the approximate memory of an engine of the policy.

    0 where it cannot be loaded.
    """
    try:
        files = read_manifest(weight_folders.of_policy(policy)).files
    except (DamagedWeights, NotFetched, OSError):
        return 0
    return COPIES * sum(entry.bytes for entry in files.values())
