"""Tasksets, and the tasks in them.

They never change: a corrected set is another set, a later version.
"""

from collections.abc import Iterable, Sequence

from django.conf import settings
from django.db import models
from django.db.models import Q

from apps.accounts.models import Project, User
from apps.accounts.public_text import ReasonField
from apps.tasksets.judged_by import KEY, Kind, find_judged_kind
from apps.tasksets.messages import content_text
from apps.tasksets.pictures import EncodedPicture, encode_picture


class TasksetQuerySet(models.QuerySet):
    def visible_to(self, user: User) -> "TasksetQuerySet":
        return self.filter(project__in=Project.objects.visible_to(user))


class Taskset(models.Model):
    """Ordered set of tasks, generated from a seed or imported from a file, that never changes.

    A growing set is the exception: it gets what callers ask, and is never sampled.
    """

    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="tasksets")
    slug = models.SlugField()
    title = models.CharField(max_length=200)
    source = models.CharField(
        max_length=200, help_text="Name of the generator or of the imported file."
    )
    seed = models.BigIntegerField(null=True, help_text="Seed of the generator; NULL for an import.")
    size = models.PositiveIntegerField(default=0)
    quarantined = models.PositiveIntegerField(
        default=0, help_text="Number of invalid lines that were not imported."
    )
    duplicates = models.PositiveIntegerField(
        default=0,
        db_default=0,
        help_text="Number of duplicate tasks in the file that were not imported.",
    )
    left_out = models.PositiveIntegerField(
        default=0,
        db_default=0,
        help_text="Number of tasks that operators removed during the import.",
    )
    digest = models.CharField(
        max_length=64,
        blank=True,
        help_text="SHA-256 over the tasks in order; empty for a taskset that still grows.",
    )
    first = models.ForeignKey(
        "self",
        null=True,
        on_delete=models.PROTECT,
        related_name="later",
        help_text="Version 1 of this taskset, if this is a later version.",
    )
    version = models.PositiveIntegerField(default=1, db_default=1)
    added = models.PositiveIntegerField(
        default=0,
        db_default=0,
        help_text="Number of tasks that are new compared with the previous version.",
    )
    removed = models.PositiveIntegerField(
        default=0,
        db_default=0,
        help_text="Number of tasks of the previous version that were removed.",
    )
    grows = models.BooleanField(
        default=False,
        help_text="Collects the requests to a serving run. No run samples from it.",
    )
    shows_pictures = models.BooleanField(
        default=False, help_text="Whether at least one task has an image."
    )
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL)
    created_at = models.DateTimeField(auto_now_add=True)

    objects = TasksetQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "slug"], name="one_taskset_per_slug"),
            models.UniqueConstraint(fields=["first", "version"], name="one_taskset_per_version"),
            models.CheckConstraint(
                condition=Q(first=None, version=1) | Q(first__isnull=False, version__gt=1),
                name="later_versions_name_their_first",
            ),
        ]

    def __str__(self) -> str:
        return self.slug

    @property
    def versions(self) -> "TasksetQuerySet":
        """Return all versions of it, the newest first."""
        first = self.first_id or self.pk
        return Taskset.objects.filter(Q(pk=first) | Q(first=first)).order_by("-version")

    @property
    def made_of_it(self) -> "TasksetQuerySet":
        """Return sets whose first task was made of one of its tasks, the newest first."""
        first = Task.objects.filter(index=0, descent__parent__taskset=self)
        return Taskset.objects.filter(pk__in=first.values("taskset")).order_by("-pk")

    def at(self, indexes: Sequence[int]) -> list["Task"]:
        """Return the tasks of these indexes, in this order."""
        tasks_by_index = {task.index: task for task in self.tasks.filter(index__in=indexes)}
        return [tasks_by_index[index] for index in indexes]


class Task(models.Model):
    """One problem: the messages shown to the policy, and what a scorer needs to judge an answer."""

    taskset = models.ForeignKey(Taskset, on_delete=models.CASCADE, related_name="tasks")
    index = models.PositiveIntegerField()
    prompt = models.JSONField(
        help_text="Chat messages: [{role, content}], see apps.tasksets.messages."
    )
    follow_ups = models.JSONField(
        default=list,
        help_text="Texts that the user sends after the policy's replies, in order.",
    )
    answer = models.JSONField(
        default=dict, help_text="Reference answer for scorers. Never shown to the policy."
    )
    meta = models.JSONField(default=dict)
    domain = models.CharField(
        max_length=60,
        blank=True,
        help_text="Subject, for example code, math or biology. Determines the scorers.",
    )
    digest = models.CharField(max_length=64)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["taskset", "index"], name="one_task_per_index")
        ]

    def __str__(self) -> str:
        return f"{self.taskset_id}#{self.index}"

    @property
    def kind(self) -> Kind:
        """Return the task's kind, by which a run chooses its scorers."""
        return find_judged_kind(self.domain, self.meta.get(KEY))

    @property
    def question(self) -> str:
        """Return the last user message as a text, for lists and cards."""
        return next(
            (content_text(m["content"]) for m in reversed(self.prompt) if m["role"] == "user"), ""
        )


class TaskParent(models.Model):
    """Link from a task to the task that it was made of.

    The new task is harder, paraphrased, or asks for what an answer to the parent has reached
    instead.
    """

    task = models.OneToOneField(Task, on_delete=models.CASCADE, related_name="descent")
    parent = models.ForeignKey(Task, on_delete=models.PROTECT, related_name="descendants")

    class Meta:
        constraints = [
            # A parent is there before what is made of it: so no task descends from itself, however
            # far back.
            models.CheckConstraint(
                condition=Q(task__gt=models.F("parent")), name="a_task_is_younger_than_its_parent"
            )
        ]

    def __str__(self) -> str:
        return f"{self.task_id} of {self.parent_id}"


class QuarantinedLine(models.Model):
    """A line of an imported file that did not become a task, with the reason."""

    taskset = models.ForeignKey(Taskset, on_delete=models.CASCADE, related_name="quarantined_lines")
    line = models.PositiveIntegerField()
    reason = ReasonField(max_length=300)
    excerpt = models.CharField(max_length=200)
    same_as = models.PositiveIntegerField(
        null=True,
        help_text=(
            "The earlier line that this one duplicates; NULL if this line is not a valid task."
        ),
    )

    class Meta:
        ordering = ["line"]


class PictureQuerySet(models.QuerySet):
    def visible_to(self, user: User) -> "PictureQuerySet":
        return self.filter(project__in=Project.objects.visible_to(user))

    def keep(self, project: Project, pictures: Iterable[EncodedPicture]) -> None:
        """Store the pictures that the project lacks; a picture's name is its digest."""
        rows = [
            Picture(project=project, sha256=p.sha256, width=p.width, height=p.height, png=p.png)
            for p in pictures
        ]
        Picture.objects.bulk_create(rows, ignore_conflicts=True)


class Picture(models.Model):
    """Picture that messages of this project show, in the stored form; it never changes."""

    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="pictures")
    sha256 = models.CharField(
        max_length=64,
        help_text="SHA-256 of the PNG in hexadecimal; messages refer to the image by it.",
    )
    width = models.PositiveSmallIntegerField(help_text="Pixels.")
    height = models.PositiveSmallIntegerField(help_text="Pixels.")
    png = models.BinaryField()
    created_at = models.DateTimeField(auto_now_add=True)

    objects = PictureQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "sha256"], name="one_picture_per_content")
        ]
        indexes = [
            models.Index(fields=["sha256"], name="picture_by_name")
        ]  # its address tells no project

    def __str__(self) -> str:
        return f"{self.sha256[:12]} ({self.width} × {self.height})"

    @classmethod
    def take(cls, project: Project, raw: bytes) -> "Picture":
        """Return the picture in these untrusted bytes, stored.

        Raises BadPicture with the reason.
        """
        picture = encode_picture(raw)
        cls.objects.keep(project, [picture])
        return cls.objects.get(project=project, sha256=picture.sha256)
