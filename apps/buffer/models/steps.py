"""Steps: which experiences each update takes, fixed when it is planned. A batch, once planned, is what it is."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from django.db import connection, models, transaction
from django.db.models import Case, Count, F, Q, Value, When
from django.db.models.functions import Now

from apps.accounts.locking import retrying
from apps.buffer.credit import Credit
from apps.buffer.models.experiences import Experience
from apps.buffer.models.reading import next_groups
from apps.runs.config import RunConfig
from apps.runs.models import Run, TrainStep
from apps.tasksets.drawing import position

# What each experience of a batch counts, by id; asked where that depends on the whole batch.
Crediting = Callable[[RunConfig, Sequence[Experience]], dict[int, Credit]]
NOTHING_LEFT = "its pipeline leaves nothing of the batch: "


@dataclass(frozen=True)
class Treated:
    """What operators made of a batch, by id of the experience: what it counts, where that is not its own advantage; and why it is
    left out, where it is.
    """

    credits: Mapping[int, Credit]
    left_out: Mapping[int, str] = field(default_factory=dict)


# What operators make of a batch, given the trainer's version and what each counts; asked within the transaction that plans it.
Treating = Callable[[Run, int, models.QuerySet, Mapping[int, Credit]], Treated]


class StepItem(models.Model):
    """That a step's batch holds an experience, and where. Recorded before training, never changed."""

    step = models.ForeignKey(TrainStep, on_delete=models.CASCADE, related_name="items")
    experience = models.ForeignKey(Experience, on_delete=models.CASCADE, related_name="step_items")
    position = models.PositiveIntegerField()
    advantage = models.FloatField(null=True, help_text="What it counted in this update; NULL: the experience's own advantage.")
    token_advantages = models.BinaryField(null=True, help_text="float32 per completion token, where they differ.")
    is_again = models.BooleanField(
        db_default=False, default=False, help_text="An earlier update had taken it: experience replay. Not said of an expert's."
    )

    left_out = models.CharField(
        max_length=200, blank=True, db_default="", default="", help_text="By which operator and why it teaches this update nothing."
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["step", "experience"], name="once_per_step"),
            models.UniqueConstraint(fields=["step", "position"], name="one_experience_per_position"),
        ]
        indexes = [
            # The newest of those, for the page of a pipeline.
            models.Index(fields=["-id"], name="left_out_of_updates", condition=~models.Q(left_out="")),
        ]


@retrying
def plan_step(run: Run, fence: int, crediting: Crediting | None = None, treating: Treating | None = None) -> TrainStep | None:
    """Fix the batch of the run's next update, its groups and its experts, or None while too few are ready.

    A step that was planned before (by a trainer that died) is returned as it stands. Experiences over the
    staleness bound are retired first, so no plan ever holds one. Where advantages depend on the whole batch,
    `crediting` is asked for them, and what it says is recorded with the batch; so is what `treating` makes of it. Raises
    StaleFence; ValueError when `crediting` is needed and missing.
    """
    with run.fenced(fence) as locked:
        planned = locked.steps.filter(state=TrainStep.State.PLANNED).first()
        if planned or locked.step >= locked.planned_steps:
            return planned
        version = locked.step // locked.settings.sync_interval
        Experience.objects.retire_stale(locked, version)
        groups = next_groups(locked)
        if not groups or experts_missing(locked):
            return None
        return record_batch(locked, fence, groups, crediting, _experts(locked, locked.step + 1, groups), treating)


def record_batch(
    run: Run, fence: int, groups: list[int], crediting: Crediting | None, experts: list[int], treating: Treating | None = None
) -> TrainStep:
    """The run's next step with these groups' experiences, ready or trained before, and these expert ones.

    One of which operators leave nothing that was sampled is skipped. The caller holds the run's row.
    """
    version = run.step // run.settings.sync_interval
    usable = (Experience.State.READY, Experience.State.TRAINED)
    taken = Experience.objects.usual().filter(group__in=groups, state__in=usable)
    taken = taken.order_by("group__draw_index", "rollout__sample_index")
    batch, credits = dict(taken.values_list("pk", "state")), {}
    if run.settings.algorithm.advantage.over_batch:
        if crediting is None:
            raise ValueError(f"{run.settings.algorithm.advantage.name} depends on the whole batch; give `crediting`")
        credits = crediting(run.settings, list(taken.select_related("rollout__payload")))
    treated = treating(run, version, taken, credits) if treating else Treated(credits)
    skipped = NOTHING_LEFT + treated.left_out[next(iter(batch))] if treated.left_out.keys() >= batch.keys() else ""
    step = TrainStep.plan(run, fence, skipped)
    again = {pk for pk, state in batch.items() if state == Experience.State.TRAINED}
    Experience.objects.filter(pk__in=batch.keys() - again).update(state=Experience.State.CLAIMED)
    rows = (_item(pk, treated, pk in again) for pk in (*batch, *experts))
    with connection.cursor() as cursor:  # bulk_create's placeholders for each value cost three times as much
        cursor.execute(PUT_ITEMS, [step.pk, *map(list, zip(*rows, strict=True))])
    return step


def _item(experience: int, treated: Treated, is_again: bool) -> tuple[int, float | None, bytes | None, bool, str]:
    credit = treated.credits.get(experience)
    counts = (credit.advantage, credit.packed) if credit else (None, None)
    return experience, *counts, is_again, treated.left_out.get(experience, "")[:200]


PUT_ITEMS = """
    INSERT INTO buffer_stepitem (step_id, experience_id, advantage, token_advantages, is_again, left_out, position)
    SELECT %s, experience, advantage, tokens, is_again, left_out, place - 1
    FROM unnest(%s::bigint[], %s::float8[], %s::bytea[], %s::boolean[], %s::text[])
        WITH ORDINALITY AS t(experience, advantage, tokens, is_again, left_out, place)"""


def experts_missing(run: Run) -> int:
    """How many more expert experiences the run needs before its batches have the share that is asked for."""
    if not run.settings.expert_rows_per_step:
        return 0
    expert = run.settings.algorithm.expert
    asks = run.settings.people.schedule  # rewrites come while the run learns: it takes those that are there
    if expert.source == "same_prompt" or (asks and asks.rewrites):  # a group of which nobody has shown the answer learns without
        return 0
    if run.settings.makes_experts:  # its own best answers come while it learns, too
        return 0
    return max(0, run.settings.expert_rows_per_step - Experience.objects.expert().filter(run=run).count())


def _experts(run: Run, number: int, groups: list[int]) -> list[int]:
    """The expert experiences of a step, all different: a seeded shuffle of the run's experts per epoch, read on and on."""
    plan = run.settings
    if not plan.expert_rows_per_step:
        return []
    experts = Experience.objects.expert().filter(run=run, state=Experience.State.READY)
    if plan.algorithm.expert.source == "same_prompt":
        experts = experts.filter(group__task__in=run.groups.filter(pk__in=groups).values("task"))
    known = list(experts.order_by("pk").values_list("pk", flat=True))
    wanted, draw = min(plan.expert_rows_per_step, len(known)), (number - 1) * plan.expert_rows_per_step
    taken: dict[int, None] = {}
    while len(taken) < wanted:  # within two epochs every expert has come at least once
        taken[known[position(draw, len(known), plan.seed)]] = None
        draw += 1
    return list(taken)


def batch_of(step: TrainStep) -> list[Experience]:
    """The step's experiences in their recorded order, with rollouts and payloads.

    Each with `credit` (what it counts), `is_again` and `left_out`.
    """
    items = step.items.select_related("experience__rollout__payload").order_by("position")
    return [_credited(item) for item in items]


def _credited(item: StepItem) -> Experience:
    item.experience.is_again, item.experience.left_out = item.is_again, item.left_out
    if item.advantage is not None:
        item.experience.credit = Credit.unpack(item.advantage, item.token_advantages)
    return item.experience


def commit_step(run: Run, step: TrainStep, fence: int, *, skipped: str = "") -> None:
    """Inside `run.fenced(fence)`: the update is done; its experiences are trained, the run is one step on."""
    with transaction.atomic():
        TrainStep.objects.filter(pk=step.pk, state=TrainStep.State.PLANNED).update(
            state=TrainStep.State.COMMITTED, committed_at=Now(), seconds=_age(F("planned_at")), fence=fence, skipped=skipped
        )
        becomes = Case(When(kind=Experience.Kind.EXPERT, then=F("state")), default=Value(Experience.State.TRAINED))
        Experience.objects.filter(step_items__step=step).update(state=becomes, uses=F("uses") + 1)
        usual = Q(experience__kind=Experience.Kind.USUAL)
        taken = step.items.aggregate(
            again=Count("experience__group", distinct=True, filter=Q(is_again=True)),
            first=Count("pk", filter=usual & Q(is_again=False)),
        )
        Run.objects.filter(pk=run.pk).update(
            step=step.number,
            groups_again=F("groups_again") + taken["again"],
            experiences_trained=F("experiences_trained") + taken["first"],
        )


def _age(moment: F) -> models.Func:
    span = models.ExpressionWrapper(Now() - moment, output_field=models.DurationField())
    return models.Func(Value("epoch"), span, function="date_part", output_field=models.FloatField())
