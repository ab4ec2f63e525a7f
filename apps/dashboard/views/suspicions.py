"""Suspicions of reward hacking: the observations, a sample, and possible actions."""

from collections.abc import Callable

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import Count
from django.http import Http404, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_POST, require_safe

from apps.accounts.requests import SignedInRequest
from apps.dashboard.access import steered_run
from apps.dashboard.rollout_rows import build_rollout_rows, with_judgements
from apps.dashboard.trends import draw_series
from apps.feedback.models import Guess, Suspicion
from apps.feedback.suspicions import acting
from apps.feedback.suspicions.asking import (
    Answers,
    ask_people,
    choose_suspicion_form,
    load_sample_answers,
)
from apps.rewards.hacking import TITLES
from apps.rewards.hacking.guessing import TRIES
from apps.rollouts.excluded_tasks import LeftOut
from apps.rollouts.models import Rollout
from apps.runs.config import ConfigError
from apps.runs.models import NotPossible, Run
from apps.tasksets.models import Task

CLOSED_SHOWN = 20
TASKS_SHOWN = 20


class ActForm(forms.Form):
    """The fields of an action; which of them count depends on the action.

    Weights come as `weight.SCORER`.
    """

    reason = forms.CharField(required=False, max_length=500)
    name = forms.CharField(required=False, max_length=200)
    with_tasks = forms.BooleanField(required=False)

    def __init__(self, run: Run, data: QueryDict | None) -> None:
        super().__init__(data)
        for choice in run.settings.rewards:
            self.fields[f"weight.{choice.scorer}"] = forms.FloatField(required=False)

    @property
    def weights(self) -> dict[str, float]:
        posted = {
            name: value for name, value in self.cleaned_data.items() if name.startswith("weight.")
        }
        return {
            name.removeprefix("weight."): value
            for name, value in posted.items()
            if value is not None
        }


@require_safe
@login_required
def suspicions(request: SignedInRequest, project: str, slug: str) -> HttpResponse:
    """Owners and researchers of the project: it shows machine and human ratings."""
    run = steered_run(request, project, slug)
    found = run.suspicions.annotate(asked=Count("items")).order_by("-last_seen_at", "-pk")
    is_open = found.filter(state=Suspicion.State.OPEN)
    closed = found.exclude(state=Suspicion.State.OPEN).prefetch_related("actions__by")[
        :CLOSED_SHOWN
    ]
    context = {
        "section": "runs",
        "run": run,
        "open": [_titled(one) for one in is_open],
        "closed": [_titled(one) for one in closed],
        "watch": run.settings.hacking,
        "tries": TRIES,
        "titles": TITLES.values(),
        "checked": Guess.objects.filter(task__taskset__in=run.taskset_ids).exists(),
        "left_out": LeftOut.objects.filter(run=run).count(),
    }
    return render(request, "dashboard/suspicions.html", context)


@require_safe
@login_required
def suspicion(request: SignedInRequest, project: str, slug: str, pk: int) -> HttpResponse:
    """Owners and researchers of the project: one suspicion, its sample, and actions."""
    run = steered_run(request, project, slug)
    found = get_object_or_404(run.suspicions.select_related("run__project"), pk=pk)
    answers = load_sample_answers(found)
    tasks = Task.objects.filter(pk__in=found.tasks).order_by("index")
    context = {
        "section": "runs",
        "run": run,
        "suspicion": found,
        "title": TITLES.get(found.kind, found.kind),
        "answers": answers,
        "drawing": draw_series(found.series),
        "sample": _sample(request, found, answers),
        "metrics": dict(sorted(found.metrics.items())),
        "actions": found.actions.select_related("by"),
        "may_act": found.state != Suspicion.State.DISMISSED and run.state not in Run.ENDED,
        "untrained": acting.untrained(found),
        "untrained_of_tasks": acting.untrained(found, with_tasks=True),
        "task_count": len(acting.list_evidence_tasks(found)),
        "tasks": tasks[:TASKS_SHOWN],
        "is_asked": answers.asked > 0,
        "rewards": run.settings.rewards,
        "asked_as": choose_suspicion_form(run.settings.people),
        "overlap": run.settings.people.overlap,
    }
    return render(request, "dashboard/suspicion.html", context)


def _titled(found: Suspicion) -> dict:
    return {
        "suspicion": found,
        "title": TITLES.get(found.kind, found.kind),
        "drawing": draw_series(found.series) if found.state == Suspicion.State.OPEN else None,
    }


def _sample(request: SignedInRequest, found: Suspicion, answers: Answers) -> list[dict]:
    """Return the sample in order of time, with the ratings of machines and of people asked."""
    drawn = with_judgements(Rollout.objects.filter(pk__in=found.sample, run=found.run_id)).order_by(
        "pk"
    )
    shown = build_rollout_rows(drawn, request.user)
    evidence = set(found.evidence)
    return [
        row | {"shows_it": row["rollout"].pk in evidence, "said": answers.said[row["rollout"].pk]}
        for row in shown
    ]


@require_POST
@login_required
def act_on_suspicion(
    request: SignedInRequest, project: str, slug: str, pk: int, verb: str
) -> HttpResponse:
    """Owners and researchers of the project: ask people, drop, re-weight or dismiss."""
    run = steered_run(request, project, slug)
    found = get_object_or_404(run.suspicions, pk=pk)
    if verb not in ACTS:
        raise Http404(verb)
    form = ActForm(run, request.POST)
    if not form.is_valid():
        field, errors = next(iter(form.errors.items()))
        messages.error(
            request, f"Nothing was changed: {field.removeprefix('weight.')}: {errors[0]}"
        )
    else:
        _do(request, found, ACTS[verb], form)
    return redirect("run-suspicion", project, slug, pk)


def _do(request: SignedInRequest, found: Suspicion, action: Callable, form: ActForm) -> None:
    try:
        messages.success(request, action(request, found, form))
    except (NotPossible, ConfigError, ValueError) as refused:
        messages.error(request, f"Nothing was changed: {refused}")


def _ask(request: SignedInRequest, found: Suspicion, form: ActForm) -> str:
    count = ask_people(found, request.user)
    return f"{count} replies sent to raters, ahead of other items of this run."


def _drop(request: SignedInRequest, found: Suspicion, form: ActForm) -> str:
    if form.cleaned_data["name"] != found.run.slug:
        raise ValueError(f"type {found.run.slug} to confirm")
    if not form.cleaned_data["reason"]:
        raise ValueError("enter a reason")
    counts = acting.drop_evidence(
        found, request.user, form.cleaned_data["reason"], form.cleaned_data["with_tasks"]
    )
    tasks = (
        f", and {counts['tasks']:,} tasks are excluded" if form.cleaned_data["with_tasks"] else ""
    )
    return f"{counts['groups']:,} groups dropped{tasks}."


def _reweight(request: SignedInRequest, found: Suspicion, form: ActForm) -> str:
    reason = form.cleaned_data["reason"]
    weights = acting.reweight(found, request.user, form.weights, reason)
    changes = [f"{scorer} {before:g} → {after:g}" for scorer, (before, after) in weights.items()]
    return f"New weights: {', '.join(changes)}. They apply to new groups."


def _dismiss(request: SignedInRequest, found: Suspicion, form: ActForm) -> str:
    acting.dismiss(found, request.user, form.cleaned_data["reason"])
    return "Suspicion dismissed. New replies can raise it again."


ACTS: dict[str, Callable] = {"ask": _ask, "drop": _drop, "reweight": _reweight, "dismiss": _dismiss}
