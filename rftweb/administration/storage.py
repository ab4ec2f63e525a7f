"""What takes how much room: tables, weight folders, and what retention has let go and would."""

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from django.apps import apps
from django.conf import settings
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db import connection
from django.db.models import Count, Q, Sum
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.text import capfirst
from django.views.decorators.http import require_safe

from apps.accounts.ledger_admin import NEWEST, among_newest
from apps.buffer.models import Release
from apps.buffer.retention import rule_of, would_go
from apps.runs.models import Run, WeightVersion

TABLES_SHOWN, RUNS_SHOWN = 15, 15
MOST_FILES = 20_000  # of a kind, whose sizes are added
# What PostgreSQL knows without reading them: sizes are exact, numbers of rows as of the last look of its autovacuum.
TABLES = """
    SELECT class.relname, nullif(class.reltuples, -1)::bigint, pg_table_size(class.oid), pg_indexes_size(class.oid)
    FROM pg_class class WHERE class.relkind = 'r' AND class.relnamespace = 'public'::regnamespace
    ORDER BY pg_total_relation_size(class.oid) DESC LIMIT %s"""
KEPT = (WeightVersion.State.STAGED, WeightVersion.State.VERIFIED, WeightVersion.State.PUBLISHED)


@require_safe
def storage(request: HttpRequest) -> HttpResponse:
    """Staff who may look at runs. `?run=<id>` reckons what retention would let go of that run now."""
    if not request.user.has_perm("runs.view_run"):
        raise PermissionDenied("You may not look at runs.")
    weights = settings.WEIGHTS_ROOT
    context = {
        **admin.site.each_context(request), "title": "Storage and retention", "tables": tables(), "database": database_bytes(),
        "weights": weights_of_runs(), "newest": NEWEST, "folders": folders(), "root": weights,
        "disk": shutil.disk_usage(weights) if weights.exists() else None,
        "ruled": ruled(), "days": settings.RETENTION_DAYS, "gone": gone(), "reckoned": reckoned(request.GET.get("run", "")),
    }  # fmt: skip
    return render(request, "admin/storage.html", context)


def database_bytes() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_database_size(current_database())")
        return cursor.fetchone()[0]


def tables() -> list[dict]:
    """The largest, with a model's name where the table is one's."""
    metas = (model._meta for model in apps.get_models(include_auto_created=True))
    names = {meta.db_table: capfirst(meta.verbose_name_plural) for meta in metas}
    with connection.cursor() as cursor:
        cursor.execute(TABLES, [TABLES_SHOWN])
        rows = cursor.fetchall()
    largest = max((data + indexes for _, _, data, indexes in rows), default=0) or 1
    return [
        {"name": names.get(table, table), "table": table, "rows": count, "data": data, "indexes": indexes, "total": data + indexes,
         "share": round(100 * (data + indexes) / largest)}
        for table, count, data, indexes in rows
    ]  # fmt: skip


def weights_of_runs() -> list[dict]:
    """Runs by the bytes of their weight folders that are there, of the newest versions."""
    there = among_newest(WeightVersion.objects.filter(state__in=KEPT, version__gt=0).order_by())
    rows = there.values("run", "run__project__slug", "run__slug", "run__state").annotate(bytes=Sum("bytes"), versions=Count("pk"))
    return list(rows.order_by("-bytes")[:RUNS_SHOWN])


def folders() -> list[dict]:
    """What else lies in files, as this machine sees it; no more of them than MOST_FILES are added up."""
    weights = settings.WEIGHTS_ROOT
    places = {
        "Checkpoints": weights.glob("run-*/checkpoints"), "Exports of weights": [weights / "exports"],
        "Files of imports": [settings.IMPORTS_ROOT],
    }  # fmt: skip
    return [{"name": name, **_sizes(roots)} for name, roots in places.items()]


def _sizes(roots: Iterable[Path]) -> dict:
    """`is_cut`: there are more files than were looked at."""
    files = total = 0
    for root in roots:
        for folder, _, names in os.walk(root):
            for name in names:
                if files == MOST_FILES:
                    return {"files": files, "bytes": total, "is_cut": True}
                try:
                    total += os.lstat(os.path.join(folder, name)).st_size
                except FileNotFoundError:  # a trainer has just let it go
                    continue
                files += 1
    return {"files": files, "bytes": total, "is_cut": False}


def ruled() -> list[dict]:
    """The newest runs whose arrays are let go by a rule."""
    has_rule = Q(config__retention__isnull=False) & ~Q(config__retention=None)
    if settings.RETENTION_DAYS:
        has_rule |= Q(state__in=Run.ENDED)
    runs = Run.objects.filter(has_rule).select_related("project").order_by("-pk")[:RUNS_SHOWN]
    return [{"run": run, "rule": _words(run)} for run in runs]


def _words(run: Run) -> str:
    rule = rule_of(run)
    days = f"{rule.days} days after it was closed" if rule.days else ""
    return " or ".join(part for part in (days, f"once {rule.uses} updates took it" if rule.uses else "") if part)


def gone() -> list[Release]:
    return list(Release.objects.select_related("run__project").order_by("-pk")[:RUNS_SHOWN])


def reckoned(asked: str) -> dict | None:
    """What would go of the run of this id. Raises Http404."""
    if not asked:
        return None
    run = Run.objects.select_related("project").filter(pk=int(asked)).first() if asked.isdecimal() and len(asked) < 18 else None
    rule = run and rule_of(run)
    if rule is None:
        raise Http404("no such run that has a rule")
    return {"run": run, "going": would_go(run, rule)}
