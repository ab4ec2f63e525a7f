"""What the list of runs can be asked for, and how it is sorted, as it stands in the URL."""

from django import forms
from django.db.models import Q, QuerySet

from apps.accounts.models import User
from apps.runs.blindness import judged_openly
from apps.runs.models import Run, TasksetShare

# By the URL's word: what is read, the column (none: the newest first), and whether the smallest come first.
SORTS = {
    "newest": ("newest", "", False), "started": ("last started", "started_at", False), "step": ("most steps", "step", False),
    "reward": ("highest reward", "reward_now", False), "name": ("name", "slug", True),
}  # fmt: skip
ANY = [("", "any")]


class RunFilter(forms.Form):
    """Names are slugs. Fields that are wrong narrow nothing, and the page says so beside them."""

    words = forms.CharField(
        max_length=200, required=False, label="words in name, title or notes", widget=forms.TextInput({"data-search": ""})
    )
    state = forms.ChoiceField(choices=ANY + Run.State.choices, required=False, label="state")
    owner = forms.CharField(max_length=150, required=False, label="owner", widget=forms.TextInput({"placeholder": "a name"}))
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
        for name, field in (("state", "state"), ("owner", "owner__username"), ("policy", "policy__slug")):
            if name in wanted:
                runs = runs.filter(**{field: wanted[name]})
        if "taskset" in wanted:
            shared = TasksetShare.objects.filter(taskset__slug=wanted["taskset"]).values("run")
            runs = runs.filter(Q(taskset__slug=wanted["taskset"]) | Q(pk__in=shared))
        if "tag" in wanted:
            runs = runs.filter(tags__contains=[wanted["tag"].lower().removeprefix("#")])
        if wanted.get("sort") == "reward":
            runs = runs.filter(pk__in=judged_openly(user).values("pk"))
        return _of_kind(_kept(runs, wanted.get("archived")), wanted.get("evaluations"))


def _kept(runs: QuerySet[Run], archived: str | None) -> QuerySet[Run]:
    return runs if archived == "all" else runs.filter(archived_at__isnull=archived != "only")


def _of_kind(runs: QuerySet[Run], evaluations: str | None) -> QuerySet[Run]:
    """Runs that only evaluate train nothing: they are asked for."""
    if evaluations == "all":
        return runs
    return runs.filter(is_evaluation=evaluations == "only")
