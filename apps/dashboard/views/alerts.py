"""Alerts: of all visible runs, of one run with its rules, and the banner on a run's pages."""

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import QuerySet
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from apps.accounts.models import Project
from apps.accounts.requests import SignedInRequest
from apps.alerts.kinds import TITLES, TO_STEERERS
from apps.alerts.models import Alert, Channel
from apps.alerts.models.alerts import AlertQuerySet
from apps.dashboard.access import may_see_judgements, may_steer, seen_run, steered_run
from apps.dashboard.context import counted_alerts_of
from apps.dashboard.paging import load_page
from apps.dashboard.rules_form import list_rule_knobs, posted_rules, read_rule_values
from apps.dashboard.settings_form import SAVE_AGAIN, digest_settings
from apps.runs.config import ConfigError
from apps.runs.models import ChangedMeanwhile, NotPossible, Run

OPEN_SHOWN = 100
CLOSED_SHOWN = 25
IN_BANNER = 3
OVERVIEW = "overview"
HOURS = {
    "1": 1.0,
    "8": 8.0,
    "24": 24.0,
    "": None,
}  # duration of an acknowledgement; empty: until the alert closes


@require_safe
@login_required
def alerts(request: SignedInRequest) -> HttpResponse:
    """Everybody signed in: those of their projects' runs, as far as they may know."""
    return render(request, "dashboard/alerts.html", _all_open(request))


@require_safe
@login_required
def alerts_now(request: SignedInRequest) -> HttpResponse:
    """Everybody signed in: the list of open ones again."""
    return render(request, "dashboard/_alerts_open.html", _all_open(request))


def _all_open(request: SignedInRequest) -> dict:
    alerts = Alert.objects.visible_to(request.user)
    open_alerts = list(_with_runs(alerts.open())[:OPEN_SHOWN])
    steered = (
        Run.objects.steered_by(request.user)
        .filter(pk__in={alert.run_id for alert in open_alerts})
        .values_list("pk", flat=True)
    )
    return {
        "section": "alerts",
        "open": open_alerts,
        "steered": set(steered),
        "with_runs": True,
        "page": load_page(
            _with_runs(alerts.filter(closed_at__isnull=False)), request, size=CLOSED_SHOWN
        ),
        "projects": Project.objects.run_by(request.user).distinct().order_by("slug"),
    }


def _with_runs(alerts: QuerySet[Alert]) -> QuerySet[Alert]:
    return alerts.select_related("run__project", "acknowledged_by").order_by("-pk")


@require_safe
@login_required
def run_alerts(request: SignedInRequest, project: str, slug: str) -> HttpResponse:
    """Members of the run's project, as far as they may know; owners and researchers act."""
    run = seen_run(request, project, slug)
    context = _run_context(request, run)
    context["page"] = load_page(
        _with_runs(_visible_alerts(request, run).filter(closed_at__isnull=False)),
        request,
        size=CLOSED_SHOWN,
    )
    context |= {
        "rules": [
            rule
            for rule in list_rule_knobs(run)
            if context["may_steer"] or rule.name not in TO_STEERERS
        ],
        "channels": (
            Channel.objects.filter(project=run.project, is_on=True).order_by("pk")
            if context["may_steer"]
            else []
        ),
    }
    return render(request, "dashboard/run_alerts.html", context)


@require_safe
@login_required
def run_alerts_now(request: SignedInRequest, project: str, slug: str) -> HttpResponse:
    """Members of the run's project: the list of open ones again."""
    return render(
        request,
        "dashboard/_alerts_open.html",
        _run_context(request, seen_run(request, project, slug)),
    )


@require_safe
@login_required
def banner(request: SignedInRequest, project: str, slug: str) -> HttpResponse:
    """Members of the run's project: the banner of its pages again."""
    context = banner_context(
        request, seen_run(request, project, slug), request.GET.get("place", "")
    )
    return render(request, "dashboard/_alert_banner_now.html", context)


def banner_context(request: SignedInRequest, run: Run, place: str = "") -> dict:
    """Return the context of the banner: unacknowledged open alerts, the newest first.

    No query where the frame has counted them, else one if there is none. `place` is the page; the
    overview shows scorers and suspicions by itself.
    """
    excluded_rules = TO_STEERERS if place == OVERVIEW else ()
    counted = counted_alerts_of(request, run)
    if counted is None:
        unacknowledged = Alert.objects.filter(run=run).unacknowledged_for(
            request.user, IN_BANNER + 1, excluded_rules
        )
    else:
        unacknowledged = [alert for alert in counted if alert.rule not in excluded_rules]
    return {
        "run": run,
        "place": place,
        "banner_alerts": unacknowledged[:IN_BANNER],
        "others": list(dict.fromkeys(alert.title for alert in unacknowledged[1:IN_BANNER])),
        "has_more": len(unacknowledged) > IN_BANNER,
    }


def _visible_alerts(request: SignedInRequest, run: Run) -> AlertQuerySet:
    return Alert.objects.visible_to(request.user).filter(run=run)


def _run_context(request: SignedInRequest, run: Run) -> dict:
    steers = may_steer(request, run)
    return {
        "section": "runs",
        "run": run,
        "may_steer": steers,
        "open": _with_runs(_visible_alerts(request, run).open())[:OPEN_SHOWN],
        "is_open": may_see_judgements(request, run),
        "steered": {run.pk} if steers else set(),
    }


@require_POST
@login_required
def acknowledge(request: SignedInRequest, project: str, slug: str, pk: int) -> HttpResponse:
    """Owners and researchers of the project: acknowledge the alert until a given time."""
    run = steered_run(request, project, slug)
    alert = get_object_or_404(run.alerts.select_related("run__project", "run__topic"), pk=pk)
    hours = request.POST.get("hours", "")
    if hours not in HOURS:
        messages.error(
            request, "Nothing was changed: hours must be 1, 8, 24, or empty (until resolved)."
        )
    else:
        try:
            alert.acknowledge(request.user, HOURS[hours])
        except NotPossible as refused:
            messages.error(request, f"Nothing was changed: {refused}.")
    return (
        redirect("alerts")
        if request.POST.get("from") == "all"
        else redirect("run-alerts", project, slug)
    )


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def edit_alert_rules(request: SignedInRequest, project: str, slug: str) -> HttpResponse:
    """Owners and researchers of the project: the thresholds, part of the run's configuration."""
    run = steered_run(request, project, slug)
    context = {"section": "runs", "run": run, "has_ended": run.state in Run.ENDED, "titles": TITLES}
    if request.method != "POST":
        return render(
            request,
            "dashboard/alert_rules.html",
            {**context, "rules": list_rule_knobs(run), "seen": digest_settings(run)},
        )
    try:
        is_changed = _change(run, request)
    except ChangedMeanwhile:
        run.refresh_from_db()
        messages.error(request, SAVE_AGAIN)
        context |= {"rules": posted_rules(request.POST, {}), "seen": digest_settings(run)}
        return render(request, "dashboard/alert_rules.html", context, status=409)
    except ConfigError as error:
        messages.error(
            request,
            (
                f"Nothing was changed: {error}"
                if run.state in Run.ENDED
                else "Nothing was changed. Fix the errors below."
            ),
        )
        context |= {
            "rules": posted_rules(request.POST, error.problems),
            "seen": request.POST.get("seen", ""),
        }
        return render(request, "dashboard/alert_rules.html", context, status=422)
    if is_changed:
        messages.success(request, "Rules saved. They apply within seconds.")
    else:
        messages.info(request, "No changes to save.")
    return redirect("run-alerts", project, slug)


def _change(run: Run, request: SignedInRequest) -> bool:
    """Change the rules; return whether anything changed.

    Raises ConfigError, and ChangedMeanwhile if somebody changed them since the form was opened.
    """
    if request.POST.get("seen") != digest_settings(run):
        raise ChangedMeanwhile(run.slug)
    return run.change_config(
        request.user, unless_changed=True, alerts=read_rule_values(request.POST)
    )
