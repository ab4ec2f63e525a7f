"""Integrity checks of experience replay, seeds, offspring and retention.

Each check yields one sentence per violation; a sound database yields none.
"""

from collections.abc import Iterator, Sequence
from itertools import islice

from django.db.models import (
    Count,
    Exists,
    F,
    IntegerField,
    OuterRef,
    Q,
    QuerySet,
    Sum,
    Value,
    Window,
)
from django.db.models.fields.json import KeyTextTransform, KeyTransform
from django.db.models.functions import Cast, Coalesce, Lag, Left, Length

from apps.buffer.models import Experience, Offspring, Release, Seed, StepItem
from apps.buffer.models.replays import BATCH, batched
from apps.rollouts.models import Group, Rollout
from apps.runs.models import Run, TrainStep
from apps.tasksets.models import TaskParent

SHOWN = 20
# The number of steps that may take an experience of the run: 1 unless `reading.replay` sets
# another.
USES_ALLOWED = Coalesce(
    Cast(
        KeyTextTransform(
            "max_uses", KeyTransform("replay", KeyTransform("reading", "run__config"))
        ),
        IntegerField(),
    ),
    Value(1),
)


def experience_replay_stays_within_its_limits() -> Iterator[str]:
    """Yield violations of experience replay.

    Each step item must record correctly whether an earlier step took its experience, and a run that
    replays must take whole groups, no more often and no sooner than its settings allow.
    """
    items = StepItem.objects.filter(experience__kind=Experience.Kind.USUAL).select_related(
        "step__run", "experience"
    )
    sooner = {
        "experience": OuterRef("experience"),
        "step__run": OuterRef("step__run"),
        "step__number__lt": OuterRef("step__number"),
    }
    earlier = Exists(StepItem.objects.filter(**sooner))
    for item in items.filter(~earlier, is_again=True)[:SHOWN]:
        yield f"{item.step}: marks {item.experience} as replayed, but no earlier step used it"
    for item in items.filter(earlier, is_again=False)[:SHOWN]:
        yield (f"{item.step}: marks {item.experience} as new, but an earlier step used it")
    again = items.filter(is_again=True)
    for run in Run.objects.filter(
        Q(groups_again__gt=0) | Exists(again.filter(step__run=OuterRef("pk")))
    ):
        yield from _check_run(run, items.filter(step__run=run))


def seeds_match_their_originals() -> Iterator[str]:
    """Yield seeded groups that differ from their source in task or in the text of a rollout."""
    seeds = batched(Seed.objects.order_by("pk").iterator(BATCH), BATCH)
    yield from islice((why for some in seeds for why in _no_copies(some)), SHOWN)
    equal_fields = {
        name: OuterRef(name)
        for name in ("origin", "sample_index", "state", "text", "completion_tokens")
    }
    parent = Rollout.objects.filter(group=OuterRef("group__seed__of"), **equal_fields)
    copies = Rollout.objects.filter(
        group__seed__isnull=False, origin=Rollout.Origin.POLICY
    ).order_by("pk")
    yield from (
        f"{rollout}: the text differs from its original"
        for rollout in copies.filter(~Exists(parent))[:SHOWN]
    )
    for rollout in copies.filter(Q(first_version__gt=0) | Q(last_version__gt=0))[:SHOWN]:
        yield (f"{rollout}: copied from another run, but has weight version {rollout.last_version}")


def _no_copies(seeds: Sequence[Seed]) -> Iterator[str]:
    """Yield seeds whose group differs from its source in task, run or project.

    Groups are looked up by key. With a join over everything, the planner chose a product of groups
    with groups while the tables were new.
    """
    groups = Group.objects.select_related("run").in_bulk(
        {pk for seed in seeds for pk in (seed.group_id, seed.of_id)}
    )
    projects = dict(
        Run.objects.filter(pk__in={seed.run_id for seed in seeds}).values_list("pk", "project")
    )
    for seed in seeds:
        group = groups[seed.group_id]
        of = groups[seed.of_id]
        if (group.task_id, group.run_id, of.run.project_id) != (
            of.task_id,
            seed.run_id,
            projects[seed.run_id],
        ):
            yield f"{group.run}: {group} differs from its original {of}"


def deleted_arrays_are_not_needed() -> Iterator[str]:
    """Yield violations of retention.

    Released arrays must be gone and counted, and neither training data nor anything that people
    wrote may have been released with them.
    """
    released = Rollout.objects.filter(arrays_released_at__isnull=False).order_by("pk")
    yield from (
        f"{rollout}: marked as having no arrays, but they still exist"
        for rollout in released.filter(payload__isnull=False)[:SHOWN]
    )
    for rollout in released.filter(group__state__in=Group.OPEN)[:SHOWN]:
        yield f"{rollout}: its arrays were deleted, but its group is {rollout.group.state}"
    for rollout in released.filter(
        Q(origin=Rollout.Origin.EXPERT) | Q(interventions__isnull=False)
    ).distinct()[:SHOWN]:
        yield f"{rollout}: its arrays were deleted, although they contain text by people"
    claimed = Q(experiences__step_items__step__state=TrainStep.State.PLANNED) & ~Q(
        run__state__in=Run.ENDED
    )
    ready = Q(experiences__state=Experience.State.READY) & ~Q(run__state__in=Run.ENDED)
    for rollout in released.filter(claimed | ready).distinct()[:SHOWN]:
        yield f"{rollout}: its arrays were deleted, but a step still needs them"
    counted = dict(Release.objects.order_by("run").values_list("run").annotate(n=Sum("rollouts")))
    rows_by_run = dict(released.order_by("run").values_list("run").annotate(n=Count("pk")))
    for run in Run.objects.filter(pk__in=counted.keys() | rows_by_run.keys()):
        if counted.get(run.pk, 0) != rows_by_run.get(run.pk, 0):
            yield (
                f"{run}: the counter has {counted.get(run.pk, 0)} rollouts without arrays, "
                f"the rows {rows_by_run.get(run.pk, 0)}"
            )


def _check_run(run: Run, items: QuerySet[StepItem]) -> Iterator[str]:
    plan = run.settings
    again = items.filter(is_again=True)
    counted = (
        again.filter(step__state=TrainStep.State.COMMITTED)
        .values("step", "experience__group")
        .distinct()
        .count()
    )
    if counted != run.groups_again:
        yield f"{run}: the counter has {run.groups_again} replayed groups, the rows {counted}"
    yield from _partly_replayed_groups(run, again)
    if plan.replay:  # its batches are those of the recorded run, less what was excluded
        return
    by_step = again.values("step__number").annotate(n=Count("experience__group", distinct=True))
    for row in by_step.filter(n__gt=plan.groups_again_per_step)[:SHOWN]:
        yield (
            f"{run}: step {row['step__number']} replays {row['n']} groups; the limit is "
            f"{plan.groups_again_per_step}"
        )
    before = Window(Lag("step__number"), partition_by="experience", order_by="step__number")
    cool_down = getattr(plan.reading.replay, "cool_down", 0)
    for item in items.annotate(before=before).filter(before__gte=F("step__number") - cool_down)[
        :SHOWN
    ]:
        yield (
            f"{run}: step {item.step.number} uses {item.experience}, which step {item.before} "
            "already used"
        )


def _partly_replayed_groups(run: Run, again: QuerySet[StepItem]) -> Iterator[str]:
    """Yield steps that replayed only a part of a group.

    A baseline is computed over the whole group, so a part alone would have the wrong one.
    """
    usual = Experience.objects.usual().filter(run=run, state=Experience.State.TRAINED)
    whole = dict(
        usual.filter(group__in=again.values("experience__group"))
        .values_list("group")
        .annotate(n=Count("pk"))
    )
    replayed_counts = (
        again.values_list("step__number", "experience__group")
        .annotate(n=Count("pk"))
        .order_by("step__number")
    )
    for number, group, count in replayed_counts:
        if count != whole.get(group, 0):
            yield (
                f"{run}: step {number} replays only {count} of the {whole.get(group, 0)} "
                f"experiences of group {group}"
            )


def derived_rollouts_match_their_parents() -> Iterator[str]:
    """Yield offspring that do not match their parents.

    Each must be its parent's whole text or its beginning, have one expert experience, and answer
    its parent's task or one made from that task.
    """
    alone = Rollout.objects.filter(
        origin=Rollout.Origin.SYNTHETIC, group__draw_index=None, descent=None
    )
    yield from (f"{rollout}: synthetic rollout without a parent" for rollout in alone[:SHOWN])
    born = Offspring.objects.exclude(rollout=None).select_related("rollout")
    with_beginning = born.annotate(beginning=Left("of__text", Length("rollout__text")))
    for offspring in with_beginning.exclude(rollout__text="").exclude(rollout__text=F("beginning"))[
        :SHOWN
    ]:
        yield f"{offspring.rollout}: the text differs from the answer it was made from"
    right = Q(
        rollout__completion_tokens=F("tokens"),
        of__completion_tokens__gte=F("tokens"),
        of__run=F("run"),
    )
    right &= Q(
        rollout__group__task=F("task"),
        rollout__run=F("run"),
        rollout__origin=Rollout.Origin.SYNTHETIC,
    )
    for wrong in born.exclude(right)[:SHOWN]:
        yield f"{wrong.rollout}: does not match what should be made from rollout {wrong.of_id}"
    learned = Count(
        "rollout__experiences", filter=Q(rollout__experiences__kind=Experience.Kind.EXPERT)
    )
    yield from (
        f"{offspring.rollout}: has {offspring.n} expert experiences instead of one"
        for offspring in born.annotate(n=learned).exclude(n=1)[:SHOWN]
    )
    strangers = Offspring.objects.exclude(task=F("of__group__task"))
    parent_links = TaskParent.objects.filter(
        task=OuterRef("task"), parent=OuterRef("of__group__task")
    )
    for stranger in strangers.filter(~Exists(parent_links))[:SHOWN]:
        yield (
            f"offspring {stranger.pk}: answers task {stranger.task_id}, which was not made from "
            "its parent's task"
        )
