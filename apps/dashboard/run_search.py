"""What the list of runs can be asked for, and how it is sorted, as it stands in the URL."""

from collections.abc import Callable

from django import forms
from django.db.models import F, Q, QuerySet
from django.http import QueryDict

from apps.accounts.models import Membership, Project, User
from apps.policies.models import Policy
from apps.runs.algorithms.table import TABLE
from apps.runs.blindness import judged_openly
from apps.runs.costs import with_cost
from apps.runs.models import Run, TasksetShare
from apps.tasksets.models import Taskset

# By the URL's word: what is read, the column (none: the newest first), and whether the smallest come first.
SORTS = {
    "newest": ("newest", "", False), "started": ("last started", "started_at", False), "step": ("most steps", "step", False),
    "reward": ("highest reward", "reward_now", False), "throughput": ("most tokens a second", "tokens_per_s_now", False),
    "cost": ("highest cost", "cost", False), "owner": ("owner", "owner_name", True), "name": ("name", "slug", True),
}  # fmt: skip
# Columns that are none of a run's own.
FOUND: dict[str, Callable[[QuerySet[Run]], QuerySet[Run]]] = {
    "cost": with_cost,
    "owner_name": lambda runs: runs.annotate(owner_name=F("owner__username")),
}
ANY = [("", "any")]
COLUMNS = {
    "state": "state", "project": "project__slug", "algorithm": "config__algorithm__name", "owner": "owner__username",
    "policy": "policy__slug",
}  # fmt: skip
MOST_OFFERED = 500  # names under a field


class RunFilter(forms.Form):
    """Names are slugs. Fields that are wrong narrow nothing, and the page says so beside them."""

    words = forms.CharField(
        max_length=200, required=False, label="words in name, title or notes", widget=forms.TextInput({"data-search": ""})
    )
    state = forms.ChoiceField(choices=ANY + Run.State.choices, required=False, label="state")
    project = forms.ChoiceField(required=False, label="project")
    algorithm = forms.ChoiceField(
        choices=ANY + [(name, row.title) for name, row in TABLE.items()], required=False, label="algorithm"
    )
    owner = forms.CharField(max_length=150, required=False, label="owner")
    policy = forms.CharField(max_length=50, required=False, label="policy")
    taskset = forms.CharField(max_length=50, required=False, label="taskset")
    tag = forms.CharField(max_length=30, required=False, label="tag")
    archived = forms.ChoiceField(
        choices=[("", "not archived"), ("only", "archived"), ("all", "both")], required=False, label="archive"
    )
    evaluations = forms.ChoiceField(
        choices=[("", "trainings"), ("only", "evaluations"), ("all", "both")], required=False, label="kind"
    )
    sort = forms.ChoiceField(choices=[(name, words) for name, (words, _, _) in SORTS.items()], required=False, label="sorted by")

    FIRST = ("words", "state", "sort")

    def __init__(self, asked: QueryDict, user: User) -> None:
        """What there is in the person's projects is offered, of people those who make runs: four queries."""
        super().__init__(asked)
        projects = Project.objects.visible_to(user)
        makers = Membership.objects.filter(project__in=projects, role__in=Membership.MAY_STEER)
        self.fields["project"].choices = [*ANY, *projects.order_by("slug").values_list("slug", "title")[:MOST_OFFERED]]
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
        """What is folded away until it is asked for."""
        return [self[name] for name in self.fields if name not in self.FIRST]

    @property
    def wanted(self) -> dict[str, str]:
        return {name: value for name, value in getattr(self, "cleaned_data", {}).items() if value}

    @property
    def asks_more(self) -> bool:
        return any(field.name in self.wanted or field.errors for field in self.more)

    @property
    def is_narrowed(self) -> bool:
        return bool(self.wanted.keys() - {"sort"})

    @property
    def order(self) -> tuple[str, bool]:
        """The column, and whether the smallest come first."""
        return SORTS[self.wanted.get("sort", "newest")][1:]

    def narrow(self, runs: QuerySet[Run], user: User) -> QuerySet[Run]:
        """Call is_valid() before. Where rewards decide the order, what the person judges blind is left out."""
        wanted = self.wanted
        if words := wanted.get("words"):
            # Notes may tell of rewards.
            noted = Q(notes__icontains=words, pk__in=judged_openly(user).values("pk"))
            runs = runs.filter(Q(slug__icontains=words) | Q(title__icontains=words) | noted)
        runs = runs.filter(**{field: wanted[name] for name, field in COLUMNS.items() if name in wanted})
        if "taskset" in wanted:
            shared = TasksetShare.objects.filter(taskset__slug=wanted["taskset"]).values("run")
            runs = runs.filter(Q(taskset__slug=wanted["taskset"]) | Q(pk__in=shared))
        if "tag" in wanted:
            runs = runs.filter(tags__contains=[wanted["tag"].lower().removeprefix("#")])
        if wanted.get("sort") == "reward":
            runs = runs.filter(pk__in=judged_openly(user).values("pk"))
        runs = _of_kind(_kept(runs, wanted.get("archived")), wanted.get("evaluations"))
        return FOUND.get(self.order[0], lambda same: same)(runs)


def _names(rows: QuerySet, field: str) -> list[str]:
    return list(rows.order_by(field).values_list(field, flat=True).distinct()[:MOST_OFFERED])


def _kept(runs: QuerySet[Run], archived: str | None) -> QuerySet[Run]:
    return runs if archived == "all" else runs.filter(archived_at__isnull=archived != "only")


def _of_kind(runs: QuerySet[Run], evaluations: str | None) -> QuerySet[Run]:
    """Runs that only evaluate train nothing: they are asked for."""
    if evaluations == "all":
        return runs
    return runs.filter(is_evaluation=evaluations == "only")
