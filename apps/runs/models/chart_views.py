"""Saved views of charts: which metrics, on which axis, in which window of steps."""

from typing import Any

from django.conf import settings
from django.db import models, transaction
from django.db.models import Q
from django.db.models.functions import Now

from apps.accounts.models import Project, User
from apps.runs.models.run import NotPossible, Run

MAX_NAME_LENGTH = 60
MAX_VIEWS = 50  # of one person in one project


class ChartViewQuerySet(models.QuerySet["ChartView"]):
    def offered(self, user: User, run: Run) -> "ChartViewQuerySet":
        """Return the views of this run and of all runs of its project: own and shared ones."""
        views = self.filter(Q(run=None) | Q(run=run), project=run.project_id)
        return views.filter(Q(owner=user) | Q(is_shared=True))


class ChartView(models.Model):
    """A named query string of a run's charts page; of one run, or of all runs of a project."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="chart_views")
    run = models.ForeignKey(
        Run,
        null=True,
        on_delete=models.CASCADE,
        related_name="chart_views",
        help_text="NULL: every run of the project.",
    )
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="chart_views"
    )
    name = models.CharField(max_length=MAX_NAME_LENGTH)
    query = models.TextField(help_text="The query string, as the charts page writes it.")
    is_shared = models.BooleanField(
        default=False, help_text="Other members of the project see it, too."
    )
    at = models.DateTimeField(db_default=Now())

    objects = ChartViewQuerySet.as_manager()

    class Meta:
        ordering = ["name", "pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["run", "owner", "name"], name="one_chart_view_per_name_and_run"
            ),
            models.UniqueConstraint(
                fields=["project", "owner", "name"],
                condition=Q(run=None),
                name="one_chart_view_per_name_and_project",
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @classmethod
    @transaction.atomic
    def keep(
        cls, run: Run, owner: User, name: str, query: str, of_all_runs: bool, is_shared: bool
    ) -> "ChartView":
        """Save a view; the owner's view with this name for the same runs is replaced.

        Raises NotPossible if the owner has too many in the project.
        """
        own_views = cls.objects.filter(project=run.project_id, owner=owner)
        place: dict[str, Any] = {"run": None if of_all_runs else run, "name": name}
        if own_views.count() >= MAX_VIEWS and not own_views.filter(**place).exists():
            raise NotPossible(f"you have {MAX_VIEWS} views in this project; delete one first")
        view, _ = cls.objects.update_or_create(
            project_id=run.project_id,
            owner=owner,
            **place,
            defaults={"query": query, "is_shared": is_shared},
        )
        return view
