"""Workers: the processes of the installation, their queues, and orders to them."""

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_POST, require_safe

from apps.accounts.models import User
from apps.accounts.reasons import NotAReason, check_reason
from apps.accounts.requests import SignedInRequest
from apps.dashboard.log_search import is_keeper, newest_of_worker
from apps.dashboard.paging import load_page
from apps.dashboard.plugins_now import plugins
from apps.dashboard.workers_now import (
    list_due_work,
    list_other_processes,
    list_run_workers,
    queues,
    seen_by,
    services,
)
from apps.rewards.fencing import quarantine
from apps.rollouts.models import Group
from apps.runs.models import Run, Worker

ORDERS = {
    "drain": Worker.Order.DRAIN,
    "quarantine": Worker.Order.QUARANTINE,
    "put-back": Worker.Order.SERVE,
}
ORDER_PERMISSION = "runs.change_worker"
GONE_A_PAGE = 20
LINES_SHOWN = 12


@require_safe
@login_required
def workers(request: SignedInRequest) -> HttpResponse:
    """Everybody signed in: the processes, without the names of runs that they do not see."""
    page = load_page(Worker.every.exclude(stopped_at=None), request, size=GONE_A_PAGE)
    context = {
        "section": "workers",
        "page": page,
        "gone": seen_by(request.user, page.rows),
        **_now(request),
    }
    return render(request, "dashboard/workers.html", context)


@require_safe
@login_required
def workers_now(request: SignedInRequest) -> HttpResponse:
    """Everybody signed in: the polled part of the page."""
    return render(request, "dashboard/_workers_now.html", _now(request))


def _now(request: SignedInRequest) -> dict:
    workers = list_run_workers()
    other_processes = list_other_processes()
    return {
        "here": seen_by(request.user, workers),
        "beside": seen_by(request.user, other_processes),
        "plugins": plugins([*workers, *other_processes]),
        "queues": queues(),
        "due": list_due_work(),
        "services": services(),
        "is_keeper": is_keeper(request.user),
        "lease_s": settings.LEASE_SECONDS,
    }


@require_safe
@login_required
def show_worker(request: SignedInRequest, pk: int) -> HttpResponse:
    """Everybody signed in: one process, as they may see it."""
    return render(
        request,
        "dashboard/worker.html",
        {"section": "workers", **_worker_context(request, _worker(pk))},
    )


@require_safe
@login_required
def worker_now(request: SignedInRequest, pk: int) -> HttpResponse:
    """Everybody signed in: the polled part of its page."""
    return render(request, "dashboard/_worker_now.html", _worker_context(request, _worker(pk)))


def _worker_context(request: SignedInRequest, worker: Worker) -> dict:
    (seen_worker,) = seen_by(request.user, [worker])
    leased_groups = Group.objects.leased().filter(lease_owner=worker.key, state__in=Group.OPEN)
    return {
        "seen": seen_worker,
        "worker": worker,
        "is_keeper": is_keeper(request.user),
        "may_order": _may_order(request.user),
        "lease_s": settings.LEASE_SECONDS,
        "groups": leased_groups.count(),
        "trains": Run.objects.leased().filter(lease_owner=worker.key).count(),
        "lines": newest_of_worker(request.user, worker.key, LINES_SHOWN),
    }


@require_POST
@login_required
def order_worker(request: SignedInRequest, pk: int, verb: str) -> HttpResponse:
    """People who operate the installation: drain, quarantine, or return a worker to service.

    Work that quarantine interrupts starts again, so the form asks for the pid.
    """
    if not _may_order(request.user):
        raise PermissionDenied(f"You need the permission {ORDER_PERMISSION} to control workers.")
    if verb not in ORDERS:
        raise Http404(verb)
    worker = _worker(pk)
    try:
        reason = check_reason(request.POST.get("reason", ""))
    except NotAReason as error:
        messages.error(request, f"Nothing was changed: {error}")
        return redirect("worker", worker.pk)
    if not worker.is_of_runs:
        messages.error(
            request,
            f"Nothing was changed: {worker.role} does no work for runs, so you can’t drain or"
            " quarantine it.",
        )
    elif worker.stopped_at is not None:
        messages.error(request, "Nothing was changed: this process has stopped.")
    elif verb == "quarantine" and request.POST.get("name", "").strip() != str(worker.pid):
        messages.error(
            request,
            f"The worker was not quarantined. To confirm, type its process ID: {worker.pid}.",
        )
    elif verb == "quarantine":
        held_counts = quarantine(worker, request.user, reason)
        summary = (
            ", ".join(f"{count} {what}" for what, count in held_counts.items() if count)
            or "nothing"
        )
        messages.success(
            request, (f"Quarantined. It held {summary}, which other workers can now take over.")
        )
    else:
        worker.tell(ORDERS[verb], request.user, reason)
        words = "takes no new work" if verb == "drain" else "takes new work again"
        messages.success(request, f"The worker {words}, within a few seconds.")
    return redirect("worker", worker.pk)


def _may_order(user: User) -> bool:
    """Tell whether the user may drain and quarantine workers; staff status is not enough."""
    return is_keeper(user) and user.has_perm(ORDER_PERMISSION)


def _worker(pk: int) -> Worker:
    return get_object_or_404(Worker.every, pk=pk)
