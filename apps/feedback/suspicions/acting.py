"""People's responses to a suspicion.

Each is a row with author and time, and an event of the run; completed steps stay.
"""

from collections.abc import Mapping

from django.db import transaction
from django.db.models import QuerySet

from apps.accounts.locking import lock_ids, lock_one, unit_of_work
from apps.accounts.models import AuditEntry, User
from apps.buffer.models import Experience
from apps.feedback.leaving_out import leave_out_made
from apps.feedback.models import Slot, Suspicion, SuspicionAction
from apps.rewards.hacking import TITLES
from apps.rollouts.excluded_tasks import LeftOut
from apps.rollouts.models import Group, Rollout
from apps.rollouts.models.groups import GroupQuerySet
from apps.runs.config import ConfigError
from apps.runs.models import NotPossible, Run

Verb = SuspicionAction.Verb


def still_there(suspicion: Suspicion) -> Suspicion:
    """Return the suspicion, locked. Raises NotPossible if somebody dismissed it."""
    locked = lock_one(
        Suspicion.objects.filter(pk=suspicion.pk).select_related("run__topic", "run__project")
    )
    if locked.state == Suspicion.State.DISMISSED:
        raise NotPossible("this suspicion has already been dismissed")
    return locked


def record_response(
    suspicion: Suspicion, verb: str, by: User, reason: str = "", details: Mapping | None = None
) -> SuspicionAction:
    """Save a response. The caller holds the transaction."""
    run = suspicion.run
    details = dict(details or {})
    action = SuspicionAction.objects.create(
        suspicion=suspicion, verb=verb, reason=reason[:500], details=details, by=by, step=run.step
    )
    run.topic.record(
        "suspicion_acted",
        suspicion=suspicion.pk,
        suspected=suspicion.kind,
        verb=verb,
        reason=reason,
        by=str(by),
        **details,
    )
    why = {"reason": reason[:500]} if reason else {}
    AuditEntry.record(
        f"suspicion {verb}",
        run.address,
        by,
        run.project,
        suspected=suspicion.kind,
        **why,
        **details,
    )
    return action


@unit_of_work
def dismiss(suspicion: Suspicion, by: User, reason: str) -> None:
    """Dismiss the suspicion with a reason. Raises ValueError without one."""
    if not reason.strip():
        raise ValueError("Enter a reason.")
    suspicion = still_there(suspicion)
    _close(suspicion, Suspicion.State.DISMISSED)
    record_response(suspicion, Verb.DISMISSED, by, reason.strip())


@unit_of_work
def drop_evidence(
    suspicion: Suspicion, by: User, reason: str = "", with_tasks: bool = False
) -> dict[str, int]:
    """Exclude the evidence from training from now on; return how many groups and tasks.

    Groups of the evidence that are not trained yet are dropped, whether open or ready. Groups in a
    planned step and trained ones stay, but are not taken again, and no later step takes expert
    rows that were made from them. `with_tasks` also excludes their tasks from this run. Raises
    NotPossible if no task would be left.
    """
    suspicion = still_there(suspicion)
    run = suspicion.run
    why = f"suspected of hacking: {TITLES[suspicion.kind].lower()}"
    tasks = list_evidence_tasks(suspicion) if with_tasks else set()
    doubtful = _doubtful(suspicion, tasks)
    locked = _lock_run_and_groups(doubtful, run)
    counts = {"groups": 0, "tasks": _leave_out(locked, tasks, why, by) if tasks else 0}
    dropped = doubtful.drop_open(why)
    Slot.objects.close(dropped)
    ids = set(doubtful.values_list("pk", flat=True))
    counts["groups"] = len(dropped) + Experience.objects.leave_out(locked, ids, why)
    Experience.objects.take_no_more(locked, ids, why)
    leave_out_made(locked, ids, why)
    _close(suspicion, Suspicion.State.ACTED)
    record_response(suspicion, Verb.DROPPED, by, reason, counts)
    return counts


def _lock_run_and_groups(doubtful: QuerySet[Group], run: Run) -> Run:
    """Lock the open groups among these with their slots, then the run, and return the run.

    Groups that were opened before the run was locked are locked first too, because a rollback to
    the savepoint unlocks the run.
    """
    open_ones = doubtful.filter(state__in=Group.OPEN)
    while True:
        locked_ids = lock_ids(open_ones)
        Slot.objects.lock_open(locked_ids)
        before = transaction.savepoint()
        locked = Run.locked(run.pk)
        if not open_ones.exclude(pk__in=locked_ids).exists():
            transaction.savepoint_commit(before)
            return locked
        transaction.savepoint_rollback(before)


def list_evidence_groups(suspicion: Suspicion) -> set[int]:
    """Return the groups of the suspicion's evidence."""
    return set(
        Rollout.objects.filter(pk__in=suspicion.evidence, run=suspicion.run_id).values_list(
            "group_id", flat=True
        )
    )


def list_evidence_tasks(suspicion: Suspicion) -> set[int]:
    """Return the tasks that the suspicion names, or, if it names none, those of its evidence."""
    if suspicion.tasks:
        return set(suspicion.tasks)
    return set(
        Rollout.objects.filter(pk__in=suspicion.evidence, run=suspicion.run_id).values_list(
            "group__task_id", flat=True
        )
    )


def untrained(suspicion: Suspicion, with_tasks: bool = False) -> int:
    """Return how many groups `drop_evidence` would exclude now.

    They are those of the evidence, or with `with_tasks` those of all its tasks.
    """
    groups = _doubtful(suspicion, list_evidence_tasks(suspicion) if with_tasks else set())
    ready = (
        Experience.objects.usual()
        .filter(group__in=groups, state=Experience.State.READY)
        .values("group")
        .distinct()
        .count()
    )
    return groups.filter(state__in=Group.OPEN).count() + ready


def _doubtful(suspicion: Suspicion, tasks: set[int]) -> GroupQuerySet:
    """Return the groups of its evidence; with tasks, all groups of these."""
    if tasks:
        return Group.objects.filter(run=suspicion.run_id, task__in=tasks, draw_index__isnull=False)
    return Group.objects.filter(run=suspicion.run_id, pk__in=list_evidence_groups(suspicion))


def _leave_out(run: Run, tasks: set[int], why: str, by: User) -> int:
    """Exclude these tasks from the run; return how many are new. The caller holds the run's row."""
    before = set(LeftOut.objects.filter(run=run).values_list("task_id", flat=True))
    new = set(run.tasks.filter(pk__in=tasks).values_list("pk", flat=True)) - before
    if len(before) + len(new) >= sum(taskset.size for taskset in run.tasksets):
        raise NotPossible(f"this would exclude all tasks of {run.asks_of} from this run")
    # Quarantined tasks become excluded by a person: nobody may release them as mere failures.
    LeftOut.objects.filter(run=run, task__in=tasks, failures__gt=0).update(
        by=by, reason=why[:200], failures=0
    )
    LeftOut.objects.bulk_create(
        (LeftOut(run=run, task_id=task, reason=why[:200], by=by) for task in sorted(new)),
        ignore_conflicts=True,
    )
    return len(new)


@unit_of_work
def reweight(
    suspicion: Suspicion, by: User, weights: Mapping[str, float], reason: str = ""
) -> dict[str, list[float]]:
    """Change the weights of these scorers for groups refined from now on.

    Returns {scorer: [before, after]}. The change is recorded like any change of the run's
    configuration. Raises ConfigError, and NotPossible if nothing would change.
    """
    suspicion = still_there(suspicion)
    run = suspicion.run
    before = {choice.scorer: choice.weight for choice in run.settings.rewards}
    if unknown := sorted(set(weights) - set(before)):
        raise ConfigError(
            {
                "rewards": (
                    f"{unknown[0]} is not a scorer of this run; its scorers: {', '.join(before)}"
                )
            }
        )
    turned = {
        name: [before[name], weight] for name, weight in weights.items() if weight != before[name]
    }
    if not turned:
        raise NotPossible("the weights didn’t change")
    choices = [choice.model_dump(mode="json") for choice in run.settings.rewards]
    run.change_config(
        by,
        rewards=[
            {**choice, "weight": weights.get(choice["scorer"], choice["weight"])}
            for choice in choices
        ],
    )
    _close(suspicion, Suspicion.State.ACTED)
    record_response(suspicion, Verb.REWEIGHTED, by, reason, {"weights": turned})
    return turned


def _close(suspicion: Suspicion, state: str) -> None:
    """Close the suspicion; replies sampled until now do not raise it again."""
    run = Run.objects.get(pk=suspicion.run_id)
    last = max(0, run.groups_opened - 1) // run.settings.groups_per_step
    Suspicion.objects.filter(pk=suspicion.pk).update(state=state, closed_step=last)
