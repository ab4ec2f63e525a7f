"""The rollouts of a run, and the page of one: what was said, token by token, and what was said about it."""

from django import forms
from django.contrib.auth.decorators import login_required
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from apps.buffer.models import Experience, StepItem
from apps.dashboard.access import may_steer, seen_run
from apps.dashboard.paging import page_of
from apps.dashboard.rollout_rows import rows, with_judgements
from apps.dashboard.shading import shading_of
from apps.dashboard.transcript import transcript_of, typed_in
from apps.dashboard.verdicts import CLOSED, verdict_on
from apps.feedback.models import Rating
from apps.feedback.saying import rating_in_words
from apps.feedback.starring import ratable_by
from apps.rewards.models import Rescored
from apps.rollouts.models import Rollout
from apps.runs.blindness import sees_judgements
from apps.runs.models import Run

RATINGS, EPISODES, SETS = 50, 5, 5  # shown of one rollout


def _learned_as(*states: str) -> Exists:
    """Asked as a question, not joined: a rollout that was learned from in several updates is one row of the list."""
    return Exists(Experience.objects.filter(rollout=OuterRef("pk"), state__in=states))


class Filter(forms.Form):
    """The list's filter, as it stands in the URL. Versions are those that sampled; steps those that trained."""

    FATES = {
        "waiting": Q(group__state="waiting"),
        "admitted": _learned_as("ready", "claimed", "trained"),
        "trained": _learned_as("trained"),
        "dropped": Q(group__state="dropped") | _learned_as("dropped"),
        "failed": Q(state="failed"),
    }
    # What a blind person may ask for: what becomes of a reply tells how it was judged.
    BLIND = ("waiting", "failed")
    fate = forms.ChoiceField(choices=[("", "all"), *((name, name) for name in FATES)], required=False)
    from_step = forms.IntegerField(min_value=0, max_value=2**31 - 1, required=False, label="from step")
    to_step = forms.IntegerField(min_value=0, max_value=2**31 - 1, required=False, label="to step")

    def __init__(self, *arguments: object, is_open: bool, **options: object) -> None:
        super().__init__(*arguments, **options)
        if not is_open:
            self.fields = {"fate": self.fields["fate"]}
            self.fields["fate"].choices = [("", "all"), *((name, name) for name in self.BLIND)]

    def narrow(self, found: QuerySet[Rollout]) -> QuerySet[Rollout]:
        """Fields that are wrong narrow nothing; the page says so beside them."""
        wanted = {name: value for name, value in getattr(self, "cleaned_data", {}).items() if value not in (None, "")}
        if fate := wanted.get("fate"):
            found = found.filter(self.FATES[fate])
        bounds = (("from_step", "gte"), ("to_step", "lte"))
        steps = {f"step__number__{how}": wanted[name] for name, how in bounds if name in wanted}
        return found.filter(Exists(StepItem.objects.filter(experience__rollout=OuterRef("pk"), **steps))) if steps else found


@require_safe
@login_required
def rollouts(request: HttpRequest, project: str, slug: str) -> HttpResponse:
    """Members of the run's project."""
    run = seen_run(request, project, slug)
    is_open = sees_judgements(request.user, run)
    form = Filter(request.GET, is_open=is_open)
    form.is_valid()
    page = page_of(with_judgements(form.narrow(run.rollouts.without_anchors().exclude(state=Rollout.State.SAMPLING))), request)
    context = {
        "section": "runs", "run": run, "page": page, "rows": rows(page.rows, request.user), "form": form, "is_open": is_open,
        "fates": [name for name, _ in form.fields["fate"].choices], "may_steer": may_steer(request, run),
    }  # fmt: skip
    return render(request, "dashboard/rollouts.html", context)


@require_safe
@login_required
def rollout(request: HttpRequest, pk: int) -> HttpResponse:
    """Members of the project of the rollout's run."""
    visible = Rollout.objects.filter(run__in=Run.objects.visible_to(request.user))
    found = get_object_or_404(
        with_judgements(visible).select_related("payload", "group__task", "run__project", "run__policy"), pk=pk
    )
    group = Rollout.objects.without_anchors().filter(group=found.group)
    siblings = rows(with_judgements(group).order_by("sample_index"), request.user)
    [row] = rows([found], request.user)
    about = Q(rollout=found) | Q(item__group=found.group_id, rollout=None, shown__contains=[found.pk])
    ratings = Rating.objects.filter(about, is_withdrawn=False).select_related("rater").order_by("-pk")
    is_open, typed = row["is_open"], typed_in(found)
    ratings = (ratings if is_open else ratings.filter(rater=request.user))[:RATINGS]
    context = {
        "section": "runs", "run": found.run, "rollout": found, "row": row, "siblings": siblings, "is_open": is_open,
        "shading": shading_of(found, typed) if is_open and hasattr(found, "payload") else None,
        "said": transcript_of(found, typed) if found.turns else [],
        "verdict": verdict_on(found, found.learned) if is_open or row["station"] != "closed" else CLOSED,
        "ratings": [(rating, rating_in_words(rating)) for rating in ratings],
        "episodes": found.episodes.select_related("environment").order_by("-fence")[:EPISODES],
        "rescored": _rescored(found) if is_open else [],
        "may_rate": ratable_by(request.user).filter(pk=found.pk).exists(),
        "may_make_gold": found.state == Rollout.State.FINISHED and may_steer(request, found.run),
    }  # fmt: skip
    return render(request, "dashboard/rollout.html", context)


def _rescored(found: Rollout) -> QuerySet[Rescored]:
    """What new sets of rewards say of it, the newest first."""
    return Rescored.objects.filter(rollout=found).select_related("rescoring").order_by("-rescoring")[:SETS]
