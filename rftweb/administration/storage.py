"""Disk usage: tables, weight folders, and what retention has deleted and would delete."""

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
from apps.buffer.retention import find_retention_rule, would_go
from apps.runs.models import Run, WeightVersion
from apps.runs.run_in_query import find_run_in_query

TABLES_SHOWN = 15
RUNS_SHOWN = 15
MAX_FILES = 20_000  # files of one kind whose sizes are added up
# Statistics of PostgreSQL: sizes are exact, row counts as of the last run of autovacuum.
TABLES = """
    SELECT class.relname, nullif(class.reltuples, -1)::bigint, pg_table_size(class.oid),
        pg_indexes_size(class.oid)
    FROM pg_class class WHERE class.relkind = 'r' AND class.relnamespace = 'public'::regnamespace
    ORDER BY pg_total_relation_size(class.oid) DESC LIMIT %s"""
KEPT = (WeightVersion.State.STAGED, WeightVersion.State.VERIFIED, WeightVersion.State.PUBLISHED)


@require_safe
def storage(request: HttpRequest) -> HttpResponse:
    """Staff who may view runs.

    `?run=` computes what retention would delete of that run now.
    """
    if not request.user.has_perm("runs.view_run"):
        raise PermissionDenied("You may not look at runs.")
    weights = settings.WEIGHTS_ROOT
    context = {
        **admin.site.each_context(request),
        "title": "Storage and retention",
        "tables": tables(),
        "database": database_bytes(),
        "weights": weights_of_runs(),
        "newest": NEWEST,
        "folders": folders(),
        "root": weights,
        "disk": shutil.disk_usage(weights) if weights.exists() else None,
        "ruled": ruled(),
        "days": settings.RETENTION_DAYS,
        "gone": gone(),
        "reckoned": reckoned(request.GET.get("run", "")),
    }
    return render(request, "admin/storage.html", context)


def database_bytes() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_database_size(current_database())")
        return cursor.fetchone()[0]


def tables() -> list[dict]:
    """Return the largest tables, with the name of their model if they have one."""
    metas = (model._meta for model in apps.get_models(include_auto_created=True))
    names = {meta.db_table: capfirst(meta.verbose_name_plural) for meta in metas}
    with connection.cursor() as cursor:
        cursor.execute(TABLES, [TABLES_SHOWN])
        rows = cursor.fetchall()
    largest = max((data + indexes for _, _, data, indexes in rows), default=0) or 1
    return [
        {
            "name": names.get(table, table),
            "table": table,
            "rows": count,
            "data": data,
            "indexes": indexes,
            "total": data + indexes,
            "share": round(100 * (data + indexes) / largest),
        }
        for table, count, data, indexes in rows
    ]


def weights_of_runs() -> list[dict]:
    """Return runs by the bytes of their existing weight folders, newest versions only."""
    stored = among_newest(WeightVersion.objects.filter(state__in=KEPT, version__gt=0).order_by())
    rows = stored.values("run", "run__project__slug", "run__slug", "run__state").annotate(
        bytes=Sum("bytes"), versions=Count("pk")
    )
    return list(rows.order_by("-bytes")[:RUNS_SHOWN])


def folders() -> list[dict]:
    """Return the sizes of other folders as this machine sees them.

    At most MAX_FILES files of each kind are added up.
    """
    weights = settings.WEIGHTS_ROOT
    places = {
        "Checkpoints": weights.glob("run-*/checkpoints"),
        "Exports of weights": [weights / "exports"],
        "Files of imports": [settings.IMPORTS_ROOT],
    }
    return [{"name": name, **_sizes(roots)} for name, roots in places.items()]


def _sizes(roots: Iterable[Path]) -> dict:
    """Return the size of the folders; `is_cut` means that some files were not counted."""
    files = total = 0
    for root in roots:
        for folder, _, names in os.walk(root):
            for name in names:
                if files == MAX_FILES:
                    return {"files": files, "bytes": total, "is_cut": True}
                try:
                    total += os.lstat(os.path.join(folder, name)).st_size
                except FileNotFoundError:  # a trainer has just deleted it
                    continue
                files += 1
    return {"files": files, "bytes": total, "is_cut": False}


def ruled() -> list[dict]:
    """Return the newest runs that have a retention rule."""
    has_rule = Q(config__retention__isnull=False) & ~Q(config__retention=None)
    if settings.RETENTION_DAYS:
        has_rule |= Q(state__in=Run.ENDED)
    runs = Run.objects.filter(has_rule).select_related("project").order_by("-pk")[:RUNS_SHOWN]
    return [{"run": run, "rule": _rule_text(run)} for run in runs]


def _rule_text(run: Run) -> str:
    rule = find_retention_rule(run)
    assert rule is not None  # `ruled` chooses runs that have one
    days = f"{rule.days} days after it was closed" if rule.days else ""
    return " or ".join(
        part for part in (days, f"once {rule.uses} steps used it" if rule.uses else "") if part
    )


def gone() -> list[Release]:
    return list(Release.objects.select_related("run__project").order_by("-pk")[:RUNS_SHOWN])


def reckoned(name: str) -> dict | None:
    """Return what retention would delete of the run with this id or name. Raise Http404."""
    if not name:
        return None
    run = find_run_in_query(Run.objects.select_related("project"), name)
    rule = find_retention_rule(run)
    if rule is None:
        raise Http404(f"retention deletes nothing of run {run.slug}: it has no rule")
    return {"run": run, "going": would_go(run, rule)}
