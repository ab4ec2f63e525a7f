"""Ratings: everything a person says about rollouts, append-only, with the rewards it makes.

A change of mind and an undo are new rows; the row they replace stays and is no longer current.
"""

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Count, Exists, OuterRef, Q
from django.db.models.functions import Now

from apps.accounts.models import User
from apps.feedback.models.items import Item
from apps.rewards.models import Reward
from apps.rollouts.models import Rollout
from apps.runs.models import Run

STARS = "stars"
FLAG = "flag"
LONGEST_CRITIQUE = 20_000
MOST_COUNTED = 10_000  # newest ratings of a run that are counted by kind


class RatingQuerySet(models.QuerySet):
    def visible_to(self, user: User) -> "RatingQuerySet":
        return self.filter(run__in=Run.objects.visible_to(user))

    def counting(self) -> "RatingQuerySet":
        """What people stand by: the current ones that were not withdrawn."""
        return self.filter(is_current=True, is_withdrawn=False)

    def by_people(self) -> "RatingQuerySet":
        """Leave out simulated ratings."""
        return self.filter(rater__is_simulated=False)

    def in_time(self) -> "RatingQuerySet":
        """What people stood by when their groups were judged, whatever they changed or took back later."""
        changed_late = Exists(Rating.objects.filter(replaces=OuterRef("pk"), is_late=True))
        return self.filter(Q(is_current=True) | changed_late, is_withdrawn=False, is_late=False)

    def standing_at(self, last: int) -> "RatingQuerySet":
        """What people stood by when the rating of this id was the newest."""
        changed_since = Exists(Rating.objects.filter(replaces=OuterRef("pk"), pk__gt=last))
        return self.filter(Q(is_current=True) | changed_since, pk__lte=last, is_withdrawn=False)


class Rating(models.Model):
    """One person's decision: about one rollout, or about several that an item compares."""

    item = models.ForeignKey(Item, null=True, on_delete=models.CASCADE, related_name="ratings")
    rollout = models.ForeignKey(
        Rollout, null=True, on_delete=models.CASCADE, related_name="ratings", help_text="NULL: it compares several."
    )
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="ratings", db_index=False)  # ratings_of_a_run
    rater = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="ratings")
    form = models.CharField(max_length=20)
    answer = models.JSONField(help_text="What was decided, as apps.feedback.forms writes it.")
    critique = models.TextField(blank=True)
    shown = ArrayField(models.BigIntegerField(), default=list, help_text="The rollouts in the order in which they were seen.")
    client_uuid = models.UUIDField(help_text="Made by the sender; the same rating sent twice is one rating.")
    replaces = models.ForeignKey("self", null=True, on_delete=models.PROTECT, related_name="replaced_by")
    is_current = models.BooleanField(default=True, help_text="False once the same person said something newer.")
    is_withdrawn = models.BooleanField(default=False, help_text="This row takes back the one it replaces.")
    is_late = models.BooleanField(default=False, help_text="Its group was closed already: kept, shown, not trained on.")
    seconds = models.FloatField(null=True, help_text="Time in a visible tab until the decision.")
    first_key_ms = models.PositiveIntegerField(null=True, help_text="Until the first key or touch.")
    changes = models.PositiveIntegerField(default=0, help_text="How often the answer was changed before it was sent.")
    at = models.DateTimeField(db_default=Now())

    objects = RatingQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["rater", "client_uuid"], name="one_rating_per_client_uuid"),
            models.UniqueConstraint(fields=["item", "rater"], condition=Q(is_current=True), name="one_current_rating_per_item"),
            models.CheckConstraint(condition=Q(item__isnull=False) | Q(rollout__isnull=False), name="a_rating_is_about_something"),
            models.CheckConstraint(condition=Q(seconds=None) | Q(seconds__gte=0, seconds__lt=float("inf")), name="time_passes"),
        ]
        indexes = [
            # the lease of a claim, the newest decisions of a run, and a person's own history
            models.Index(fields=["run", "-id"], name="ratings_of_a_run"),
            models.Index(fields=["rater", "-id"], name="ratings_of_a_person"),
        ]

    def __str__(self) -> str:
        return f"{self.rater}: {self.form} {self.answer}"

    @property
    def stars(self) -> int | None:
        return self.answer.get("stars")

    @property
    def is_standing(self) -> bool:
        """Whether the person stands by it: it was neither replaced nor withdrawn."""
        return self.is_current and not self.is_withdrawn

    @property
    def members(self) -> list[int]:
        """The rollouts it is about."""
        return list(self.shown) or [self.rollout_id]


class RatingReward(models.Model):
    """That a rating made a reward: the thread from a person's word to the weights it shaped."""

    rating = models.ForeignKey(Rating, on_delete=models.CASCADE, related_name="rating_rewards")
    reward = models.OneToOneField(Reward, on_delete=models.CASCADE, related_name="rating_reward")

    def __str__(self) -> str:
        return f"{self.rating_id} made {self.reward_id}"


def rating_counts(run_id: int) -> dict[str, int]:
    """The run's newest ratings by kind of rater: `looked_at` of them, `most` at most."""
    newest = Rating.objects.filter(run=run_id, is_withdrawn=False).order_by("-pk").values("pk")[:MOST_COUNTED]
    counted = Rating.objects.filter(pk__in=newest).aggregate(
        looked_at=Count("pk"),
        people=Count("pk", filter=Q(rater__is_simulated=False)),
        simulated=Count("pk", filter=Q(rater__is_simulated=True)),
        late=Count("pk", filter=Q(is_late=True)),
    )
    return {**counted, "most": MOST_COUNTED}
