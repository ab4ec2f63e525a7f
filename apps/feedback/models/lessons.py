"""Lessons: what, according to a person or a file, an answer should be.

Append-only; a run learns from a frozen snapshot of them. A demonstration shows an answer, a
preference says which of two is better, a thumb says whether one is good.
"""

import hashlib
import json
from collections.abc import Sequence
from typing import ClassVar, Self

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from apps.accounts.models import Project
from apps.rollouts.models import Rollout
from apps.runs.models import Run
from apps.tasksets.models import Task


class LessonQuerySet(models.QuerySet):
    def existing(
        self: "LessonQuerySet[Lesson, Lesson]", lessons: Sequence["Lesson"]
    ) -> dict[tuple[int | None, str], "Lesson"]:
        """Return the existing rows for these lessons of one project, by (author, key)."""
        if not lessons:
            return {}
        rows = self.filter(
            project=lessons[0].project_id, key__in={lesson.key for lesson in lessons}
        )
        return {(row.author_id, row.key): row for row in rows}


class Lesson(models.Model):
    """Base of all lessons.

    `key` is derived from its content and prompt, so a repeat by the same author is the same row.
    """

    # The texts that make the key with the prompt; and the verdict, one per author.
    TEXTS: ClassVar[tuple[str, ...]] = ()
    VERDICT: ClassVar[str | None] = None

    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="%(class)ss")
    task = models.ForeignKey(Task, null=True, on_delete=models.PROTECT, related_name="%(class)ss")
    run = models.ForeignKey(
        Run,
        null=True,
        on_delete=models.PROTECT,
        related_name="%(class)ss",
        help_text="The run whose rollouts were rated.",
    )
    prompt = models.JSONField(help_text="Chat messages: [{role, content}].")
    author = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="%(class)ss"
    )
    source = models.CharField(
        max_length=200, help_text="Name of the imported file, or of the collection from a run."
    )
    key = models.CharField(max_length=64, help_text="SHA-256 of the prompt and the texts.")
    at = models.DateTimeField(db_default=Now())

    objects = LessonQuerySet.as_manager()

    class Meta:
        abstract = True
        constraints = [
            # Imports without an author count as one author.
            models.UniqueConstraint(
                fields=["project", "author", "key"],
                nulls_distinct=False,
                name="one_%(class)s_per_author_and_key",
            )
        ]

    def __str__(self) -> str:
        return f"{type(self).__name__.lower()} {self.pk}"

    @property
    def digest(self) -> str:
        """Return the sha256 of everything that is learned from the lesson.

        A snapshot's digest is computed from these.
        """
        verdict = getattr(self, self.VERDICT) if self.VERDICT else None
        return digest_lesson([self.prompt, *(getattr(self, name) for name in self.TEXTS), verdict])

    def keyed(self) -> Self:
        """Set the lesson's key, and return the lesson."""
        self.key = digest_lesson([self.prompt, *(getattr(self, name) for name in self.TEXTS)])
        return self

    def contradicts(self, other: "Lesson") -> bool:
        """Tell whether the same author gave another verdict on the same texts."""
        return self.VERDICT is not None and getattr(self, self.VERDICT) != getattr(
            other, self.VERDICT
        )


class Demonstration(Lesson):
    """An answer as it should be."""

    TEXTS = ("answer",)

    answer = models.TextField()


class Preference(Lesson):
    """The better one of two answers to one prompt; `margin` is by how much, if the author said so.

    `chosen_rollout` and `rejected_rollout` are the rollouts whose whole texts they are, if any.
    """

    TEXTS = ("chosen", "rejected")
    VERDICT = "margin"

    chosen = models.TextField()
    rejected = models.TextField()
    margin = models.FloatField(null=True)
    chosen_rollout = models.ForeignKey(
        Rollout, null=True, on_delete=models.PROTECT, related_name="+"
    )
    rejected_rollout = models.ForeignKey(
        Rollout, null=True, on_delete=models.PROTECT, related_name="+"
    )

    class Meta(Lesson.Meta):
        constraints = [
            *Lesson.Meta.constraints,
            models.CheckConstraint(
                condition=Q(margin=None) | (Q(margin__gte=0) & Q(margin__lt=float("inf"))),
                name="margins_are_finite",
            ),
            models.CheckConstraint(
                condition=~Q(chosen=F("rejected")), name="a_preference_is_between_two"
            ),
        ]


class Thumb(Lesson):
    """A verdict whether an answer is good."""

    TEXTS = ("completion",)
    VERDICT = "is_up"

    completion = models.TextField()
    is_up = models.BooleanField()


class ExpertAnswer(models.Model):
    """The expert rollout of a demonstration in a run; steps can mix in its experience."""

    demonstration = models.ForeignKey(
        Demonstration, on_delete=models.PROTECT, related_name="expert_answers"
    )
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="expert_answers")
    rollout = models.OneToOneField(Rollout, on_delete=models.CASCADE, related_name="expert_answer")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["run", "demonstration"], name="one_expert_answer_per_run"
            )
        ]

    def __str__(self) -> str:
        return f"{self.demonstration} in {self.run_id}"


LESSONS: dict[str, type[Lesson]] = {
    "demonstrations": Demonstration,
    "preferences": Preference,
    "thumbs": Thumb,
}


def digest_lesson(parts: list[object]) -> str:
    canonical = json.dumps(parts, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()
