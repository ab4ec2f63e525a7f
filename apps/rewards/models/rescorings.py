"""Stored rollouts of a run judged anew: a new set of rewards beside the first, which stay as they are.

Groups are judged whole, as scorers of groups need them. Each is done in one transaction: what a killed worker held is judged
by the next one, and nothing is written twice.
"""

from collections.abc import Iterable

from django.conf import settings
from django.db import models, transaction
from django.db.models import F, Q
from django.db.models.functions import Now

from apps.accounts.models import AuditEntry, User
from apps.accounts.public_text import ReasonField
from apps.rewards.models.rewards import SAYS_WHY, Word, finite
from apps.rollouts.models import Claim, Group, Rollout
from apps.runs.config import RunConfig, ScorerChoice
from apps.runs.models import NotPossible, Run, after
from apps.streaming import bells


class RescoringQuerySet(models.QuerySet):
    def open(self) -> "RescoringQuerySet":
        return self.filter(state__in=Rescoring.OPEN)


class Rescoring(models.Model):
    """By which scorers which rollouts of a run are judged again, and how far that is."""

    class State(models.TextChoices):
        WAITING = "waiting", "waiting"
        RUNNING = "running", "running"
        DONE = "done", "done"
        STOPPED = "stopped", "stopped"
        FAILED = "failed", "failed"

    OPEN = (State.WAITING, State.RUNNING)

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="rescorings")
    by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="rescorings")
    rewards = models.JSONField(help_text="The scorers, as a run's `rewards` lists them.")
    compared_with = models.JSONField(help_text="The run's own `rewards` at that time.")
    chosen = models.JSONField(default=dict, help_text="Which rollouts: what the filter said (apps.rewards.rescoring.choosing).")
    groups = models.PositiveIntegerField(help_text="To be judged.")
    rollouts = models.PositiveIntegerField(help_text="In those groups.")
    done = models.PositiveIntegerField(default=0, help_text="Groups judged.")
    state = models.CharField(max_length=7, choices=State.choices, default=State.WAITING)
    reason = ReasonField(max_length=300, blank=True, help_text="Why it failed, or who stopped it.")
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)

    objects = RescoringQuerySet.as_manager()

    class Meta:
        ordering = ["-pk"]
        constraints = [
            models.CheckConstraint(condition=Q(done__lte=F("groups")), name="no_more_rescored_than_chosen"),
            models.CheckConstraint(condition=~Q(state="failed") | ~Q(reason=""), name="a_failed_rescoring_says_why"),
        ]
        indexes = [
            models.Index(fields=["run", "-id"], name="rescorings_of_a_run"),
            # The scorers: the oldest that is not over.
            models.Index(fields=["id"], name="open_rescorings", condition=Q(state__in=["waiting", "running"])),
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
        """The run's configuration with these scorers in the place of its own."""
        return self.run.settings.model_copy(update={"rewards": self.choices})

    @property
    def plan_before(self) -> RunConfig:
        return self.run.settings.model_copy(update={"rewards": tuple(map(ScorerChoice.model_validate, self.compared_with))})

    @property
    def names(self) -> list[str]:
        return [choice["scorer"] for choice in self.rewards]

    @classmethod
    @transaction.atomic
    def create(
        cls, run: Run, plan: RunConfig, chosen: dict, groups: Iterable[tuple[int, int]], by: User | None = None
    ) -> "Rescoring":
        """`groups`: (id, how many finished rollouts) of what is to be judged, in this order."""
        groups = list(groups)
        rescoring = cls.objects.create(
            run=run, by=by, rewards=_written(plan), compared_with=_written(run.settings), chosen=chosen,
            groups=len(groups), rollouts=sum(count for _, count in groups),
        )  # fmt: skip
        RescoredGroup.objects.bulk_create(
            (RescoredGroup(rescoring=rescoring, group_id=group) for group, _ in groups), batch_size=5_000
        )
        AuditEntry.record(
            "rollouts scored again", run.address, by, run.project, set=rescoring.pk, groups=len(groups), rollouts=rescoring.rollouts
        )
        transaction.on_commit(lambda: bells.ring("score"), robust=True)
        return rescoring

    @transaction.atomic
    def stop(self, by: User | None = None) -> None:
        """What is judged stays. Raises NotPossible when it is over."""
        self._end(self.State.STOPPED, f"stopped by {by}" if by else "stopped by hand")
        AuditEntry.record("scoring again stopped", self.run.address, by, self.run.project, set=self.pk)

    def fail(self, reason: str) -> None:
        self._end(self.State.FAILED, reason)

    def _end(self, state: str, reason: str) -> None:
        ended = Rescoring.objects.open().filter(pk=self.pk).update(state=state, reason=reason[:300], ended_at=Now())
        self.refresh_from_db(fields=["state", "reason", "done", "ended_at"])
        if not ended:
            raise NotPossible(f"it is {self.get_state_display()} already")


def _written(plan: RunConfig) -> list[dict]:
    return [choice.model_dump(mode="json") for choice in plan.rewards]


class RescoredGroupQuerySet(models.QuerySet):
    def claim(self, rescoring: Rescoring, owner: str, seconds: float, limit: int) -> list["RescoredGroup"]:
        """Take up to `limit` groups that nobody judges, in their order, until the lease ends. As `Group.objects.claim`."""
        sql = """
            WITH due AS MATERIALIZED (
                SELECT id FROM rewards_rescoredgroup
                WHERE rescoring_id = %(rescoring)s AND done_at IS NULL
                    AND (lease_until IS NULL OR lease_until < statement_timestamp())
                ORDER BY id LIMIT %(limit)s FOR NO KEY UPDATE SKIP LOCKED)
            UPDATE rewards_rescoredgroup g SET lease_owner = %(owner)s, fence = g.fence + 1, attempts = g.attempts + 1,
                lease_until = statement_timestamp() + %(seconds)s * interval '1 second'
            FROM due WHERE g.id = due.id RETURNING g.*"""
        values = {"rescoring": rescoring.pk, "owner": owner, "seconds": seconds, "limit": limit}
        return sorted(self.raw(sql, values), key=lambda group: group.pk)

    def held(self, claims: Iterable[Claim]) -> "RescoredGroupQuerySet":
        """Those that are still ours. `Claim.group_id` is the row's own id."""
        fences = Q(pk__in=())
        for claim in claims:
            fences |= Q(pk=claim.group_id, fence=claim.fence)
        return self.filter(fences, done_at=None, lease_until__gte=Now())

    def keep(self, claims: Iterable[Claim], seconds: float) -> None:
        self.held(claims).update(lease_until=after(seconds))


class RescoredGroup(models.Model):
    """A group that a rescoring judges: who is at it, and what the judgement did to what can be learned from it."""

    rescoring = models.ForeignKey(Rescoring, on_delete=models.CASCADE, related_name="items")
    group = models.ForeignKey(Group, on_delete=models.CASCADE, related_name="rescored")
    lease_owner = models.CharField(max_length=80, blank=True)
    lease_until = models.DateTimeField(null=True)
    fence = models.BigIntegerField(default=0)
    attempts = models.PositiveSmallIntegerField(default=0, help_text="How often it was taken.")
    done_at = models.DateTimeField(null=True)
    other_best = models.BooleanField(default=False, help_text="None of its best rollouts was among the best before.")
    signal_before = models.BooleanField(default=False, help_text="Its machine rewards differed: something could be learned.")
    signal_after = models.BooleanField(default=False)

    objects = RescoredGroupQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["rescoring", "group"], name="a_group_is_rescored_once")]
        # RescoredGroup.objects.claim: what is left, in its order.
        indexes = [models.Index(fields=["rescoring", "id"], name="groups_to_rescore", condition=Q(done_at=None))]

    def __str__(self) -> str:
        return f"group {self.group_id} in rescoring {self.rescoring_id}"

    @property
    def claimed(self) -> Claim:
        return Claim(self.pk, self.fence)


class RescoredReward(Word):
    """What one scorer said in a rescoring. A failure of machinery is NULL with a reason, never a number."""

    rescoring = models.ForeignKey(Rescoring, on_delete=models.CASCADE, related_name="rewards_given")
    rollout = models.ForeignKey(Rollout, on_delete=models.CASCADE, related_name="rescored_rewards")

    class Meta:
        constraints = [
            models.CheckConstraint(condition=finite("value"), name="rescored_rewards_are_finite"),
            models.CheckConstraint(condition=SAYS_WHY, name="a_missing_rescored_reward_says_why"),
            models.UniqueConstraint(fields=["rescoring", "rollout", "scorer"], name="one_rescored_reward_per_scorer"),
        ]


class Rescored(models.Model):
    """What a rescoring did to one rollout.

    `before`, `after`: what machines say of it together, by the run's own scorers and by the new ones; NULL where one of them
    has failed or has not judged it. `counted_before`, `counted_after`: the same with what people said, as the run combines
    both: what is trained on.
    """

    class Fate(models.TextChoices):
        SAME = "same", "the same"
        HIGHER = "higher", "higher"
        LOWER = "lower", "lower"
        GAINED = "gained", "has a reward now"
        LOST = "lost", "has none any more"
        NONE = "none", "has none either way"

    rescoring = models.ForeignKey(Rescoring, on_delete=models.CASCADE, related_name="rescored")
    rollout = models.ForeignKey(Rollout, on_delete=models.CASCADE, related_name="rescored")
    before = models.FloatField(null=True)
    after = models.FloatField(null=True)
    counted_before = models.FloatField(null=True)
    counted_after = models.FloatField(null=True)
    fate = models.CharField(max_length=6, choices=Fate.choices)
    size = models.FloatField(default=0, help_text="|after − before|; 0 where one of them is missing.")

    class Meta:
        constraints = [
            models.CheckConstraint(condition=finite("before"), name="rescored_befores_are_finite"),
            models.CheckConstraint(condition=finite("after"), name="rescored_afters_are_finite"),
            models.CheckConstraint(condition=Q(size__gte=0) & finite("size"), name="rescored_sizes_are_finite"),
            models.UniqueConstraint(fields=["rescoring", "rollout"], name="a_rollout_is_rescored_once"),
        ]
        # The comparison: the largest differences first, of all and of one fate.
        indexes = [
            models.Index(fields=["rescoring", "-size", "-id"], name="largest_differences"),
            models.Index(fields=["rescoring", "fate", "-size", "-id"], name="largest_of_a_fate"),
        ]

    def __str__(self) -> str:
        return f"rollout {self.rollout_id}: {self.before} → {self.after}"
