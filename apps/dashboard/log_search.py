"""Search of log lines: the filter in the URL, and a page of results."""

import json
from collections.abc import Iterator
from datetime import UTC
from typing import Any

from django import forms
from django.db.models import Q, QuerySet, TextField
from django.db.models.functions import Cast
from django.http import HttpRequest

from apps.accounts.models import User
from apps.dashboard.paging import Page, load_page, page_within
from apps.runs.blind_review import judged_openly
from apps.runs.models import LogLine

LOOKED_THROUGH = 20_000  # lines scanned at a time if there is no index for the filter
MAX_DOWNLOADED = 100_000
GLANCED_AT = 1_000  # lines of a worker that are scanned for those on its page
LEVELS = (("", "all levels"), ("30", "warnings and errors"), ("40", "errors"))
TIMES = ["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%d"]


class LogSearch(forms.Form):
    """A filter of log lines.

    Each word must occur in the event or in any field; times are UTC.
    """

    level = forms.ChoiceField(choices=LEVELS, required=False, label="level")
    words = forms.CharField(
        max_length=200, required=False, label="words", widget=forms.TextInput({"data-search": ""})
    )
    since = forms.DateTimeField(required=False, label="from (UTC)", input_formats=TIMES)
    until = forms.DateTimeField(required=False, label="to (UTC)", input_formats=TIMES)

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        for name in ("since", "until"):
            self.fields[name].widget = forms.DateTimeInput({"type": "datetime-local", "step": 1})

    @property
    def is_asking(self) -> bool:
        return any(self.data.get(name) for name in self.fields)

    def matching(self, lines: QuerySet[LogLine]) -> QuerySet[LogLine]:
        """Return the lines that match; none while the form is invalid."""
        if not self.is_valid():
            return lines.none()
        data = self.cleaned_data
        condition = Q()
        if data["level"]:
            condition &= Q(level__gte=int(data["level"]))
        lines = self.in_time(lines)
        for word in data["words"].split():
            condition &= Q(event__icontains=word) | Q(text__icontains=word)
        return (
            lines.annotate(text=Cast("fields", TextField())).filter(condition)
            if data["words"]
            else lines.filter(condition)
        )

    def in_time(self, lines: QuerySet[LogLine]) -> QuerySet[LogLine]:
        """Return the lines between the times.

        Lines are stored in order of time as of id, so that a BRIN index finds them.
        """
        if since := self.cleaned_data["since"]:
            lines = lines.filter(at__gte=since.replace(tzinfo=UTC))
        if until := self.cleaned_data["until"]:
            lines = lines.filter(at__lte=until.replace(tzinfo=UTC))
        return lines

    def page(
        self, lines: QuerySet[LogLine], request: HttpRequest, among: QuerySet[LogLine] | None = None
    ) -> Page[LogLine]:
        """Return a page of the matching lines.

        `among` is a larger set of which a bounded number is scanned; None if an index finds every
        match.
        """
        matching = self.matching(lines)
        is_narrowed = self.is_valid() and bool(
            self.cleaned_data["level"] or self.cleaned_data["words"]
        )
        if not self.is_valid() or (among is None and not is_narrowed):
            return load_page(matching, request)
        return page_within(
            matching, self.in_time(lines if among is None else among), LOOKED_THROUGH, request
        )


def newest_of_worker(user: User, key: str, count: int) -> list[LogLine]:
    """Return the newest lines of a worker that the user may read.

    They are taken from its last GLANCED_AT lines.
    """
    last = LogLine.objects.filter(worker=key).order_by("-pk").values("pk")[:GLANCED_AT]
    return list(lines_for(user).filter(pk__in=last).order_by("-pk")[:count])


def lines_for(user: User) -> QuerySet[LogLine]:
    """Return the log lines that the user may read.

    These are lines of runs whose ratings they may see; staff also see lines of no run,
    administrators all.
    """
    lines = LogLine.objects.select_related("run__project").defer("run__config")
    if user.is_superuser:
        return lines
    of_runs = Q(run__in=judged_openly(user))
    return lines.filter(of_runs | Q(run=None) if user.is_staff else of_runs)


def is_keeper(user: User) -> bool:
    """Tell whether the user operates the installation: sees all processes and directs workers."""
    return user.is_superuser or user.is_staff


def as_jsonl(lines: QuerySet[LogLine]) -> Iterator[bytes]:
    """Yield the lines as JSON, newest first."""
    for line in lines.order_by("-pk")[:MAX_DOWNLOADED].iterator(2_000):
        record = {
            "id": line.pk,
            "at": line.at.isoformat(),
            "level": line.get_level_display().lower(),
            "event": line.event,
            "run": f"{line.run.project.slug}/{line.run.slug}" if line.run else None,
            "worker": line.worker,
            "logger": line.logger,
            "fields": line.fields,
        }
        yield json.dumps(record, ensure_ascii=False).encode() + b"\n"
