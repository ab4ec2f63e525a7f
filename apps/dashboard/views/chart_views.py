"""The charts page of a run, and the views of it that people save."""

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from apps.accounts.requests import SignedInRequest
from apps.dashboard.access import may_see_judgements, may_steer, trained_run
from apps.dashboard.curves import AXES
from apps.dashboard.ledger import METRICS_OF_STEPS
from apps.dashboard.own_chart import OwnChartQuery, build_own_chart
from apps.runs.models import MAX_NAME_LENGTH, ChartView, NotPossible, Run, newest_values

MAX_QUERY_LENGTH = 4_000


class ViewForm(forms.Form):
    """A view to save; `query` is the query string of the charts page."""

    name = forms.CharField(max_length=MAX_NAME_LENGTH)
    runs = forms.ChoiceField(choices=[("this", "This run"), ("all", "All runs of the project")])
    is_shared = forms.BooleanField(required=False)
    query = forms.CharField(max_length=MAX_QUERY_LENGTH, required=False)

    def clean_query(self) -> str:
        """Return the valid part of the query string."""
        return OwnChartQuery(QueryDict(self.cleaned_data["query"])).address


@require_safe
@login_required
def run_charts(request: SignedInRequest, project: str, slug: str) -> HttpResponse:
    """Members of the run's project: a large chart of any metrics. Blind raters see no chart."""
    return _page(request, trained_run(request, project, slug), request.GET)


@require_POST
@login_required
def save_view(request: SignedInRequest, project: str, slug: str) -> HttpResponse:
    """Members who see the run's ratings: save a view. Only owners and researchers share views."""
    run = _open_run(request, project, slug)
    form = ViewForm(request.POST)
    if form.is_valid():
        data = form.cleaned_data
        if data["is_shared"] and not may_steer(request, run):
            raise PermissionDenied("Only owners and researchers of this project can share views.")
        try:
            view = ChartView.keep(
                run,
                request.user,
                data["name"],
                data["query"],
                of_all_runs=data["runs"] == "all",
                is_shared=data["is_shared"],
            )
        except NotPossible as error:
            form.add_error(None, f"{error}.".capitalize())
        else:
            messages.success(request, f"Saved the view {view.name}.")
            return redirect(_address(run, view.query))
    query = QueryDict(request.POST.get("query", "")[:MAX_QUERY_LENGTH])
    return _page(request, run, query, form)


@require_POST
@login_required
def delete_view(request: SignedInRequest, project: str, slug: str, pk: int) -> HttpResponse:
    """Delete a view: its owner, or for shared views owners and researchers of the project."""
    run = _open_run(request, project, slug)
    view = get_object_or_404(ChartView.objects.offered(request.user, run), pk=pk)
    if view.owner_id != request.user.pk and not may_steer(request, run):
        raise PermissionDenied("Only owners and researchers can delete views of others.")
    view.delete()
    messages.success(request, f"Deleted the view {view.name}.")
    return redirect(_address(run, view.query))


def _page(
    request: SignedInRequest, run: Run, query: QueryDict, form: ViewForm | None = None
) -> HttpResponse:
    is_open = may_see_judgements(request, run)
    chart_query = OwnChartQuery(query)
    context = {
        "section": "runs",
        "run": run,
        "is_open": is_open,
        "query": chart_query,
        "axes": AXES,
        "form": form,
        "max_name_length": MAX_NAME_LENGTH,
    }
    if is_open:
        steers = may_steer(request, run)
        views = ChartView.objects.offered(request.user, run).select_related("owner")
        context |= {
            "sequence": run.topic.sequence,
            "own": build_own_chart(run, chart_query, newest_values(run, METRICS_OF_STEPS)),
            "views": [(view, steers or view.owner_id == request.user.pk) for view in views],
            "may_steer": steers,
        }
    status = 200 if form is None else 422
    return render(request, "dashboard/run_charts.html", context, status=status)


def _open_run(request: SignedInRequest, project: str, slug: str) -> Run:
    """Return the run if the user sees its ratings. Raises Http404 and PermissionDenied."""
    run = trained_run(request, project, slug)
    if not may_see_judgements(request, run):
        raise PermissionDenied("You rate this run blind, so its charts are hidden.")
    return run


def _address(run: Run, query: str) -> str:
    address = reverse("run-charts", args=[run.project.slug, run.slug])
    return f"{address}?{query}" if query else address
