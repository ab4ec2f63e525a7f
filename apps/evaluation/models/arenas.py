"""Blind arenas: evaluations of one taskset compared pair by pair, with people's votes.

Votes are append-only: a change and a withdrawal are new rows, and the newest row of a person about
a pair counts. The database refuses to change one (trigger `votes_stay`).
"""

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from apps.accounts.models import Membership, Project, User
from apps.runs.models import Run
from apps.tasksets.models import Task, Taskset

MIN_CONTESTANTS = 2
MAX_CONTESTANTS = 12  # contestants of an arena


class ArenaQuerySet(models.QuerySet):
    def visible_to(self, user: User) -> "ArenaQuerySet":
        return self.filter(project__in=Project.objects.visible_to(user))

    def judged_by(self, user: User) -> "ArenaQuerySet":
        """Return the arenas in which this person may vote while they are open."""
        if not user.is_authenticated or user.is_superuser:
            return self.visible_to(user)
        return self.filter(
            project__deleting_since=None,
            project__memberships__user=user,
            project__memberships__role__in=Membership.MAY_RATE,
        )

    def open(self) -> "ArenaQuerySet":
        return self.filter(closed_at=None)


class Arena(models.Model):
    """A comparison of evaluations.

    `tasks` and `samples` are the number of the set's first tasks, and of answers to each, that all
    contestants have.
    """

    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="arenas")
    taskset = models.ForeignKey(Taskset, on_delete=models.PROTECT, related_name="+")
    title = models.CharField(max_length=100, help_text="Shown to raters.")
    by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    secret = models.CharField(
        max_length=64,
        help_text="Determines sides, order and names of pairs. Hidden from voters.",
    )
    tasks = models.PositiveIntegerField()
    samples = models.PositiveSmallIntegerField()
    again = models.FloatField(
        db_default=0.0,
        help_text="Share of questions that repeat a judged pair while others have no vote yet.",
    )
    created_at = models.DateTimeField(db_default=Now())
    closed_at = models.DateTimeField(null=True, help_text="When voting ended.")

    objects = ArenaQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(again__gte=0, again__lte=1), name="again_is_a_share")
        ]
        indexes = [models.Index(fields=["project", "-id"], name="arenas_of_a_project")]

    def __str__(self) -> str:
        return f"arena {self.pk}, {self.title}"

    @property
    def is_open(self) -> bool:
        return self.closed_at is None


class Contestant(models.Model):
    """An evaluation in an arena: one weight version's answers."""

    arena = models.ForeignKey(
        Arena, on_delete=models.PROTECT, related_name="contestants", db_index=False
    )
    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="contests")
    place = models.PositiveSmallIntegerField(
        help_text="Order in which contestants were chosen, from 0."
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["arena", "place"], name="one_contestant_per_place"),
            models.UniqueConstraint(fields=["arena", "run"], name="one_contestant_per_evaluation"),
        ]

    def __str__(self) -> str:
        return f"{self.run_id} in arena {self.arena_id}"


class Pairing(models.Model):
    """Two contestants.

    Their answers to one task with one sample index are a pair, if both exist and differ.
    """

    arena = models.ForeignKey(Arena, on_delete=models.PROTECT, related_name="pairings")
    first = models.ForeignKey(
        Contestant, on_delete=models.PROTECT, related_name="+", db_index=False
    )
    second = models.ForeignKey(
        Contestant, on_delete=models.PROTECT, related_name="+", db_index=False
    )
    size = models.PositiveIntegerField(help_text="Number of pairs that can be judged.")
    same = models.PositiveIntegerField(
        help_text="Number of pairs with identical answers. Nobody is asked about them."
    )
    votes = models.PositiveIntegerField(
        db_default=0, help_text="Number of valid votes; determines which pair is asked next."
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["first", "second"], name="one_pairing_per_two_contestants"
            ),
            models.CheckConstraint(
                condition=Q(first__lt=F("second")), name="a_pairing_has_an_order"
            ),
        ]

    def __str__(self) -> str:
        return f"pairing {self.pk} of arena {self.arena_id}"


class Vote(models.Model):
    """A person's vote about a pair: the pairing's answers to this task with this sample index."""

    class Choice(models.TextChoices):
        FIRST = "first"
        SECOND = "second"
        TIE = "tie"
        BAD = "bad", "both bad"
        BACK = "back", "withdrawn"

    pairing = models.ForeignKey(
        Pairing, on_delete=models.PROTECT, related_name="cast_votes", db_index=False
    )
    task = models.ForeignKey(Task, on_delete=models.PROTECT, related_name="+")
    sample_index = models.PositiveSmallIntegerField()
    rater = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="votes", db_index=False
    )
    choice = models.CharField(
        max_length=6,
        choices=Choice.choices,
        help_text="BAD counts as a tie; BACK withdraws the vote.",
    )
    first_on_left = models.BooleanField(
        help_text=(
            "Whether the first contestant was shown on the left (on narrow screens: on top)."
        )
    )
    client_uuid = models.UUIDField(
        help_text="Generated by the client; repeating it has no further effect."
    )
    milliseconds = models.PositiveIntegerField(
        null=True, help_text="Time between showing the pair and the vote."
    )
    at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["rater", "client_uuid"], name="one_vote_per_client_uuid"
            ),
            models.CheckConstraint(
                condition=Q(choice__in=["first", "second", "tie", "bad", "back"]),
                name="a_vote_is_one_of_five",
            ),
        ]
        indexes = [
            # The newest vote of each person about a pair, and all votes of one person.
            models.Index(
                fields=["pairing", "task", "sample_index", "rater", "-id"], name="votes_of_a_pair"
            ),
            models.Index(
                fields=["rater", "pairing", "task", "sample_index", "-id"], name="votes_of_a_person"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.rater_id}: {self.choice} in pairing {self.pairing_id}"


# The votes in force, one of each person about each pair, of the arena `%(arena)s`.
STANDING = """
    SELECT * FROM (
        SELECT DISTINCT ON (v.pairing_id, v.task_id, v.sample_index, v.rater_id)
            v.id, v.pairing_id, v.task_id, v.sample_index, v.rater_id, v.choice, v.first_on_left,
                v.at
        FROM evaluation_vote v JOIN evaluation_pairing p ON p.id = v.pairing_id
            WHERE p.arena_id = %(arena)s
        ORDER BY v.pairing_id, v.task_id, v.sample_index, v.rater_id, v.id DESC) newest
    WHERE choice <> 'back'"""
