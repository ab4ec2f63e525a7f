"""Lessons: what a person, or a file, says an answer should be. Append-only; a run learns from a frozen snapshot of them.

A demonstration shows an answer, a preference says which of two is better, a thumb says whether one is good.
"""

import hashlib
import json
from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from apps.accounts.models import Project
from apps.rollouts.models import Rollout
from apps.runs.models import Run
from apps.tasksets.models import Task


class LessonQuerySet(models.QuerySet):
    def known(self, lessons: list["Lesson"]) -> dict[tuple[int | None, str], "Lesson"]:
        """The rows that are there already for these lessons' authors and keys, of one project, by (author, key)."""
        if not lessons:
            return {}
        rows = self.filter(project=lessons[0].project_id, key__in={lesson.key for lesson in lessons})
        return {(row.author_id, row.key): row for row in rows}


class Lesson(models.Model):
    """What all lessons share. `key` is what it says and about which prompt: said again by the same author, it is the same row."""

    # The texts that, with the prompt, are its key; and what an author may say about them only once.
    TEXTS: ClassVar[tuple[str, ...]] = ()
    VERDICT: ClassVar[str | None] = None

    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="%(class)ss")
    task = models.ForeignKey(Task, null=True, on_delete=models.PROTECT, related_name="%(class)ss")
    run = models.ForeignKey(
        Run, null=True, on_delete=models.PROTECT, related_name="%(class)ss", help_text="Whose rollouts it is about."
    )
    prompt = models.JSONField(help_text="Chat messages: [{role, content}].")
    author = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="%(class)ss")
    source = models.CharField(max_length=200, help_text="The imported file's name, or what drew it from a run.")
    key = models.CharField(max_length=64, help_text="sha256 over the prompt and the texts.")
    at = models.DateTimeField(db_default=Now())

    objects = LessonQuerySet.as_manager()

    class Meta:
        abstract = True
        constraints = [
            # Nobody's word (an import's) counts as one author's.
            models.UniqueConstraint(
                fields=["project", "author", "key"], nulls_distinct=False, name="one_%(class)s_per_author_and_key"
            )
        ]

    def __str__(self) -> str:
        return f"{type(self).__name__.lower()} {self.pk}"

    @property
    def digest(self) -> str:
        """sha256 over everything that is learned from it; a snapshot's digest is made of these."""
        verdict = getattr(self, self.VERDICT) if self.VERDICT else None
        return digest_of([self.prompt, *(getattr(self, name) for name in self.TEXTS), verdict])

    def keyed(self) -> "Lesson":
        """Itself, with its key."""
        self.key = digest_of([self.prompt, *(getattr(self, name) for name in self.TEXTS)])
        return self

    def contradicts(self, other: "Lesson") -> bool:
        """The same author said something else about the same texts."""
        return self.VERDICT is not None and getattr(self, self.VERDICT) != getattr(other, self.VERDICT)


class Demonstration(Lesson):
    """An answer as it should be."""

    TEXTS = ("answer",)

    answer = models.TextField()


class Preference(Lesson):
    """Of two answers to one prompt, which is better; `margin`: by how much, where the author said so.

    `chosen_rollout` and `rejected_rollout`: whose whole texts they are, of what a run's policy said.
    """

    TEXTS = ("chosen", "rejected")
    VERDICT = "margin"

    chosen = models.TextField()
    rejected = models.TextField()
    margin = models.FloatField(null=True)
    chosen_rollout = models.ForeignKey(Rollout, null=True, on_delete=models.PROTECT, related_name="+")
    rejected_rollout = models.ForeignKey(Rollout, null=True, on_delete=models.PROTECT, related_name="+")

    class Meta(Lesson.Meta):
        constraints = [
            *Lesson.Meta.constraints,
            models.CheckConstraint(
                condition=Q(margin=None) | (Q(margin__gte=0) & Q(margin__lt=float("inf"))), name="margins_are_finite"
            ),
            models.CheckConstraint(condition=~Q(chosen=F("rejected")), name="a_preference_is_between_two"),
        ]


class Thumb(Lesson):
    """Whether an answer is good."""

    TEXTS = ("completion",)
    VERDICT = "is_up"

    completion = models.TextField()
    is_up = models.BooleanField()


class ExpertAnswer(models.Model):
    """That a demonstration stands as an expert's rollout in a run, where its experience can be mixed into updates."""

    demonstration = models.ForeignKey(Demonstration, on_delete=models.PROTECT, related_name="expert_answers")
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="expert_answers")
    rollout = models.OneToOneField(Rollout, on_delete=models.CASCADE, related_name="expert_answer")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "demonstration"], name="one_expert_answer_per_run")]

    def __str__(self) -> str:
        return f"{self.demonstration} in {self.run_id}"


LESSONS: dict[str, type[Lesson]] = {"demonstrations": Demonstration, "preferences": Preference, "thumbs": Thumb}


def digest_of(parts: list[object]) -> str:
    canonical = json.dumps(parts, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()
