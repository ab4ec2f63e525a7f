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
    ordered = run.suspicions.annotate(item_count=Count("items")).order_by("-last_seen_at", "-pk")
    is_open = ordered.filter(state=Suspicion.State.OPEN)
    closed = ordered.exclude(state=Suspicion.State.OPEN).prefetch_related("actions__by")[
        :CLOSED_SHOWN
    ]
    context = {
        "section": "runs",
        "run": run,
        "open": [_suspicion_with_title(row) for row in is_open],
        "closed": [_suspicion_with_title(row) for row in closed],
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
    shown_suspicion = get_object_or_404(run.suspicions.select_related("run__project"), pk=pk)
    answers = load_sample_answers(shown_suspicion)
    tasks = Task.objects.filter(pk__in=shown_suspicion.tasks).order_by("index")
    context = {
        "section": "runs",
        "run": run,
        "suspicion": shown_suspicion,
        "title": TITLES.get(shown_suspicion.kind, shown_suspicion.kind),
        "answers": answers,
        "drawing": draw_series(shown_suspicion.series),
        "sample": _sample(request, shown_suspicion, answers),
        "metrics": dict(sorted(shown_suspicion.metrics.items())),
        "actions": shown_suspicion.actions.select_related("by"),
        "may_act": shown_suspicion.state != Suspicion.State.DISMISSED
        and run.state not in Run.ENDED,
        "untrained": acting.untrained(shown_suspicion),
        "untrained_of_tasks": acting.untrained(shown_suspicion, with_tasks=True),
        "task_count": len(acting.list_evidence_tasks(shown_suspicion)),
        "tasks": tasks[:TASKS_SHOWN],
        "is_asked": answers.items > 0,
        "rewards": run.settings.rewards,
        "asked_as": choose_suspicion_form(run.settings.people),
        "overlap": run.settings.people.overlap,
    }
    return render(request, "dashboard/suspicion.html", context)


def _suspicion_with_title(suspicion: Suspicion) -> dict:
    return {
        "suspicion": suspicion,
        "title": TITLES.get(suspicion.kind, suspicion.kind),
        "drawing": draw_series(suspicion.series)
        if suspicion.state == Suspicion.State.OPEN
        else None,
    }


def _sample(request: SignedInRequest, suspicion: Suspicion, answers: Answers) -> list[dict]:
    """Return the sample in order of time, with the ratings of machines and of people asked."""
    sample = with_judgements(
        Rollout.objects.filter(pk__in=suspicion.sample, run=suspicion.run_id)
    ).order_by("pk")
    rows = build_rollout_rows(sample, request.user)
    evidence = set(suspicion.evidence)
    return [
        row
        | {
            "shows_it": row["rollout"].pk in evidence,
            "answers": answers.by_rollout[row["rollout"].pk],
        }
        for row in rows
    ]


@require_POST
@login_required
def act_on_suspicion(
    request: SignedInRequest, project: str, slug: str, pk: int, verb: str
) -> HttpResponse:
    """Owners and researchers of the project: ask people, drop, re-weight or dismiss."""
    run = steered_run(request, project, slug)
    suspicion = get_object_or_404(run.suspicions, pk=pk)
    if verb not in ACTS:
        raise Http404(verb)
    form = ActForm(run, request.POST)
    if not form.is_valid():
        field, errors = next(iter(form.errors.items()))
        messages.error(
            request, f"Nothing was changed: {field.removeprefix('weight.')}: {errors[0]}"
        )
    else:
        _perform_action(request, suspicion, ACTS[verb], form)
    return redirect("run-suspicion", project, slug, pk)


def _perform_action(
    request: SignedInRequest, suspicion: Suspicion, action: Callable, form: ActForm
) -> None:
    try:
        messages.success(request, action(request, suspicion, form))
    except (NotPossible, ConfigError, ValueError) as refused:
        messages.error(request, f"Nothing was changed: {refused}")


def _ask(request: SignedInRequest, suspicion: Suspicion, form: ActForm) -> str:
    count = ask_people(suspicion, request.user)
    return f"{count} replies sent to raters, ahead of other items of this run."


def _drop(request: SignedInRequest, suspicion: Suspicion, form: ActForm) -> str:
    if form.cleaned_data["name"] != suspicion.run.slug:
        raise ValueError(f"type {suspicion.run.slug} to confirm")
    if not form.cleaned_data["reason"]:
        raise ValueError("enter a reason")
    counts = acting.drop_evidence(
        suspicion, request.user, form.cleaned_data["reason"], form.cleaned_data["with_tasks"]
    )
    tasks = (
        f", and {counts['tasks']:,} tasks are excluded" if form.cleaned_data["with_tasks"] else ""
    )
    return f"{counts['groups']:,} groups dropped{tasks}."


def _reweight(request: SignedInRequest, suspicion: Suspicion, form: ActForm) -> str:
    reason = form.cleaned_data["reason"]
    weights = acting.reweight(suspicion, request.user, form.weights, reason)
    changes = [f"{scorer} {before:g} → {after:g}" for scorer, (before, after) in weights.items()]
    return f"New weights: {', '.join(changes)}. They apply to new groups."


def _dismiss(request: SignedInRequest, suspicion: Suspicion, form: ActForm) -> str:
    acting.dismiss(suspicion, request.user, form.cleaned_data["reason"])
    return "Suspicion dismissed. New replies can raise it again."


ACTS: dict[str, Callable] = {"ask": _ask, "drop": _drop, "reweight": _reweight, "dismiss": _dismiss}
