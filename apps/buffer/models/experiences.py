"""Experiences: training-ready records of rollouts.

An experience of the policy is ready, then claimed (planned into a step), then trained. It stays
trained when later steps take it again. It may also be dropped, with a reason. An expert's
experience stays ready, because any number of steps may take it. `uses` counts committed steps.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cache
from typing import Any, NamedTuple

from django.db import connection, models
from django.db.models import Count, F, Q
from django.utils.functional import cached_property

from apps.accounts.compiled_queries import compiled_query
from apps.accounts.public_text import ReasonField
from apps.buffer.credit import Credit
from apps.rollouts.models import Group, Rollout
from apps.runs.admission import oldest_allowed
from apps.runs.models import Run


# Any: selections exclude NULLs that the types of their columns allow.
class ExperienceQuerySet(models.QuerySet[Any]):
    def put(self, rows: Sequence["NewExperience"]) -> None:
        """Add the experiences of groups as ready. Adding them again changes nothing.

        This is one statement with an array for each column, because the placeholders of bulk_create
        for each value cost five times as much.
        """
        if rows:
            with connection.cursor() as cursor:
                cursor.execute(PUT, [list(column) for column in zip(*rows, strict=True)])

    def usual(self) -> "ExperienceQuerySet":
        """Return the experiences that the policy itself sampled."""
        return self.filter(kind=Experience.Kind.USUAL)

    def expert(self) -> "ExperienceQuerySet":
        return self.filter(kind=Experience.Kind.EXPERT)

    def retire_stale(self, run: Run, trainer_version: int) -> int:
        """Drop ready groups older than the run's staleness bound, and return how many groups.

        A group is dropped as a whole, because its baseline is the mean over all of its rollouts.
        The run may then open as many new groups. The caller holds the lock on the run's row.
        """
        oldest = oldest_allowed(trainer_version, run.settings.max_staleness)
        groups = set(_ready_below(run.pk, oldest))
        return self.leave_out(run, groups, f"stale: older than version {oldest}")

    def leave_out(self, run: Run, groups: Collection[int], reason: str) -> int:
        """Drop the ready experiences of whole groups, and return how many groups were dropped.

        The caller holds the lock on the run's row.
        """
        if not groups:
            return 0
        ready = self.usual().filter(run=run, group__in=groups, state=Experience.State.READY)
        dropped_ids = set(ready.values_list("group_id", flat=True))
        if dropped_ids:
            ready.filter(group__in=dropped_ids).update(
                state=Experience.State.DROPPED, reason=reason[:200]
            )
            Run.objects.filter(pk=run.pk).update(
                groups_dropped=F("groups_dropped") + len(dropped_ids)
            )
        return len(dropped_ids)

    def take_no_more(self, run: Run, groups: Iterable[int], reason: str) -> None:
        """Keep later steps from taking the claimed and trained experiences of these groups.

        Batches that hold them already are not changed.
        """
        taken_states = (Experience.State.CLAIMED, Experience.State.TRAINED)
        self.usual().filter(run=run, group__in=groups, state__in=taken_states).update(
            reason=reason[:200]
        )

    def oldest_groups(self, run: Run, count: int) -> list[int]:
        """Return the ids of the first `count` groups with ready experiences, in draw order."""
        return _oldest(count)(run.pk)

    def census(self, run: Run) -> dict[str, int]:
        """Return the number of the run's experiences in each state.

        The trained ones are read from the run's own counter instead of being counted here.
        """
        untrained = self.filter(run=run).exclude(state=Experience.State.TRAINED).order_by()
        counts = dict(untrained.values_list("state").annotate(n=Count("pk")))
        counts[Experience.State.TRAINED] = Run.objects.values_list(
            "experiences_trained", flat=True
        ).get(pk=run.pk)
        return {state: counts.get(state, 0) for state in Experience.State.values}


class NewExperience(NamedTuple):
    """The columns of an experience that is added."""

    run: int
    group: int
    rollout: int
    kind: str
    reward: float | None
    advantage: float
    weight_version: int


class Experience(models.Model):
    """A training-ready record of a rollout: its reward, its advantage and its weight version."""

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
    rollout = models.ForeignKey(
        Rollout, on_delete=models.CASCADE, related_name="experiences", db_index=False
    )  # the unique constraint serves look-ups
    kind = models.CharField(max_length=9, choices=Kind.choices, default=Kind.USUAL)
    state = models.CharField(max_length=7, choices=State.choices, default=State.READY)
    reason = ReasonField(max_length=200, blank=True)  # why it was dropped, or is not replayed
    reward = models.FloatField(
        null=True,
        help_text=(
            "Combined reward at admission; later ratings never change it. NULL for unrated "
            "expert answers."
        ),
    )
    advantage = models.FloatField()
    weight_version = models.PositiveIntegerField(
        help_text="Oldest weight version that sampled one of its tokens."
    )
    uses = models.PositiveIntegerField(
        default=0, help_text="Number of committed steps that trained on it."
    )
    created_at = models.DateTimeField(auto_now_add=True)

    # Set by `batch_of`: whether an earlier step had taken it, and why an operator removed it.
    is_again = False
    left_out = ""

    objects = ExperienceQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["rollout", "kind"], name="one_experience_per_rollout_and_kind"
            ),
            models.CheckConstraint(
                condition=Q(reward__gt=float("-inf"))
                & Q(reward__lt=float("inf"))
                & Q(advantage__gt=float("-inf"))
                & Q(advantage__lt=float("inf")),
                name="experiences_are_finite",
            ),
            models.CheckConstraint(
                condition=~Q(state="dropped") | ~Q(reason=""), name="a_dropped_experience_says_why"
            ),
            models.CheckConstraint(
                condition=Q(kind="expert") | Q(reward__isnull=False),
                name="what_was_sampled_has_a_reward",
            ),
        ]
        indexes = [
            # ExperienceQuerySet.oldest_groups and retire_stale.
            models.Index(
                fields=["run", "group"], name="ready_experiences", condition=Q(state="ready")
            ),
            # census: trained experiences are most of a run, and counted when trained.
            models.Index(
                fields=["run", "state"], name="untrained_experiences", condition=~Q(state="trained")
            ),
            # For the page that shows why the newest were dropped.
            models.Index(
                fields=["run", "-id"], name="dropped_experiences", condition=Q(state="dropped")
            ),
        ]

    def __str__(self) -> str:
        return f"experience {self.pk}"

    @cached_property
    def credit(self) -> Credit:
        """Return the experience's own advantage as a Credit. `batch_of` may set another one."""
        return Credit(self.advantage)


@cache
def _oldest(count: int) -> Callable[[int], list[int]]:
    """Return the query of the first `count` groups of a run with ready experiences."""

    def oldest(run: int) -> models.QuerySet[Experience, int]:
        ready = Experience.objects.usual().filter(run=run, state=Experience.State.READY)
        groups = ready.order_by("group__draw_index").values_list("group_id", flat=True)
        return groups.distinct()[:count]

    return compiled_query(oldest)


@compiled_query
def _ready_below(run: int, version: int) -> models.QuerySet[Experience, int]:
    """Return the group of each ready experience of a run that is older than this version."""
    ready = Experience.objects.usual().filter(run=run, state=Experience.State.READY)
    return ready.filter(weight_version__lt=version).values_list("group_id", flat=True)


PUT = """
    INSERT INTO buffer_experience
        (run_id, group_id, rollout_id, kind, reward, advantage, weight_version, state, reason, uses,
            created_at)
    SELECT *, 'ready', '', 0, statement_timestamp()
    FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[], %s::text[], %s::float8[], %s::float8[],
        %s::int[])
    ON CONFLICT DO NOTHING"""
