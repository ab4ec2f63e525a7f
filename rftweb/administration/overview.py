"""Front page of the administration: the installation's state in a few numbers.

Nothing here reads a large table.
"""

import shutil
from dataclasses import dataclass

from allauth.mfa.models import Authenticator
from django.conf import settings
from django.db.models import Count, Exists, OuterRef, Q
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone

from apps.accounts.models import AuditEntry, Token, User
from apps.dashboard.templatetags.marks import bytes_of
from apps.environments.models import Environment
from apps.runs.models import Run, Worker, after
from rftweb.administration.storage import database_bytes
from rftweb.sql.making import is_made

ENTRIES_SHOWN = 8
SILENT_SHOWN_S = 24 * 3600  # a worker that is silent for longer counts as removed
FULL = 0.9


@dataclass(frozen=True)
class Tile:
    value: str
    words: str
    why: str
    link: str = ""
    is_bad: bool = False


def add_overview(request: HttpRequest, context: dict) -> dict:
    """Add `tiles`, `problems` and `entries` to the page's context, as the user may see them."""
    user = request.user
    context["tiles"] = (
        [*_runs(), *_people(), _workers(), *_disk()] if user.has_perm("runs.view_run") else []
    )
    context["problems"] = list(_problems()) if user.has_perm("runs.view_run") else []
    entries = AuditEntry.objects.select_related("project").order_by("-pk")[:ENTRIES_SHOWN]
    context["entries"] = entries if user.has_perm("accounts.view_auditentry") else None
    return context


def _runs() -> list[Tile]:
    counts = dict(Run.objects.order_by().values_list("state").annotate(Count("pk")))
    running = counts.get(Run.State.RUNNING, 0)
    paused = counts.get(Run.State.PAUSED, 0)
    link = reverse("admin:runs_run_changelist")
    words = f"running, {paused:,} paused"
    return [
        Tile(
            f"{running:,}",
            words,
            f"Runs in training, of {sum(counts.values()):,} in all projects.",
            link,
        )
    ]


def _people() -> list[Tile]:
    second = Exists(
        Authenticator.objects.filter(user=OuterRef("pk")).exclude(
            type=Authenticator.Type.RECOVERY_CODES
        )
    )
    active = User.objects.filter(is_active=True).annotate(has_second=second)
    staff = Q(is_staff=True)
    counts = active.aggregate(
        people=Count("pk", filter=Q(is_simulated=False)),
        staff=Count("pk", filter=staff),
        guarded=Count("pk", filter=staff & Q(has_second=True)),
    )
    tokens = Token.objects.alive().count()
    return [
        Tile(
            f"{counts['people']:,}",
            f"people, {counts['staff']} of them staff",
            "Accounts that can sign in, without simulated raters.",
            reverse("admin:accounts_user_changelist"),
        ),
        Tile(
            f"{counts['guarded']} of {counts['staff']}",
            "staff with a second factor",
            "Staff who set up a second factor. You add yours on your settings page.",
            reverse("admin:mfa_authenticator_changelist"),
            counts["guarded"] < counts["staff"],
        ),
        Tile(
            f"{tokens:,}",
            "active tokens",
            "API tokens that are neither revoked nor expired.",
            reverse("admin:accounts_token_changelist"),
        ),
    ]


def _workers() -> Tile:
    alive = Worker.objects.filter(stopped_at=None, heartbeat_at__gte=after(-settings.LEASE_SECONDS))
    counts = dict(alive.order_by().values_list("role").annotate(Count("pk")))
    words = (
        ", ".join(f"{count} {role}" for role, count in sorted(counts.items())) or "none is running"
    )
    why = (
        f"Workers with a heartbeat in the last {settings.LEASE_SECONDS} s, without web processes"
        " and beat."
    )
    return Tile(
        str(sum(counts.values())),
        f"workers: {words}",
        why,
        reverse("admin:runs_worker_changelist"),
        not counts,
    )


def _disk() -> list[Tile]:
    link = reverse("admin-storage")
    tiles = [Tile(bytes_of(database_bytes()), "database", "All tables and their indexes.", link)]
    if settings.WEIGHTS_ROOT.exists():
        disk = shutil.disk_usage(settings.WEIGHTS_ROOT)
        why = f"Of {bytes_of(disk.total)} on the disk of {settings.WEIGHTS_ROOT}."
        tiles.append(
            Tile(bytes_of(disk.free), "free for weights", why, link, disk.used > FULL * disk.total)
        )
    return tiles


def _problems():
    """Yield (words, link) of problems that need attention."""
    silent = Worker.every.filter(
        stopped_at=None,
        heartbeat_at__lt=after(-settings.LEASE_SECONDS),
        heartbeat_at__gte=after(-SILENT_SHOWN_S),
    )
    for key in silent.order_by("-heartbeat_at").values_list("key", flat=True)[:5]:
        yield (
            f"Process {key} stopped sending heartbeats.",
            reverse("admin:runs_worker_changelist"),
        )
    for environment in Environment.objects.filter(open_until__gt=timezone.now()).select_related(
        "project"
    )[:5]:
        link = reverse("admin:environments_environment_change", args=[environment.pk])
        yield f"The circuit breaker of {environment} is open: {environment.open_reason}", link
    if not is_made():
        yield "The SQL views are missing. Run `manage.py migrate`; its output gives the reason.", ""
