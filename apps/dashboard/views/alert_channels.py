"""Where a project's alerts are told: e-mail addresses and signed webhooks, each with what was sent by it."""

from collections.abc import Callable

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.db import IntegrityError, transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from apps.accounts.models import AuditEntry, Project
from apps.alerts.delivering import MOST_ATTEMPTS, checked
from apps.alerts.models import Channel, Delivery
from apps.alerts.models.channels import MOST_CHANNELS
from apps.dashboard.paging import page_of

SENT_SHOWN = 25


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
@never_cache
def channels(request: HttpRequest, project: str) -> HttpResponse:
    """Owners and researchers of the project. The answer to a new webhook holds its secret; nothing shows it again."""
    found = _steered(request, project)
    if request.method != "POST":
        return _page(request, found)
    kind, address = request.POST.get("kind", ""), request.POST.get("address", "")[:500]
    try:
        channel = _made(request, found, kind, address)
    except ValueError as wrong:
        return _page(request, found, wrong=str(wrong), kind=kind, address=address, status=422)
    if channel.kind == Channel.Kind.WEBHOOK:
        return _page(request, found, fresh=channel)
    messages.success(request, f"Alerts are mailed to {channel.address} from now on.")
    return redirect("alert-channels", project)


@require_POST
@login_required
@never_cache
def act(request: HttpRequest, project: str, pk: int, verb: str) -> HttpResponse:
    """Owners and researchers of the project: test it, switch it off or on, give it a new secret, remove it."""
    found = _steered(request, project)
    channel = get_object_or_404(Channel.objects.select_related("project"), project=found, pk=pk)
    if verb not in ACTS:
        raise Http404(verb)
    with transaction.atomic():
        if verb != "test":
            AuditEntry.record(f"alert channel: {verb}", f"{channel.kind} {channel.address}", request.user, found)
        said = ACTS[verb](channel)
    if verb == "secret":
        return _page(request, found, fresh=channel)
    messages.success(request, said)
    return redirect("alert-channels", project)


def _steered(request: HttpRequest, slug: str) -> Project:
    """The project, where the person may steer its runs. Raises Http404 for a stranger, PermissionDenied for a mere viewer."""
    found = get_object_or_404(Project.objects.visible_to(request.user).distinct(), slug=slug)
    if not Project.objects.run_by(request.user).filter(pk=found.pk).exists():
        raise PermissionDenied("Only owners and researchers of this project say where its alerts are told.")
    return found


def _made(request: HttpRequest, project: Project, kind: str, address: str) -> Channel:
    """Raises ValueError, in words for who sent the form."""
    if kind not in Channel.Kind.values:
        raise ValueError("kind must be email or webhook")
    address = checked(kind, address)
    if project.alert_channels.count() >= MOST_CHANNELS:
        raise ValueError(f"a project has at most {MOST_CHANNELS} channels; remove one first")
    try:
        with transaction.atomic():
            channel = Channel.make(project, kind, address, request.user)
            AuditEntry.record("alert channel: made", f"{kind} {address}", request.user, project)
    except IntegrityError:
        raise ValueError("alerts are told there already") from None
    return channel


def _page(
    request: HttpRequest, project: Project, wrong: str = "", fresh: Channel | None = None, kind: str = "webhook", address: str = "",
    status: int = 200,
) -> HttpResponse:  # fmt: skip
    sent = Delivery.objects.filter(channel__project=project).select_related("channel", "entry__alert__run")
    context = {
        "section": "alerts", "project": project, "channels": project.alert_channels.select_related("created_by").order_by("pk"),
        "wrong": wrong, "fresh": fresh, "kind": kind, "address": address, "has_mail": bool(settings.EMAIL_HOST),
        "has_address": bool(settings.SITE_ADDRESS), "page": page_of(sent, request, size=SENT_SHOWN), "most": MOST_ATTEMPTS,
    }  # fmt: skip
    return render(request, "dashboard/alert_channels.html", context, status=status)


def _test(channel: Channel) -> str:
    channel.test()
    return f"A test is on its way to {channel.address}; what became of it stands below within seconds."


def _off(channel: Channel) -> str:
    channel.switch_off()
    return f"Alerts are told no more at {channel.address}."


def _on(channel: Channel) -> str:
    channel.switch_on()
    return f"Alerts are told at {channel.address}."


def _renew(channel: Channel) -> str:
    channel.renew()
    return ""


def _remove(channel: Channel) -> str:
    channel.delete()
    return f"{channel.address} is removed, with the list of what was sent there."


ACTS: dict[str, Callable[[Channel], str]] = {
    "test": _test, "off": _off, "on": _on, "secret": _renew, "remove": _remove,
}  # fmt: skip
