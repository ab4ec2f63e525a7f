"""A run's resource usage, its cost, and its budget."""

import math
from collections.abc import Mapping

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db import transaction
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from apps.accounts.models import AuditEntry
from apps.accounts.requests import SignedInRequest
from apps.dashboard.access import may_see_judgements, may_steer, seen_run, steered_run
from apps.dashboard.costs import (
    WORDS,
    Bar,
    against_cost,
    build_cost_bars,
    compute_gain,
    cost_per_unit,
    list_cost_days,
    list_cost_measures,
    list_cost_roles,
)
from apps.dashboard.curves import recent_rewards
from apps.dashboard.form_actions import posted_flag
from apps.runs.blind_review import open_among
from apps.runs.budget import Budget
from apps.runs.config import ConfigError
from apps.runs.costs import Cost, load_costs
from apps.runs.models import NotPossible, Prices, Run
from apps.runs.models.usage import MAX_LABEL_LENGTH

OTHERS_SHOWN = 15
MAX_PRICE = 1e9


def _price(label: str, why: str) -> forms.FloatField:
    return forms.FloatField(
        label=label, help_text=why, min_value=0, max_value=MAX_PRICE, required=False
    )


class PricesForm(forms.Form):
    """The project's prices, for all of its runs; an empty field is 0."""

    currency = forms.CharField(
        label="Currency",
        help_text="Shown next to amounts, for example € or USD.",
        max_length=MAX_LABEL_LENGTH,
        required=False,
    )
    gpu_hour = _price("GPU hour", "Price of one GPU hour in use.")
    cpu_hour = _price("CPU hour", "Price of one CPU hour.")
    judge_tokens = _price("1,000 judge tokens", "Tokens that judges read and write.")
    person_hour = _price("Person hour", "Price of one hour of rating.")

    def clean(self) -> dict:
        super().clean()
        data = self.cleaned_data
        return {
            name: (value or 0.0) if name != "currency" else value for name, value in data.items()
        }


@require_safe
@login_required
def show_cost(request: SignedInRequest, project: str, slug: str) -> HttpResponse:
    """Members of the run's project; metrics about rewards are for those who see ratings."""
    return _page(request, seen_run(request, project, slug))


@require_POST
@login_required
def set_budget(request: SignedInRequest, project: str, slug: str) -> HttpResponse:
    """Owners and researchers of the project: set the limits in the run's configuration.

    With `resume` the run is resumed as well.
    """
    run = steered_run(request, project, slug)
    resumes = posted_flag(request, "resume")
    typed = {name: request.POST.get(name, "").strip() for name in Budget.model_fields}
    limits = {name: text or None for name, text in typed.items()}
    try:
        is_changed = run.change_config(
            request.user, budget=limits if any(limits.values()) else None
        )
        if resumes:
            run.resume(request.user)
    except ConfigError as error:
        problems = {name.removeprefix("budget."): words for name, words in error.problems.items()}
        messages.error(
            request,
            "Nothing was changed: "
            + "; ".join(f"{name}: {words}" for name, words in problems.items()),
        )
        return _page(request, run, typed, problems, status=422)
    except NotPossible as refused:
        messages.error(request, f"Limits saved, but {refused}.")
        return redirect("run-cost", project, slug)
    if is_changed or resumes:
        messages.success(request, "Limits saved. They are checked every ten seconds.")
    else:
        messages.info(request, "No changes to the limits.")
    return redirect("run-cost", project, slug)


@require_POST
@login_required
def prices(request: SignedInRequest, project: str, slug: str) -> HttpResponse:
    """Owners and researchers of the project: set the prices."""
    run = steered_run(request, project, slug)
    form = PricesForm(request.POST)
    if not form.is_valid():
        messages.error(request, "Nothing was changed. Fix the marked prices.")
        return _page(request, run, prices_form=form, status=422)
    with transaction.atomic():
        before = Prices.objects.filter(project=run.project).values(*form.cleaned_data).first()
        Prices.objects.update_or_create(project=run.project, defaults=form.cleaned_data)
        AuditEntry.record(
            "prices changed",
            f"project {run.project.slug}",
            request.user,
            run.project,
            before=before,
            after=form.cleaned_data,
        )
    messages.success(request, "Prices saved for all runs of the project.")
    return redirect("run-cost", project, slug)


def _page(
    request: SignedInRequest,
    run: Run,
    typed: Mapping[str, str] | None = None,
    problems: Mapping[str, str] | None = None,
    prices_form: PricesForm | None = None,
    status: int = 200,
) -> HttpResponse:
    cost = load_costs([run])[run.pk]
    is_open = may_see_judgements(request, run)
    steers = may_steer(request, run)
    gain, measures = (compute_gain(run), list_cost_measures(run, cost)) if is_open else (None, [])
    baseline = request.GET.get("against", "")
    baseline_name = baseline if baseline in measures else next(iter(measures), "")
    if prices_form is None:
        prices_form = PricesForm(initial=_prices_shown(cost.prices))
    context = {
        "section": "runs",
        "run": run,
        "cost": cost,
        "bars": _with_typed_values(build_cost_bars(run, cost), typed, problems or {}),
        "is_open": is_open,
        "may_steer": steers,
        "roles": list_cost_roles(cost),
        "gain": gain,
        "units": cost_per_unit(run, cost, gain, is_open),
        "measures": [(name, WORDS[name][0]) for name in measures],
        "by": baseline_name,
        "by_words": _unit(baseline_name, cost),
        "drawing": against_cost(run, baseline_name) if baseline_name else None,
        "days": list_cost_days(run, cost),
        "prices": prices_form,
        "words": WORDS,
        "others": _list_run_costs(request, run),
        "has_ended": run.state in Run.ENDED,
        "has_used": any(cost.amounts.values()),
        "is_out": run.state == Run.State.PAUSED and run.state_reason.startswith("Budget:"),
    }
    return render(request, "dashboard/cost.html", context, status=status)


def _with_typed_values(
    bars: list[Bar], typed: Mapping[str, str] | None, problems: Mapping[str, str]
) -> list[Bar]:
    """Return the bars with the values of the form's fields: the posted ones, else the limits."""
    return [
        Bar(
            bar.field,
            bar.title,
            bar.why,
            bar.used,
            bar.limit,
            _format_limit(bar.limit) if typed is None else typed[bar.field],
            problems.get(bar.field, ""),
        )
        for bar in bars
    ]


def _prices_shown(unit_prices: Prices) -> dict[str, str]:
    names = [name for name in PricesForm.base_fields if name != "currency"]
    return {"currency": unit_prices.currency} | {
        name: f"{getattr(unit_prices, name):.10g}" for name in names
    }


def _unit(field: str, cost: Cost) -> str:
    if field == "money" and cost.currency:
        return cost.currency
    return WORDS[field][0] if field else ""


def _format_limit(limit: float | None) -> str:
    return "" if limit is None or not math.isfinite(limit) else f"{limit:.10g}"


def _list_run_costs(request: SignedInRequest, run: Run) -> list[dict]:
    """Return the newest training runs of the project with their usage, in a few queries."""
    newest = list(
        Run.objects.filter(project=run.project_id, is_evaluation=False).order_by("-pk")[
            :OTHERS_SHOWN
        ]
    )
    project_runs = (
        newest if any(project_run.pk == run.pk for project_run in newest) else [run, *newest]
    )
    costs = load_costs(project_runs)
    opened = open_among(request.user, [project_run.pk for project_run in project_runs])
    rewards = recent_rewards(
        project_run for project_run in project_runs if project_run.pk in opened
    )
    return [
        {
            "run": project_run,
            "cost": costs[project_run.pk],
            "reward": rewards[project_run.pk][-1] if rewards.get(project_run.pk) else None,
            "each": costs[project_run.pk].money / project_run.step if project_run.step else None,
        }
        for project_run in project_runs
    ]
