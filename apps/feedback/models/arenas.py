"""Blind arenas: evaluations of one taskset set against each other, pair by pair, and what people said of the pairs.

Votes are append-only: a change of mind and a vote taken back are new rows, and the newest row of a person about a pair counts.
The database refuses to change one (migration 0012).
"""

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from apps.accounts.models import Membership, Project, User
from apps.runs.models import Run
from apps.tasksets.models import Task, Taskset

FEWEST, MOST = 2, 12  # contestants of an arena


class ArenaQuerySet(models.QuerySet):
    def visible_to(self, user: User) -> "ArenaQuerySet":
        return self.filter(project__in=Project.objects.visible_to(user))

    def judged_by(self, user: User) -> "ArenaQuerySet":
        """Those in which this person may vote, while they are open."""
        if not user.is_authenticated or user.is_superuser:
            return self.visible_to(user)
        return self.filter(project__memberships__user=user, project__memberships__role__in=Membership.MAY_RATE)

    def open(self) -> "ArenaQuerySet":
        return self.filter(closed_at=None)


class Arena(models.Model):
    """`tasks`, `samples`: the first so many tasks of the set, and answers to each, that all contestants were asked for."""

    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="arenas")
    taskset = models.ForeignKey(Taskset, on_delete=models.PROTECT, related_name="+")
    title = models.CharField(max_length=100, help_text="Read by those who judge.")
    by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    secret = models.CharField(max_length=64, help_text="Decides sides, orders and names of pairs; whoever knows it is not blind.")
    tasks = models.PositiveIntegerField()
    samples = models.PositiveSmallIntegerField()
    again = models.FloatField(db_default=0.0, help_text="Share of questions that ask for a second opinion while some have none.")
    created_at = models.DateTimeField(db_default=Now())
    closed_at = models.DateTimeField(null=True, help_text="Since when nobody votes in it.")

    objects = ArenaQuerySet.as_manager()

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(again__gte=0, again__lte=1), name="again_is_a_share")]
        indexes = [models.Index(fields=["project", "-id"], name="arenas_of_a_project")]

    def __str__(self) -> str:
        return f"arena {self.pk}, {self.title}"

    @property
    def is_open(self) -> bool:
        return self.closed_at is None


class Contestant(models.Model):
    """An evaluation in an arena: one weight version's answers."""

    arena = models.ForeignKey(Arena, on_delete=models.PROTECT, related_name="contestants", db_index=False)
    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="contests")
    place = models.PositiveSmallIntegerField(help_text="From 0, as they were chosen.")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["arena", "place"], name="one_contestant_per_place"),
            models.UniqueConstraint(fields=["arena", "run"], name="one_contestant_per_evaluation"),
        ]

    def __str__(self) -> str:
        return f"{self.run_id} in arena {self.arena_id}"


class Pairing(models.Model):
    """Two contestants. Their answers to one task with one sample index are a pair, if both came and are not the same words."""

    arena = models.ForeignKey(Arena, on_delete=models.PROTECT, related_name="pairings")
    first = models.ForeignKey(Contestant, on_delete=models.PROTECT, related_name="+", db_index=False)
    second = models.ForeignKey(Contestant, on_delete=models.PROTECT, related_name="+", db_index=False)
    size = models.PositiveIntegerField(help_text="Pairs that can be judged.")
    same = models.PositiveIntegerField(help_text="Pairs whose two answers are the same words: nobody is asked about them.")
    votes = models.PositiveIntegerField(db_default=0, help_text="That stand: what is asked next goes by it.")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["first", "second"], name="one_pairing_per_two_contestants"),
            models.CheckConstraint(condition=Q(first__lt=F("second")), name="a_pairing_has_an_order"),
        ]

    def __str__(self) -> str:
        return f"pairing {self.pk} of arena {self.arena_id}"


class Vote(models.Model):
    """What a person said of a pair: the pairing's two answers to this task with this sample index."""

    class Choice(models.TextChoices):
        FIRST = "first"
        SECOND = "second"
        TIE = "tie"
        BAD = "bad", "both bad"
        BACK = "back", "taken back"

    pairing = models.ForeignKey(Pairing, on_delete=models.PROTECT, related_name="said", db_index=False)
    task = models.ForeignKey(Task, on_delete=models.PROTECT, related_name="+")
    sample_index = models.PositiveSmallIntegerField()
    rater = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="votes", db_index=False)
    choice = models.CharField(max_length=6, choices=Choice.choices, help_text="BAD counts as a tie; BACK takes the vote back.")
    first_on_left = models.BooleanField(help_text="Which side the pairing's first was shown on; on a narrow screen, above.")
    client_uuid = models.UUIDField(help_text="Made by the sender; the same vote sent twice is one vote.")
    milliseconds = models.PositiveIntegerField(null=True, help_text="The pair was looked at until the vote.")
    at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["rater", "client_uuid"], name="one_vote_per_client_uuid"),
            models.CheckConstraint(condition=Q(choice__in=["first", "second", "tie", "bad", "back"]), name="a_vote_is_one_of_five"),
        ]
        indexes = [
            # The newest word of each person about a pair, and all that one person said.
            models.Index(fields=["pairing", "task", "sample_index", "rater", "-id"], name="votes_of_a_pair"),
            models.Index(fields=["rater", "pairing", "task", "sample_index", "-id"], name="votes_of_a_person"),
        ]

    def __str__(self) -> str:
        return f"{self.rater_id}: {self.choice} in pairing {self.pairing_id}"


# The words that stand, one of each person about each pair, of the arena `%(arena)s`.
STANDING = """
    SELECT * FROM (
        SELECT DISTINCT ON (v.pairing_id, v.task_id, v.sample_index, v.rater_id)
            v.id, v.pairing_id, v.task_id, v.sample_index, v.rater_id, v.choice, v.first_on_left, v.at
        FROM feedback_vote v JOIN feedback_pairing p ON p.id = v.pairing_id WHERE p.arena_id = %(arena)s
        ORDER BY v.pairing_id, v.task_id, v.sample_index, v.rater_id, v.id DESC) newest
    WHERE choice <> 'back'"""
