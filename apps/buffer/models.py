"""What can be learned: experiences, and which of them each optimiser update took.

ready → claimed (planned into a step) → trained; or dropped with a reason. A batch, once planned, is what it is.
"""

from collections.abc import Iterable

from django.db import models, transaction
from django.db.models import Count, F, Q
from django.db.models.functions import Now

from apps.rollouts.models import Group, Rollout
from apps.runs.admission import oldest_allowed
from apps.runs.models import Run, TrainStep


class ExperienceQuerySet(models.QuerySet):
    def put(self, experiences: Iterable["Experience"]) -> None:
        """Add a group's experiences; adding them again changes nothing."""
        self.bulk_create(experiences, ignore_conflicts=True)

    def retire_stale(self, run: Run, trainer_version: int) -> int:
        """Drop ready groups older than the run's bound; returns how many groups. The run's row is locked by the caller.

        A group falls as a whole: its baseline is the mean over its rollouts. The run may open as many groups again.
        """
        oldest = oldest_allowed(trainer_version, run.settings.max_staleness)
        stale = self.filter(run=run, state=Experience.State.READY)
        groups = set(stale.filter(weight_version__lt=oldest).values_list("group_id", flat=True))
        if groups:
            stale.filter(group__in=groups).update(state=Experience.State.DROPPED, reason=f"stale: older than version {oldest}")
            Run.objects.filter(pk=run.pk).update(groups_dropped=F("groups_dropped") + len(groups))
        return len(groups)

    def oldest_groups(self, run: Run, count: int) -> list[int]:
        """Ids of the first `count` groups with ready experiences, in the order they were drawn."""
        ready = self.filter(run=run, state=Experience.State.READY).order_by("group__draw_index")
        return list(ready.values_list("group_id", flat=True).distinct()[:count])

    def census(self, run: Run) -> dict[str, int]:
        """How many experiences of the run stand in each state."""
        counts = dict(self.filter(run=run).values_list("state").annotate(n=Count("pk")))
        return {state: counts.get(state, 0) for state in Experience.State.values}


class Experience(models.Model):
    """A training-ready record of a rollout: the reward used, the advantage, and the version that sampled it."""

    class Kind(models.TextChoices):
        USUAL = "usual"
        EXPERT = "expert"
        SYNTHETIC = "synthetic"

    class State(models.TextChoices):
        READY = "ready"
        CLAIMED = "claimed"
        TRAINED = "trained"
        DROPPED = "dropped"

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="experiences")
    group = models.ForeignKey(Group, on_delete=models.CASCADE, related_name="experiences")
    rollout = models.ForeignKey(Rollout, on_delete=models.CASCADE, related_name="experiences")
    kind = models.CharField(max_length=9, choices=Kind.choices, default=Kind.USUAL)
    state = models.CharField(max_length=7, choices=State.choices, default=State.READY)
    reason = models.CharField(max_length=200, blank=True)
    reward = models.FloatField(help_text="The combined reward at admission; a later rating never changes it.")
    advantage = models.FloatField()
    weight_version = models.PositiveIntegerField(help_text="Oldest version that sampled a token of it.")
    uses = models.PositiveSmallIntegerField(default=0, help_text="Committed updates that trained on it.")
    created_at = models.DateTimeField(auto_now_add=True)

    objects = ExperienceQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["rollout", "kind"], name="one_experience_per_rollout_and_kind"),
            models.CheckConstraint(
                condition=Q(reward__gt=float("-inf"))
                & Q(reward__lt=float("inf"))
                & Q(advantage__gt=float("-inf"))
                & Q(advantage__lt=float("inf")),
                name="experiences_are_finite",
            ),
            models.CheckConstraint(condition=~Q(state="dropped") | ~Q(reason=""), name="a_dropped_experience_says_why"),
        ]
        indexes = [
            # ExperienceQuerySet.oldest_groups and retire_stale.
            models.Index(fields=["run", "group"], name="ready_experiences", condition=Q(state="ready")),
        ]

    def __str__(self) -> str:
        return f"experience {self.pk}"


class StepItem(models.Model):
    """That a step's batch holds an experience, and where. Recorded before training, never changed."""

    step = models.ForeignKey(TrainStep, on_delete=models.CASCADE, related_name="items")
    experience = models.ForeignKey(Experience, on_delete=models.CASCADE, related_name="step_items")
    position = models.PositiveIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["step", "experience"], name="once_per_step"),
            models.UniqueConstraint(fields=["step", "position"], name="one_experience_per_position"),
        ]


def plan_step(run: Run, fence: int) -> TrainStep | None:
    """Fix the batch of the run's next update: its oldest ready groups, or None while too few are ready.

    A step that was planned before (by a trainer that died) is returned as it stands. Experiences over the
    staleness bound are retired first, so no plan ever holds one. Raises StaleFence.
    """
    with run.fenced(fence) as locked:
        planned = locked.steps.filter(state=TrainStep.State.PLANNED).first()
        if planned or locked.step >= locked.planned_steps:
            return planned
        version = locked.step // locked.settings.sync_interval
        Experience.objects.retire_stale(locked, version)
        groups = Experience.objects.oldest_groups(locked, locked.settings.groups_per_step)
        if len(groups) < locked.settings.groups_per_step:
            return None
        return _plan(locked, version, fence, groups)


def _plan(run: Run, version: int, fence: int, groups: list[int]) -> TrainStep:
    step = TrainStep.objects.create(run=run, number=run.step + 1, version=version, fence=fence)
    batch = list(
        Experience.objects.filter(group__in=groups, state=Experience.State.READY)
        .order_by("group__draw_index", "rollout__sample_index", "kind")
        .values_list("pk", flat=True)
    )
    Experience.objects.filter(pk__in=batch).update(state=Experience.State.CLAIMED)
    StepItem.objects.bulk_create(StepItem(step=step, experience_id=pk, position=n) for n, pk in enumerate(batch))
    return step


def batch_of(step: TrainStep) -> list[Experience]:
    """The step's experiences in their recorded order, with rollouts and payloads at hand."""
    items = step.items.select_related("experience__rollout__payload").order_by("position")
    return [item.experience for item in items]


def commit_step(run: Run, step: TrainStep, fence: int, *, skipped: str = "") -> None:
    """Inside `run.fenced(fence)`: the update is done; its experiences are trained, the run is one step on."""
    with transaction.atomic():
        TrainStep.objects.filter(pk=step.pk, state=TrainStep.State.PLANNED).update(
            state=TrainStep.State.COMMITTED, committed_at=Now(), seconds=_age(F("planned_at")), fence=fence, skipped=skipped
        )
        Experience.objects.filter(step_items__step=step).update(state=Experience.State.TRAINED, uses=F("uses") + 1)
        Run.objects.filter(pk=run.pk).update(step=step.number)


def _age(moment: F) -> models.Func:
    span = models.ExpressionWrapper(Now() - moment, output_field=models.DurationField())
    return models.Func(models.Value("epoch"), span, function="date_part", output_field=models.FloatField())
