"""Ratings: append-only stars for rollouts that become rewards in the same transaction."""

import uuid
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from django.conf import settings
from django.db import models, transaction
from django.db.models import Count, Exists, OuterRef, Q
from django.db.models.functions import Now

from apps.accounts.models import Membership, User
from apps.rewards.models import Reward
from apps.rollouts.models import Group, Rollout
from apps.streaming import bells

STARS = "stars"


class NotRatable(Exception):
    """This rollout cannot be rated; the message says why."""


@dataclass(frozen=True)
class Submission:
    """One rating as it comes over the wire."""

    rollout_id: int
    stars: int
    client_uuid: uuid.UUID

    @property
    def key(self) -> tuple[int, uuid.UUID]:
        """What makes it one rating of its rater, however often it is sent."""
        return self.rollout_id, self.client_uuid

    def reward(self, rater: User) -> Reward:
        """Its reward, not yet written: one star is 0, five are 1."""
        value, details = (self.stars - 1) / 4, {"stars": self.stars}
        return Reward(rollout_id=self.rollout_id, source=Reward.Source.HUMAN, scorer=STARS, value=value, details=details, by=rater)


class RatingQuerySet(models.QuerySet):
    def visible_to(self, user: User) -> "RatingQuerySet":
        return self.filter(rollout__in=Rollout.objects.visible_to(user))


class Rating(models.Model):
    """One person's stars for one rollout. A change of mind is a new row; nothing is overwritten."""

    rollout = models.ForeignKey(Rollout, on_delete=models.CASCADE, related_name="ratings")
    rater = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="ratings")
    stars = models.PositiveSmallIntegerField()
    client_uuid = models.UUIDField(help_text="Made by the sender; the same rating sent twice is one rating.")
    reward = models.OneToOneField(Reward, on_delete=models.PROTECT, related_name="rating")
    is_late = models.BooleanField(default=False, help_text="Its group was closed already: kept, shown, not trained on.")
    at = models.DateTimeField(auto_now_add=True)

    objects = RatingQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["rater", "rollout", "client_uuid"], name="one_rating_per_client_uuid"),
            models.CheckConstraint(condition=Q(stars__gte=1) & Q(stars__lte=5), name="one_to_five_stars"),
        ]

    def __str__(self) -> str:
        return f"{self.rater}: {self.stars} stars for {self.rollout_id}"

    @classmethod
    def submit(cls, rater: User, submission: Submission) -> "Rating":
        """Take one rating: the row, its reward, and the group's progress are one transaction.

        Sending the same client uuid again returns the first row. Raises NotRatable when the rollout is not
        visible to this rater, still being written, or has failed.
        """
        [outcome] = cls.submit_many(rater, [submission])
        if isinstance(outcome, NotRatable):
            raise outcome
        return outcome

    @classmethod
    def submit_many(cls, rater: User, submissions: list[Submission]) -> list["Rating | NotRatable"]:
        """Take many ratings, one transaction and ten statements for each group; outcome i answers submission i.

        Each outcome is what `submit` would have returned or raised, had they come one by one.
        """
        homes = dict(ratable_by(rater).filter(pk__in={s.rollout_id for s in submissions}).values_list("pk", "group_id"))
        by_group: dict[int, list[Submission]] = defaultdict(list)
        for submission in submissions:
            if submission.rollout_id in homes:
                by_group[homes[submission.rollout_id]].append(submission)
        taken: dict[tuple[int, uuid.UUID], Rating] = {}
        for group_id in sorted(by_group):
            taken |= cls._submit_to_group(rater, group_id, by_group[group_id])
        return [taken.get(s.key) or NotRatable(f"no rollout {s.rollout_id} that you may rate") for s in submissions]

    @classmethod
    @transaction.atomic
    def _submit_to_group(cls, rater: User, group_id: int, submissions: list[Submission]) -> dict[tuple[int, uuid.UUID], "Rating"]:
        """The ratings by Submission.key: those there were, and the new ones with their rewards."""
        # The group's row is locked first: ratings of one group and its refiner take turns.
        group = Group.objects.select_related("run").select_for_update(of=("self",)).get(pk=group_id)
        known = cls.objects.filter(rater=rater, rollout__in={submission.rollout_id for submission in submissions})
        taken = {rating.key: rating for rating in known}
        fresh = first_of_each(submission for submission in submissions if submission.key not in taken)
        if fresh:
            rewards = Reward.record_words(rater, STARS, [submission.reward(rater) for submission in fresh])
            is_late = group.state not in Group.OPEN
            ratings = [cls.of(rater, submission, reward, is_late) for submission, reward in zip(fresh, rewards, strict=True)]
            taken |= {rating.key: rating for rating in cls.objects.bulk_create(ratings)}
            settle(group)
        return taken

    @classmethod
    def of(cls, rater: User, submission: Submission, reward: Reward, is_late: bool) -> "Rating":
        rollout, stars, client_uuid = submission.rollout_id, submission.stars, submission.client_uuid
        return cls(rollout_id=rollout, rater=rater, stars=stars, client_uuid=client_uuid, reward=reward, is_late=is_late)

    @property
    def key(self) -> tuple[int, uuid.UUID]:
        """As Submission.key."""
        return self.rollout_id, self.client_uuid


def first_of_each(submissions: Iterable[Submission]) -> list[Submission]:
    """Without those that repeat an earlier one's key."""
    first: dict[tuple[int, uuid.UUID], Submission] = {}
    for submission in submissions:
        first.setdefault(submission.key, submission)
    return list(first.values())


def ratable_by(rater: User) -> models.QuerySet[Rollout]:
    """Rollouts with text, in projects where this person may rate."""
    may = (
        Q()
        if rater.is_superuser
        else Q(run__project__memberships__user=rater, run__project__memberships__role__in=Membership.MAY_RATE)
    )
    return Rollout.objects.filter(may, state=Rollout.State.FINISHED, origin=Rollout.Origin.POLICY)


def queue_for(rater: User) -> models.QuerySet[Rollout]:
    """What waits for this person: unrated rollouts of groups that wait for people, the most urgent deadline first."""
    mine = Rating.objects.filter(rollout=OuterRef("pk"), rater=rater)
    waiting = ratable_by(rater).filter(group__state=Group.State.WAITING, run__state="running")
    return waiting.filter(~Exists(mine)).order_by("group__deadline_at", "pk")


def people_still_wanted(group: Group) -> int:
    """How many more rollouts of the group need a person before it goes on."""
    rated = Rollout.objects.filter(group=group, ratings__isnull=False).distinct().count()
    usable = Rollout.objects.filter(group=group, state=Rollout.State.FINISHED).count()
    return max(0, min(group.run.settings.people.per_group, usable) - rated)


def settle(group: Group) -> bool:
    """Send a waiting group on once people have said enough; the caller holds its row's lock."""
    if group.state != Group.State.WAITING or people_still_wanted(group):
        return False
    group.move(Group.State.JUDGED, judged_at=Now())
    transaction.on_commit(lambda: bells.ring("refine"), robust=True)
    return True


def close_overdue(limit: int = 200) -> int:
    """Send on every waiting group whose deadline for people has passed; what becomes of it is the refiner's rule."""
    with transaction.atomic():
        overdue = list(
            Group.objects.select_for_update(skip_locked=True).filter(state=Group.State.WAITING, deadline_at__lte=Now())[:limit]
        )
        for group in overdue:
            group.move(Group.State.JUDGED, judged_at=Now())
    if overdue:
        bells.ring("refine")
    return len(overdue)


def rating_counts(run_id: int) -> dict[str, int]:
    """Ratings of a run by kind of rater."""
    return Rating.objects.filter(rollout__run=run_id).aggregate(
        people=Count("pk", filter=Q(rater__is_simulated=False)),
        simulated=Count("pk", filter=Q(rater__is_simulated=True)),
        late=Count("pk", filter=Q(is_late=True)),
    )
