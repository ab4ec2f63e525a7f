"""Alert channels of a project: e-mail addresses and signed webhooks, with their deliveries."""

from collections.abc import Callable

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.db import IntegrityError, transaction
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from apps.accounts.models import AuditEntry, Project
from apps.accounts.requests import SignedInRequest
from apps.alerts.delivering import MAX_ATTEMPTS, check_channel_address
from apps.alerts.models import Channel, Delivery
from apps.alerts.models.channels import MAX_CHANNELS
from apps.alerts.plugin_channels import channel_plugins
from apps.dashboard.paging import load_page

SENT_SHOWN = 25


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
@never_cache
def channels(request: SignedInRequest, project: str) -> HttpResponse:
    """Owners and researchers of the project.

    The answer to a new webhook holds its secret; nothing shows it again.
    """
    steered_project = _steered_project(request, project)
    if request.method != "POST":
        return _page(request, steered_project)
    kind = request.POST.get("kind", "")
    address = request.POST.get("address", "")[:500]
    try:
        channel = _create_channel(request, steered_project, kind, address)
    except ValueError as wrong:
        return _page(
            request, steered_project, wrong=str(wrong), kind=kind, address=address, status=422
        )
    if channel.kind == Channel.Kind.WEBHOOK:
        return _page(request, steered_project, fresh=channel)
    messages.success(request, f"Channel added: {channel.address}.")
    return redirect("alert-channels", project)


@require_POST
@login_required
@never_cache
def act_on_channel(request: SignedInRequest, project: str, pk: int, verb: str) -> HttpResponse:
    """Owners and researchers of the project: test, switch or remove a channel, renew its secret."""
    steered_project = _steered_project(request, project)
    channel = get_object_or_404(
        Channel.objects.select_related("project"), project=steered_project, pk=pk
    )
    if verb not in ACTS:
        raise Http404(verb)
    with transaction.atomic():
        if verb != "test":
            AuditEntry.record(
                f"alert channel: {verb}",
                f"{channel.kind} {channel.address}",
                request.user,
                steered_project,
            )
        message = ACTS[verb](channel)
    if verb == "secret":
        return _page(request, steered_project, fresh=channel)
    messages.success(request, message)
    return redirect("alert-channels", project)


def _steered_project(request: SignedInRequest, slug: str) -> Project:
    """Return the project if the user may steer its runs.

    Raises Http404 for a stranger, PermissionDenied for a viewer.
    """
    project = get_object_or_404(Project.objects.visible_to(request.user).distinct(), slug=slug)
    if not Project.objects.run_by(request.user).filter(pk=project.pk).exists():
        raise PermissionDenied(
            "Only owners and researchers of this project can manage notification channels."
        )
    return project


def _create_channel(request: SignedInRequest, project: Project, kind: str, address: str) -> Channel:
    """Create a channel. Raise ValueError with a message for the user."""
    if kind not in (kinds := (*Channel.Kind.values, *channel_plugins())):
        raise ValueError(f"kind must be one of {', '.join(kinds)}")
    address = check_channel_address(kind, address)
    if project.alert_channels.count() >= MAX_CHANNELS:
        raise ValueError(f"a project can have {MAX_CHANNELS} channels; remove one first")
    try:
        with transaction.atomic():
            channel = Channel.make(project, kind, address, request.user)
            AuditEntry.record("alert channel: made", f"{kind} {address}", request.user, project)
    except IntegrityError:
        raise ValueError("a channel with this address already exists") from None
    return channel


def _page(
    request: SignedInRequest,
    project: Project,
    wrong: str = "",
    fresh: Channel | None = None,
    kind: str = "webhook",
    address: str = "",
    status: int = 200,
) -> HttpResponse:
    deliveries = Delivery.objects.filter(channel__project=project).select_related(
        "channel", "entry__alert__run"
    )
    context = {
        "section": "alerts",
        "project": project,
        "channels": project.alert_channels.select_related("created_by").order_by("pk"),
        "wrong": wrong,
        "fresh": fresh,
        "kind": kind,
        "address": address,
        "plugins": channel_plugins(),
        "has_mail": bool(settings.EMAIL_HOST),
        "has_address": bool(settings.SITE_ADDRESS),
        "page": load_page(deliveries, request, size=SENT_SHOWN),
        "limit": MAX_ATTEMPTS,
    }
    return render(request, "dashboard/alert_channels.html", context, status=status)


def _test(channel: Channel) -> str:
    channel.test()
    return f"Test sent to {channel.address}. The result appears below within seconds."


def _switch_off(channel: Channel) -> str:
    channel.switch_off()
    return f"Channel turned off: {channel.address}."


def _switch_on(channel: Channel) -> str:
    channel.switch_on()
    return f"Channel turned on: {channel.address}."


def _renew(channel: Channel) -> str:
    channel.renew()
    return ""


def _remove(channel: Channel) -> str:
    channel.delete()
    return f"Channel removed: {channel.address}."


ACTS: dict[str, Callable[[Channel], str]] = {
    "test": _test,
    "off": _switch_off,
    "on": _switch_on,
    "secret": _renew,
    "remove": _remove,
}
