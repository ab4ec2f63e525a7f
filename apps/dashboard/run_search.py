"""The filter and order of the list of runs, as they stand in the URL."""

from collections.abc import Callable

from django import forms
from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.http import QueryDict

from apps.accounts.models import Membership, Project, User
from apps.dashboard.form_fields import choice_field
from apps.policies.models import Policy
from apps.runs.algorithms.table import TABLE
from apps.runs.blind_review import judged_openly
from apps.runs.costs import with_cost
from apps.runs.models import Run, TasksetShare
from apps.tasksets.models import Taskset

# By the value in the URL: label, column (none: the newest first), and whether the smallest come
# first.
SORTS = {
    "newest": ("Newest", "", False),
    "started": ("Last started", "started_at", False),
    "step": ("Most steps", "step", False),
    "reward": ("Highest reward", "reward_now", False),
    "throughput": ("Most tokens/s", "tokens_per_s_now", False),
    "cost": ("Highest cost", "cost", False),
    "owner": ("Owner", "owner_name", True),
    "name": ("Name", "slug", True),
}
# Columns that are annotations.
ANNOTATED: dict[str, Callable[[QuerySet[Run]], QuerySet[Run]]] = {
    "cost": with_cost,
    "owner_name": lambda runs: runs.annotate(owner_name=F("owner__username")),
}
ANY = [("", "Any")]
COLUMNS = {
    "state": "state",
    "project": "project__slug",
    "algorithm": "config__algorithm__name",
    "owner": "owner__username",
    "policy": "policy__slug",
}
MAX_OFFERED = 500  # names offered for a field


class RunFilter(forms.Form):
    """The filter; names are slugs. Invalid fields filter nothing, and the page says so."""

    words = forms.CharField(
        max_length=200,
        required=False,
        label="Search",
        widget=forms.TextInput({"data-search": "", "placeholder": "Name, title or notes"}),
    )
    # Runs that are being deleted are listed apart.
    state = forms.ChoiceField(
        choices=ANY + [choice for choice in Run.State.choices if choice[0] != Run.State.DELETING],
        required=False,
        label="State",
    )
    project = forms.ChoiceField(required=False, label="Project")
    algorithm = forms.ChoiceField(
        choices=ANY + [(name, row.title) for name, row in TABLE.items()],
        required=False,
        label="Algorithm",
    )
    owner = forms.CharField(max_length=150, required=False, label="Owner")
    policy = forms.CharField(max_length=50, required=False, label="Policy")
    taskset = forms.CharField(max_length=50, required=False, label="Taskset")
    tag = forms.CharField(max_length=30, required=False, label="Tag")
    archived = forms.ChoiceField(
        choices=[("", "Not archived"), ("only", "Archived"), ("all", "All")],
        required=False,
        label="Archive",
    )
    evaluations = forms.ChoiceField(
        choices=[("", "Training runs"), ("only", "Evaluations"), ("all", "All")],
        required=False,
        label="Type",
    )
    sort = forms.ChoiceField(
        choices=[(name, words) for name, (words, _, _) in SORTS.items()],
        required=False,
        label="Sort by",
    )

    FIRST = ("words", "state", "sort")

    def __init__(self, query: QueryDict, user: User) -> None:
        """Set the offered choices from the user's projects, in four queries.

        Of people, those who may make runs are offered.
        """
        super().__init__(query)
        projects = Project.objects.visible_to(user)
        makers = Membership.objects.filter(project__in=projects, role__in=Membership.MAY_STEER)
        project_rows = projects.order_by("archived_at", "slug").values_list(
            "slug", "title", "archived_at"
        )
        choice_field(self, "project").choices = [
            *ANY,
            *((slug, f"{title} (archived)" if at else title) for slug, title, at in project_rows),
        ][:MAX_OFFERED]
        self.offered = {
            "owner": _names(User.objects.filter(pk__in=makers.values("user")), "username"),
            "policy": _names(Policy.objects.filter(project__in=projects), "slug"),
            "taskset": _names(Taskset.objects.filter(project__in=projects), "slug"),
        }
        for name in self.offered:
            self.fields[name].widget.attrs["list"] = f"offered-{name}"

    @property
    def first(self) -> list[forms.BoundField]:
        return [self[name] for name in self.FIRST]

    @property
    def more(self) -> list[forms.BoundField]:
        """Return the fields that are collapsed at first."""
        return [self[name] for name in self.fields if name not in self.FIRST]

    @property
    def criteria(self) -> dict[str, str]:
        return {name: value for name, value in getattr(self, "cleaned_data", {}).items() if value}

    @property
    def asks_more(self) -> bool:
        return any(field.name in self.criteria or field.errors for field in self.more)

    @property
    def is_narrowed(self) -> bool:
        return bool(self.criteria.keys() - {"sort"})

    def project_without_runs(self, user: User) -> Project | None:
        """Return the project if it is the only criterion, and has no runs yet."""
        if self.criteria.keys() - {"sort"} != {"project"}:
            return None
        named_project = Project.objects.visible_to(user).filter(slug=self.criteria["project"])
        return named_project.filter(~Exists(Run.objects.filter(project=OuterRef("pk")))).first()

    @property
    def order(self) -> tuple[str, bool]:
        """Return the column, and whether the smallest come first."""
        return SORTS[self.criteria.get("sort", "newest")][1:]

    def narrow(self, runs: QuerySet[Run], user: User) -> QuerySet[Run]:
        """Apply the filter; call is_valid() first.

        If rewards decide the order, runs that the user rates blind are left out.
        """
        criteria = self.criteria
        if words := criteria.get("words"):
            # Notes may mention rewards.
            noted = Q(notes__icontains=words, pk__in=judged_openly(user).values("pk"))
            runs = runs.filter(Q(slug__icontains=words) | Q(title__icontains=words) | noted)
        runs = runs.filter(
            **{field: criteria[name] for name, field in COLUMNS.items() if name in criteria}
        )
        if "taskset" in criteria:
            shared = TasksetShare.objects.filter(taskset__slug=criteria["taskset"]).values("run")
            runs = runs.filter(Q(taskset__slug=criteria["taskset"]) | Q(pk__in=shared))
        if "tag" in criteria:
            runs = runs.filter(tags__contains=[criteria["tag"].lower().removeprefix("#")])
        if criteria.get("sort") == "reward":
            runs = runs.filter(pk__in=judged_openly(user).values("pk"))
        of_project = "project" in criteria
        runs = _filter_archived(runs, criteria.get("archived"), of_project)
        runs = _of_kind(runs, criteria.get("evaluations"))
        return ANNOTATED.get(self.order[0], lambda queryset: queryset)(runs)


def _names(rows: QuerySet, field: str) -> list[str]:
    return list(rows.order_by(field).values_list(field, flat=True).distinct()[:MAX_OFFERED])


def _filter_archived(runs: QuerySet[Run], archived: str | None, of_project: bool) -> QuerySet[Run]:
    """Apply the filter by archive. Runs of an archived project count as archived, too.

    Who names the project wants to see its runs, so there only their own archive counts.
    """
    if archived == "all":
        return runs
    is_archived = Q(archived_at__isnull=False)
    if not of_project:
        is_archived |= Q(project__archived_at__isnull=False)
    return runs.filter(is_archived) if archived == "only" else runs.exclude(is_archived)


def _of_kind(runs: QuerySet[Run], evaluations: str | None) -> QuerySet[Run]:
    """Apply the filter by kind; runs that only evaluate are shown on request."""
    if evaluations == "all":
        return runs
    return runs.filter(is_evaluation=evaluations == "only")
