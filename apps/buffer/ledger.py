"""What must be so of experience replay, seeds, offspring and retention: questions over the rows whose right answer is "none"."""

from collections.abc import Iterator, Sequence
from itertools import islice

from django.db.models import Count, Exists, F, IntegerField, OuterRef, Q, QuerySet, Sum, Value, Window
from django.db.models.fields.json import KeyTextTransform, KeyTransform
from django.db.models.functions import Cast, Coalesce, Lag, Left, Length

from apps.buffer.models import Experience, Offspring, Release, Seed, StepItem
from apps.buffer.models.replays import BATCH, batched
from apps.rollouts.models import Group, Rollout
from apps.runs.models import Run, TrainStep
from apps.tasksets.models import TaskParent

SHOWN = 20
# Of the run of an experience: in how many updates it may be; once, unless the run's `reading.replay` says otherwise.
USES_ALLOWED = Coalesce(
    Cast(KeyTextTransform("max_uses", KeyTransform("replay", KeyTransform("reading", "run__config"))), IntegerField()), Value(1)
)


def what_was_taken_again_was_allowed() -> Iterator[str]:
    """An item says whether an earlier step took it; a run that replays takes whole groups, no more and no sooner than it may."""
    items = StepItem.objects.filter(experience__kind=Experience.Kind.USUAL).select_related("step__run", "experience")
    sooner = {
        "experience": OuterRef("experience"),
        "step__run": OuterRef("step__run"),
        "step__number__lt": OuterRef("step__number"),
    }
    earlier = Exists(StepItem.objects.filter(**sooner))
    for item in items.filter(~earlier, is_again=True)[:SHOWN]:
        yield f"{item.step}: takes {item.experience} again, which no earlier step took"
    for item in items.filter(earlier, is_again=False)[:SHOWN]:
        yield f"{item.step}: takes {item.experience} as if for the first time, and an earlier step took it"
    again = items.filter(is_again=True)
    for run in Run.objects.filter(Q(groups_again__gt=0) | Exists(again.filter(step__run=OuterRef("pk")))):
        yield from _of_run(run, items.filter(step__run=run))


def seeds_are_what_they_were_taken_from() -> Iterator[str]:
    """A seed's group is of the same task, and its rollouts say what those say that they were copied from."""
    seeds = batched(Seed.objects.order_by("pk").iterator(BATCH), BATCH)
    yield from islice((why for some in seeds for why in _no_copies(some)), SHOWN)
    same = {name: OuterRef(name) for name in ("origin", "sample_index", "state", "text", "completion_tokens")}
    parent = Rollout.objects.filter(group=OuterRef("group__seed__of"), **same)
    copies = Rollout.objects.filter(group__seed__isnull=False, origin=Rollout.Origin.POLICY).order_by("pk")
    yield from (f"{rollout}: says something else than its parent" for rollout in copies.filter(~Exists(parent))[:SHOWN])
    for rollout in copies.filter(Q(first_version__gt=0) | Q(last_version__gt=0))[:SHOWN]:
        yield f"{rollout}: came from another run, and counts as sampled by version {rollout.last_version}"


def _no_copies(seeds: Sequence[Seed]) -> Iterator[str]:
    """Their groups are looked up by key: joining all, the planner has begun with groups times groups where the tables were new."""
    groups = Group.objects.select_related("run").in_bulk({pk for seed in seeds for pk in (seed.group_id, seed.of_id)})
    projects = dict(Run.objects.filter(pk__in={seed.run_id for seed in seeds}).values_list("pk", "project"))
    for seed in seeds:
        group, of = groups[seed.group_id], groups[seed.of_id]
        if (group.task_id, group.run_id, of.run.project_id) != (of.task_id, seed.run_id, projects[seed.run_id]):
            yield f"{group.run}: {group} is no copy of {of}"


def what_was_let_go_was_not_needed() -> Iterator[str]:
    """Arrays that went are gone, are counted, and nothing that learns or that people wrote went with them."""
    gone = Rollout.objects.filter(arrays_released_at__isnull=False).order_by("pk")
    yield from (f"{rollout}: its arrays were let go, and are there" for rollout in gone.filter(payload__isnull=False)[:SHOWN])
    for rollout in gone.filter(group__state__in=Group.OPEN)[:SHOWN]:
        yield f"{rollout}: its arrays were let go, and its group is {rollout.group.state}"
    for rollout in gone.filter(Q(origin=Rollout.Origin.EXPERT) | Q(interventions__isnull=False)).distinct()[:SHOWN]:
        yield f"{rollout}: its arrays were let go, and people's own words were in them"
    claimed = Q(experiences__step_items__step__state=TrainStep.State.PLANNED) & ~Q(run__state__in=Run.ENDED)
    ready = Q(experiences__state=Experience.State.READY) & ~Q(run__state__in=Run.ENDED)
    for rollout in gone.filter(claimed | ready).distinct()[:SHOWN]:
        yield f"{rollout}: its arrays were let go, and an update is to learn from them"
    counted = dict(Release.objects.order_by("run").values_list("run").annotate(n=Sum("rollouts")))
    there = dict(gone.order_by("run").values_list("run").annotate(n=Count("pk")))
    for run in Run.objects.filter(pk__in=counted.keys() | there.keys()):
        if counted.get(run.pk, 0) != there.get(run.pk, 0):
            yield f"{run}: arrays of {counted.get(run.pk, 0)} rollouts let go by the count, of {there.get(run.pk, 0)} by the rows"


def _of_run(run: Run, items: QuerySet[StepItem]) -> Iterator[str]:
    plan, again = run.settings, items.filter(is_again=True)
    counted = again.filter(step__state=TrainStep.State.COMMITTED).values("step", "experience__group").distinct().count()
    if counted != run.groups_again:
        yield f"{run}: {run.groups_again} groups taken again by the counter, {counted} by the rows"
    yield from _torn(run, again)
    if plan.replay:  # its batches are those of the run that it replays, less what was left out
        return
    by_step = again.values("step__number").annotate(n=Count("experience__group", distinct=True))
    for row in by_step.filter(n__gt=plan.groups_again_per_step)[:SHOWN]:
        yield f"{run}: step {row['step__number']} takes {row['n']} groups again, {plan.groups_again_per_step} may be"
    before = Window(Lag("step__number"), partition_by="experience", order_by="step__number")
    rest = getattr(plan.reading.replay, "cool_down", 0)
    for item in items.annotate(before=before).filter(before__gte=F("step__number") - rest)[:SHOWN]:
        yield f"{run}: step {item.step.number} takes {item.experience}, which step {item.before} took"


def _torn(run: Run, again: QuerySet[StepItem]) -> Iterator[str]:
    """Steps that took a part of a group again: its baseline is that of the whole."""
    usual = Experience.objects.usual().filter(run=run, state=Experience.State.TRAINED)
    whole = dict(usual.filter(group__in=again.values("experience__group")).values_list("group").annotate(n=Count("pk")))
    taken = again.values_list("step__number", "experience__group").annotate(n=Count("pk")).order_by("step__number")
    for number, group, count in taken:
        if count != whole.get(group, 0):
            yield f"{run}: step {number} takes {count} of the {whole.get(group, 0)} experiences of group {group} again"


def offspring_say_what_their_parents_said() -> Iterator[str]:
    """Each is its parent's beginning or all of it, stands in one expert row, and answers its parent's task or one made of that."""
    alone = Rollout.objects.filter(origin=Rollout.Origin.SYNTHETIC, group__draw_index=None, descent=None)
    yield from (f"{rollout}: made of nobody's answer" for rollout in alone[:SHOWN])
    born = Offspring.objects.exclude(rollout=None).select_related("rollout")
    said = born.annotate(beginning=Left("of__text", Length("rollout__text")))
    for one in said.exclude(rollout__text="").exclude(rollout__text=F("beginning"))[:SHOWN]:
        yield f"{one.rollout}: says something else than the answer that it was made of"
    right = Q(rollout__completion_tokens=F("tokens"), of__completion_tokens__gte=F("tokens"), of__run=F("run"))
    right &= Q(rollout__group__task=F("task"), rollout__run=F("run"), rollout__origin=Rollout.Origin.SYNTHETIC)
    for one in born.exclude(right)[:SHOWN]:
        yield f"{one.rollout}: is not what was to be made of rollout {one.of_id}"
    learned = Count("rollout__experiences", filter=Q(rollout__experiences__kind=Experience.Kind.EXPERT))
    yield from (f"{one.rollout}: {one.n} expert rows instead of one" for one in born.annotate(n=learned).exclude(n=1)[:SHOWN])
    strangers = Offspring.objects.exclude(task=F("of__group__task"))
    made = TaskParent.objects.filter(task=OuterRef("task"), parent=OuterRef("of__group__task"))
    for one in strangers.filter(~Exists(made))[:SHOWN]:
        yield f"offspring {one.pk}: answers task {one.task_id}, which was not made of its parent's"
