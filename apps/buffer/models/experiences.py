"""Experiences: training-ready records of rollouts.

A usual one: ready → claimed (planned into a step) → trained, and stays trained when later steps take it again; or dropped
with a reason. An expert's stays ready: any number of steps may take it. `uses` counts the steps that were committed.
"""

from collections.abc import Iterable

from django.db import connection, models
from django.db.models import Count, F, Q
from django.utils.functional import cached_property

from apps.accounts.public_text import ReasonField
from apps.buffer.credit import Credit
from apps.rollouts.models import Group, Rollout
from apps.runs.admission import oldest_allowed
from apps.runs.models import Run


class ExperienceQuerySet(models.QuerySet):
    def put(self, experiences: Iterable["Experience"]) -> None:
        """Add groups' experiences, ready; adding them again changes nothing.

        One statement with an array for each column: bulk_create's placeholders for each value cost five times as much.
        """
        rows = [
            (one.run_id, one.group_id, one.rollout_id, one.kind, one.reward, one.advantage, one.weight_version)
            for one in experiences
        ]
        if rows:
            with connection.cursor() as cursor:
                cursor.execute(PUT, [list(column) for column in zip(*rows, strict=True)])

    def usual(self) -> "ExperienceQuerySet":
        """What the policy itself sampled."""
        return self.filter(kind=Experience.Kind.USUAL)

    def expert(self) -> "ExperienceQuerySet":
        return self.filter(kind=Experience.Kind.EXPERT)

    def retire_stale(self, run: Run, trainer_version: int) -> int:
        """Drop ready groups older than the run's bound; returns how many groups. The run's row is locked by the caller.

        A group falls as a whole: its baseline is the mean over its rollouts. The run may open as many groups again.
        """
        oldest = oldest_allowed(trainer_version, run.settings.max_staleness)
        stale = self.usual().filter(run=run, state=Experience.State.READY)
        groups = set(stale.filter(weight_version__lt=oldest).values_list("group_id", flat=True))
        return self.leave_out(run, groups, f"stale: older than version {oldest}")

    def leave_out(self, run: Run, groups: Iterable[int], reason: str) -> int:
        """Drop what is ready of these groups, as a whole; returns how many groups. The run's row is locked by the caller."""
        ready = self.usual().filter(run=run, group__in=groups, state=Experience.State.READY)
        left = set(ready.values_list("group_id", flat=True)) if groups else set()
        if left:
            ready.filter(group__in=left).update(state=Experience.State.DROPPED, reason=reason[:200])
            Run.objects.filter(pk=run.pk).update(groups_dropped=F("groups_dropped") + len(left))
        return len(left)

    def take_no_more(self, run: Run, groups: Iterable[int], reason: str) -> None:
        """What updates took of these groups, or are about to, stays as it is, and none takes it again."""
        taken = (Experience.State.CLAIMED, Experience.State.TRAINED)
        self.usual().filter(run=run, group__in=groups, state__in=taken).update(reason=reason[:200])

    def oldest_groups(self, run: Run, count: int) -> list[int]:
        """Ids of the first `count` groups with ready experiences, in the order they were drawn."""
        ready = self.usual().filter(run=run, state=Experience.State.READY).order_by("group__draw_index")
        return list(ready.values_list("group_id", flat=True).distinct()[:count])

    def census(self, run: Run) -> dict[str, int]:
        """How many experiences of the run stand in each state. Those that were trained are counted by the run, not here."""
        untrained = self.filter(run=run).exclude(state=Experience.State.TRAINED).order_by()
        counts = dict(untrained.values_list("state").annotate(n=Count("pk")))
        counts[Experience.State.TRAINED] = Run.objects.values_list("experiences_trained", flat=True).get(pk=run.pk)
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
    reason = ReasonField(max_length=200, blank=True)  # why it was dropped, or is not taken again
    reward = models.FloatField(
        null=True, help_text="The combined reward at admission; a later rating never changes it. NULL: an expert's, not judged."
    )
    advantage = models.FloatField()
    weight_version = models.PositiveIntegerField(help_text="Oldest version that sampled a token of it.")
    uses = models.PositiveSmallIntegerField(default=0, help_text="Committed updates that trained on it.")
    created_at = models.DateTimeField(auto_now_add=True)

    # In the batch it was loaded with, where one was: whether an earlier step had taken it, and why it teaches that update nothing.
    is_again, left_out = False, ""

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
            models.CheckConstraint(condition=Q(kind="expert") | Q(reward__isnull=False), name="what_was_sampled_has_a_reward"),
        ]
        indexes = [
            # ExperienceQuerySet.oldest_groups and retire_stale.
            models.Index(fields=["run", "group"], name="ready_experiences", condition=Q(state="ready")),
            # census: what was trained is most of a run, and counted when it is.
            models.Index(fields=["run", "state"], name="untrained_experiences", condition=~Q(state="trained")),
            # Why the newest were dropped.
            models.Index(fields=["run", "-id"], name="dropped_experiences", condition=Q(state="dropped")),
        ]

    def __str__(self) -> str:
        return f"experience {self.pk}"

    @cached_property
    def credit(self) -> Credit:
        """What it counts: its own advantage, unless the batch it was loaded with says otherwise."""
        return Credit(self.advantage)


PUT = """
    INSERT INTO buffer_experience
        (run_id, group_id, rollout_id, kind, reward, advantage, weight_version, state, reason, uses, created_at)
    SELECT *, 'ready', '', 0, statement_timestamp()
    FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[], %s::text[], %s::float8[], %s::float8[], %s::int[])
    ON CONFLICT DO NOTHING"""
