"""Retention: delete the arrays of groups that are no longer needed.

Text, rewards and numbers stay.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings
from django.db import models, transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.db.models.functions import Now

from apps.accounts.locking import lock_ids, retrying
from apps.buffer.models import Experience, Release, StepItem
from apps.buffer.models.experiences import ExperienceQuerySet
from apps.buffer.models.replays import batched
from apps.rollouts.models import GAVE_UP, Group, Rollout, RolloutPayload
from apps.runs.admission import oldest_allowed
from apps.runs.models import Run, TrainStep
from apps.runs.retention import Retention

# Groups per transaction, which holds the run's row: its trainer plans nothing meanwhile.
GROUPS_AT_ONCE = 100
IN_USE = (Experience.State.READY, Experience.State.CLAIMED)


@dataclass(frozen=True)
class ReleaseSize:
    """The size of what retention deleted or would delete: groups, rollouts and bytes."""

    groups: int = 0
    rollouts: int = 0
    bytes: int = 0

    def __add__(self, other: "ReleaseSize") -> "ReleaseSize":
        return ReleaseSize(
            self.groups + other.groups, self.rollouts + other.rollouts, self.bytes + other.bytes
        )


def find_retention_rule(run: Run) -> Retention | None:
    """Return the run's own retention rule, or the installation's for an ended run without one.

    None means that nothing is deleted.
    """
    if run.settings.retention or run.state not in Run.ENDED or not settings.RETENTION_DAYS:
        return run.settings.retention
    return Retention(days=settings.RETENTION_DAYS)


@retrying
def release_arrays(run: Run, rule: Retention, among: Sequence[int]) -> ReleaseSize:
    """Delete the arrays of those of these groups that are due, in one transaction."""
    with transaction.atomic():
        lock_ids(Group.objects.filter(pk__in=among))
        lock_ids(Rollout.objects.filter(group__in=among))
        locked = Run.locked(run.pk)
        groups = list(
            list_groups_due(locked, rule).filter(pk__in=among).values_list("pk", flat=True)
        )
        payloads = _arrays(groups)
        sizes = dict(payloads.annotate(size=_octets()).values_list("pk", "size"))
        if not sizes:
            return ReleaseSize()
        Rollout.objects.filter(pk__in=sizes).update(arrays_released_at=Now())
        payloads.filter(pk__in=sizes).delete()
        size = ReleaseSize(len(groups), len(sizes), sum(sizes.values()))
        Release.objects.create(
            run=locked, groups=size.groups, rollouts=size.rollouts, bytes=size.bytes
        )
    return size


def released(run: Run, rule: Retention) -> Iterator[ReleaseSize]:
    """Delete all arrays that are due, one transaction per batch, and yield each batch's size.

    Due groups are first found without a lock, then checked again for each batch with the run's row
    locked.
    """
    for some in batched(_due_now(run, rule), GROUPS_AT_ONCE):
        if (size := release_arrays(run, rule, some)).groups:
            yield size


def would_go(run: Run, rule: Retention) -> ReleaseSize:
    """Return the size of what is due now, without deleting anything."""
    return sum(
        (_size(some) for some in batched(_due_now(run, rule), GROUPS_AT_ONCE)), ReleaseSize()
    )


def _due_now(run: Run, rule: Retention) -> list[int]:
    """Return the ids of due groups, with the run's row read afresh."""
    return list(list_groups_due(Run.objects.get(pk=run.pk), rule).values_list("pk", flat=True))


def _size(groups: Sequence[int]) -> ReleaseSize:
    totals = _arrays(groups).aggregate(rollouts=models.Count("pk"), bytes=models.Sum(_octets()))
    return ReleaseSize(len(groups), totals["rollouts"], totals["bytes"] or 0)


def list_groups_due(run: Run, rule: Retention) -> QuerySet[Group]:
    """Return the groups whose arrays the rule releases and that nothing may need, oldest first."""
    if _is_awaited(run):
        return run.groups.none()
    closed = run.groups.filter(state__in=Group.CLOSED, draw_index__isnull=False)
    open_items = Q(items__state="open")  # a rater may still be shown it
    written = Q(rollouts__interventions__isnull=False)  # the arrays contain people's own text
    releasable = closed.filter(Exists(_arrays(OuterRef("pk"), "")), _expired_by(run, rule))
    releasable = releasable.exclude(
        Exists(Group.objects.filter(open_items | written, pk=OuterRef("pk")))
    )
    return (releasable if run.state in Run.ENDED else releasable.exclude(_needed(run))).order_by(
        "pk"
    )


def _arrays(groups: object, suffix: str = "__in") -> QuerySet[RolloutPayload]:
    """Return the payloads of these groups' sampled rollouts; expert answers are not among them."""
    return RolloutPayload.objects.filter(**{f"rollout__group{suffix}": groups}).exclude(
        rollout__origin=Rollout.Origin.EXPERT
    )


def _octets() -> models.Func:
    return models.Func(F("data"), function="octet_length", output_field=models.BigIntegerField())


def _expired_by(run: Run, rule: Retention) -> Q:
    old = Q(closed_at__lte=Now() - timedelta(days=rule.days)) if rule.days else Q()
    if not rule.uses:
        return old
    used = Q(Exists(_of_group(run).filter(state=Experience.State.TRAINED, uses__gte=rule.uses)))
    return old | used if rule.days else used


def _of_group(run: Run) -> ExperienceQuerySet:
    return Experience.objects.filter(run=run, group=OuterRef("pk"))


def _needed(run: Run) -> Q:
    """Return the condition for groups of a live run whose arrays may still be needed.

    A step may take them, or make them again after a crash, or the refiner may be given them once
    more.
    """
    of_group = _of_group(run)
    step_items = StepItem.objects.filter(step__run=run, experience__group=OuterRef("pk"))
    in_use = of_group.usual().filter(state__in=IN_USE)
    needed = GAVE_UP | Q(Exists(in_use)) | Q(Exists(of_group.expert()))
    needed |= Q(Exists(step_items.filter(step__number__gt=_safe_step(run))))
    if run.settings.groups_again_per_step:
        needed |= Q(Exists(_may_come_again(run, of_group)))
    return needed


def _may_come_again(run: Run, of_group: ExperienceQuerySet) -> ExperienceQuerySet:
    oldest = oldest_allowed(run.step // run.settings.sync_interval, run.settings.max_staleness)
    max_uses = run.settings.reading.replay.max_uses
    return of_group.usual().filter(
        state=Experience.State.TRAINED, reason="", weight_version__gte=oldest, uses__lt=max_uses
    )


def _safe_step(run: Run) -> int:
    """Return a step before every kept checkpoint: later steps may have to be made again."""
    checkpoints = run.settings.checkpoints
    changes = run.topic.events.filter(kind="config_changed", payload__before__has_key="checkpoints")
    rarest: int = max(
        [checkpoints.every, *changes.values_list("payload__before__checkpoints__every", flat=True)]
    )
    return run.step - (checkpoints.keep + 1) * rarest


def _is_awaited(run: Run) -> bool:
    """Tell whether a run that replays this one has not copied its data yet."""
    replaying = Run.objects.filter(project=run.project_id, config__replay__run=run.slug).exclude(
        state__in=Run.ENDED
    )
    return replaying.filter(recorded=None).exists()


def count_deleted_arrays(steps: QuerySet[TrainStep]) -> int:
    """Return how many of the rollouts in these steps' batches have had their arrays deleted."""
    without_arrays = Rollout.objects.filter(
        arrays_released_at__isnull=False, experiences__step_items__step__in=steps
    )
    return without_arrays.distinct().count()
