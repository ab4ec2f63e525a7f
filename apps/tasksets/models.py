"""What may be asked: tasksets, and the tasks in them. A taskset that a run has used never changes."""

from django.conf import settings
from django.db import models

from apps.accounts.models import Project, User
from apps.tasksets.drawing import position


class TasksetQuerySet(models.QuerySet):
    def visible_to(self, user: User) -> "TasksetQuerySet":
        return self.filter(project__in=Project.objects.visible_to(user))


class Taskset(models.Model):
    """An ordered, immutable set of tasks, generated from a seed or imported from a file."""

    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="tasksets")
    slug = models.SlugField()
    title = models.CharField(max_length=200)
    source = models.CharField(max_length=200, help_text="The generator's name, or the imported file's.")
    seed = models.BigIntegerField(null=True, help_text="The generator's seed; NULL for an import.")
    size = models.PositiveIntegerField(default=0)
    quarantined = models.PositiveIntegerField(default=0, help_text="Lines of the file that were not imported.")
    digest = models.CharField(max_length=64, help_text="sha256 over the tasks, in order.")
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL)
    created_at = models.DateTimeField(auto_now_add=True)

    objects = TasksetQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "slug"], name="one_taskset_per_slug")]

    def __str__(self) -> str:
        return self.slug

    def draw(self, draw_indexes: list[int], seed: int) -> list["Task"]:
        """The tasks of these draws, in order: each epoch is one seeded shuffle of the whole set."""
        wanted = [position(index, self.size, seed) for index in draw_indexes]
        found = {task.index: task for task in self.tasks.filter(index__in=wanted)}
        return [found[index] for index in wanted]


class Task(models.Model):
    """One problem: the messages shown to the policy, and what a scorer needs to judge an answer."""

    taskset = models.ForeignKey(Taskset, on_delete=models.CASCADE, related_name="tasks")
    index = models.PositiveIntegerField()
    prompt = models.JSONField(help_text="Chat messages: [{role, content}].")
    follow_ups = models.JSONField(default=list, help_text="What the user says after each answer of the policy: texts, in order.")
    answer = models.JSONField(default=dict, help_text="For scorers only; never shown to the policy.")
    meta = models.JSONField(default=dict)
    digest = models.CharField(max_length=64)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["taskset", "index"], name="one_task_per_index")]

    def __str__(self) -> str:
        return f"{self.taskset_id}#{self.index}"

    @property
    def question(self) -> str:
        """The last user message, for lists and cards."""
        return next((m["content"] for m in reversed(self.prompt) if m["role"] == "user"), "")


class QuarantinedLine(models.Model):
    """A line of an imported file that is no task, with the reason."""

    taskset = models.ForeignKey(Taskset, on_delete=models.CASCADE, related_name="quarantined_lines")
    line = models.PositiveIntegerField()
    reason = models.CharField(max_length=300)
    excerpt = models.CharField(max_length=200)

    class Meta:
        ordering = ["line"]
