"""Models of rescorings: new sets of rewards for stored rollouts. The first set is unchanged.

Groups are judged whole, because some scorers compare the rollouts of a group. Each group is written
in one transaction. If a worker is killed, the next one judges its groups, and nothing is written
twice.
"""

from collections.abc import Iterable
from typing import ClassVar

from django.conf import settings
from django.db import models, transaction
from django.db.models import F, Q
from django.db.models.functions import Now

from apps.accounts.models import AuditEntry, User
from apps.accounts.public_text import ReasonField
from apps.leases.lease import Claim, WorkerLease, WorkerLeaseQuerySet
from apps.rewards.models.rewards import SAYS_WHY, ScoreRecord, finite
from apps.rollouts.models import Group, Rollout
from apps.runs.config import RunConfig, ScorerChoice
from apps.runs.models import NotPossible, Run
from apps.streaming import worker_notifications


class RescoringQuerySet(models.QuerySet):
    def open(self) -> "RescoringQuerySet":
        return self.filter(state__in=Rescoring.OPEN)


class Rescoring(models.Model):
    """Rescoring of chosen rollouts of a run by other scorers, and its progress."""

    class State(models.TextChoices):
        WAITING = "waiting", "waiting"
        RUNNING = "running", "running"
        DONE = "done", "done"
        STOPPED = "stopped", "stopped"
        FAILED = "failed", "failed"

    OPEN = (State.WAITING, State.RUNNING)

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="rescorings")
    by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="rescorings"
    )
    rewards = models.JSONField(help_text="Scorers, in the format of a run's `rewards`.")
    compared_with = models.JSONField(help_text="`rewards` of the run at that time.")
    chosen = models.JSONField(
        default=dict,
        help_text="Filter that selects the rollouts (apps.rewards.rescoring.choosing).",
    )
    groups = models.PositiveIntegerField(help_text="Number of groups to score.")
    rollouts = models.PositiveIntegerField(help_text="Number of rollouts in those groups.")
    done = models.PositiveIntegerField(default=0, help_text="Number of groups scored.")
    state = models.CharField(max_length=7, choices=State.choices, default=State.WAITING)
    reason = ReasonField(
        max_length=300, blank=True, help_text="Why rescoring failed, or who stopped it."
    )
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)

    objects = RescoringQuerySet.as_manager()

    class Meta:
        ordering = ["-pk"]
        constraints = [
            models.CheckConstraint(
                condition=Q(done__lte=F("groups")), name="no_more_rescored_than_chosen"
            ),
            models.CheckConstraint(
                condition=~Q(state="failed") | ~Q(reason=""), name="a_failed_rescoring_says_why"
            ),
        ]
        indexes = [
            models.Index(fields=["run", "-id"], name="rescorings_of_a_run"),
            # The scorers: the oldest that is not over.
            models.Index(
                fields=["id"], name="open_rescorings", condition=Q(state__in=["waiting", "running"])
            ),
        ]

    def __str__(self) -> str:
        return f"rescoring {self.pk}"

    @property
    def is_open(self) -> bool:
        return self.state in self.OPEN

    @property
    def choices(self) -> tuple[ScorerChoice, ...]:
        return tuple(map(ScorerChoice.model_validate, self.rewards))

    @property
    def plan(self) -> RunConfig:
        """Return the run's configuration with these scorers in the place of its own."""
        return self.run.settings.model_copy(update={"rewards": self.choices})

    @property
    def plan_before(self) -> RunConfig:
        return self.run.settings.model_copy(
            update={"rewards": tuple(map(ScorerChoice.model_validate, self.compared_with))}
        )

    @property
    def names(self) -> list[str]:
        return [choice["scorer"] for choice in self.rewards]

    @classmethod
    @transaction.atomic
    def create(
        cls,
        run: Run,
        plan: RunConfig,
        chosen: dict,
        groups: Iterable[tuple[int, int]],
        by: User | None = None,
    ) -> "Rescoring":
        """Create a rescoring with its groups.

        `groups`: (id, how many finished rollouts) of those to be judged, in this order.
        """
        groups = list(groups)
        rescoring = cls.objects.create(
            run=run,
            by=by,
            rewards=_written(plan),
            compared_with=_written(run.settings),
            chosen=chosen,
            groups=len(groups),
            rollouts=sum(count for _, count in groups),
        )
        RescoredGroup.objects.bulk_create(
            (RescoredGroup(rescoring=rescoring, group_id=group) for group, _ in groups),
            batch_size=5_000,
        )
        AuditEntry.record(
            "rollouts scored again",
            run.address,
            by,
            run.project,
            set=rescoring.pk,
            groups=len(groups),
            rollouts=rescoring.rollouts,
        )
        transaction.on_commit(lambda: worker_notifications.notify_workers("score"), robust=True)
        return rescoring

    @transaction.atomic
    def stop(self, by: User | None = None) -> None:
        """Stop the rescoring; its judgements so far are kept. Raises NotPossible if it is over."""
        self._end(self.State.STOPPED, f"stopped by {by}" if by else "stopped by hand")
        AuditEntry.record(
            "scoring again stopped", self.run.address, by, self.run.project, set=self.pk
        )

    def fail(self, reason: str) -> None:
        self._end(self.State.FAILED, reason)

    def _end(self, state: str, reason: str) -> None:
        ended = (
            Rescoring.objects.open()
            .filter(pk=self.pk)
            .update(state=state, reason=reason[:300], ended_at=Now())
        )
        self.refresh_from_db(fields=["state", "reason", "done", "ended_at"])
        if not ended:
            raise NotPossible(f"it is already {self.get_state_display()}")


def _written(plan: RunConfig) -> list[dict]:
    return [choice.model_dump(mode="json") for choice in plan.rewards]


class RescoredGroupQuerySet(WorkerLeaseQuerySet["RescoredGroup"]):
    def claim(
        self, rescoring: Rescoring, owner: str, seconds: float, limit: int
    ) -> list["RescoredGroup"]:
        """Claim up to `limit` groups that no worker judges, in their order."""
        unfinished = self.filter(rescoring=rescoring, done_at=None)
        return unfinished.claim_rows(owner, seconds, limit, attempts=F("attempts") + 1)

    def held(self, claims: Iterable[Claim]) -> "RescoredGroupQuerySet":
        return super().held(claims).filter(done_at=None)


class RescoredGroup(WorkerLease):
    """Group of a rescoring: its lease, and the effect on what can be learned from it."""

    rescoring = models.ForeignKey(Rescoring, on_delete=models.CASCADE, related_name="items")
    group = models.ForeignKey(Group, on_delete=models.CASCADE, related_name="rescored")
    attempts = models.PositiveSmallIntegerField(
        default=0, help_text="Number of attempts to score the group."
    )
    done_at = models.DateTimeField(null=True)
    other_best = models.BooleanField(
        default=False, help_text="None of the group's best rollouts was among its best before."
    )
    signal_before = models.BooleanField(
        default=False,
        help_text="The group's machine rewards differed, so it had a learning signal.",
    )
    signal_after = models.BooleanField(default=False)

    objects: ClassVar = RescoredGroupQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["rescoring", "group"], name="a_group_is_rescored_once")
        ]
        # RescoredGroup.objects.claim: what is left, in its order.
        indexes = [
            models.Index(
                fields=["rescoring", "id"], name="groups_to_rescore", condition=Q(done_at=None)
            )
        ]

    def __str__(self) -> str:
        return f"group {self.group_id} in rescoring {self.rescoring_id}"


class RescoredReward(ScoreRecord):
    """Reward by one scorer in a rescoring.

    A failure of machinery is NULL with a reason, never a number.
    """

    rescoring = models.ForeignKey(Rescoring, on_delete=models.CASCADE, related_name="rewards_given")
    rollout = models.ForeignKey(Rollout, on_delete=models.CASCADE, related_name="rescored_rewards")

    class Meta:
        constraints = [
            models.CheckConstraint(condition=finite("value"), name="rescored_rewards_are_finite"),
            models.CheckConstraint(condition=SAYS_WHY, name="a_missing_rescored_reward_says_why"),
            models.UniqueConstraint(
                fields=["rescoring", "rollout", "scorer"], name="one_rescored_reward_per_scorer"
            ),
        ]


class Rescored(models.Model):
    """Effect of a rescoring on one rollout.

    `before`, `after`: the combined machine reward, by the run's own scorers and by the new ones;
    NULL if one of them has failed or has not judged it. `counted_before`, `counted_after`: the same
    with people's judgements, as the run combines both for training.
    """

    class Fate(models.TextChoices):
        SAME = "same", "the same"
        HIGHER = "higher", "higher"
        LOWER = "lower", "lower"
        GAINED = "gained", "reward gained"
        LOST = "lost", "reward lost"
        NONE = "none", "no reward before or after"

    rescoring = models.ForeignKey(Rescoring, on_delete=models.CASCADE, related_name="rescored")
    rollout = models.ForeignKey(Rollout, on_delete=models.CASCADE, related_name="rescored")
    before = models.FloatField(null=True)
    after = models.FloatField(null=True)
    counted_before = models.FloatField(null=True)
    counted_after = models.FloatField(null=True)
    fate = models.CharField(max_length=6, choices=Fate.choices)
    size = models.FloatField(default=0, help_text="|after − before|; 0 if either is missing.")

    class Meta:
        constraints = [
            models.CheckConstraint(condition=finite("before"), name="rescored_befores_are_finite"),
            models.CheckConstraint(condition=finite("after"), name="rescored_afters_are_finite"),
            models.CheckConstraint(
                condition=Q(size__gte=0) & finite("size"), name="rescored_sizes_are_finite"
            ),
            models.UniqueConstraint(
                fields=["rescoring", "rollout"], name="a_rollout_is_rescored_once"
            ),
        ]
        # The comparison: the largest differences first, of all and of one fate.
        indexes = [
            models.Index(fields=["rescoring", "-size", "-id"], name="largest_differences"),
            models.Index(fields=["rescoring", "fate", "-size", "-id"], name="largest_of_a_fate"),
        ]

    def __str__(self) -> str:
        return f"rollout {self.rollout_id}: {self.before} → {self.after}"
