"""What the lines of a log can be asked for, as it stands in the URL; and the page of them."""

import json
from collections.abc import Iterator
from datetime import UTC

from django import forms
from django.db.models import Q, QuerySet, TextField
from django.db.models.functions import Cast
from django.http import HttpRequest

from apps.accounts.models import User
from apps.dashboard.paging import Page, page_of, page_within
from apps.runs.blindness import judged_openly
from apps.runs.models import LogLine

LOOKED_THROUGH = 20_000  # lines at a time, where what is asked for has no index
MOST_DOWNLOADED = 100_000
GLANCED_AT = 1_000  # of a worker's, for the few that stand on its page
LEVELS = (("", "all levels"), ("30", "warnings and errors"), ("40", "errors"))
TIMES = ["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%d"]


class LogSearch(forms.Form):
    """Words are looked for in the event and in all fields, each of them; times are UTC."""

    level = forms.ChoiceField(choices=LEVELS, required=False, label="level")
    words = forms.CharField(max_length=200, required=False, label="words", widget=forms.TextInput({"data-search": ""}))
    since = forms.DateTimeField(required=False, label="from (UTC)", input_formats=TIMES)
    until = forms.DateTimeField(required=False, label="to (UTC)", input_formats=TIMES)

    def __init__(self, *arguments: object, **options: object) -> None:
        super().__init__(*arguments, **options)
        for name in ("since", "until"):
            self.fields[name].widget = forms.DateTimeInput({"type": "datetime-local", "step": 1})

    @property
    def is_asking(self) -> bool:
        return any(self.data.get(name) for name in self.fields)

    def found(self, lines: QuerySet[LogLine]) -> QuerySet[LogLine]:
        """Those that are asked for; none while the form is wrong."""
        if not self.is_valid():
            return lines.none()
        said, wanted = self.cleaned_data, Q()
        if said["level"]:
            wanted &= Q(level__gte=int(said["level"]))
        lines = self.in_time(lines)
        for word in said["words"].split():
            wanted &= Q(event__icontains=word) | Q(text__icontains=word)
        return lines.annotate(text=Cast("fields", TextField())).filter(wanted) if said["words"] else lines.filter(wanted)

    def in_time(self, lines: QuerySet[LogLine]) -> QuerySet[LogLine]:
        """Those between the times; lines lie by time as they lie by id, so that an index of blocks finds them."""
        if since := self.cleaned_data["since"]:
            lines = lines.filter(at__gte=since.replace(tzinfo=UTC))
        if until := self.cleaned_data["until"]:
            lines = lines.filter(at__lte=until.replace(tzinfo=UTC))
        return lines

    def page(self, lines: QuerySet[LogLine], request: HttpRequest, among: QuerySet[LogLine] | None = None) -> Page:
        """Of `lines`. `among`: more than these, of which so many are looked through; None where an index finds each of them."""
        found = self.found(lines)
        is_narrowed = self.is_valid() and bool(self.cleaned_data["level"] or self.cleaned_data["words"])
        if not self.is_valid() or (among is None and not is_narrowed):
            return page_of(found, request)
        return page_within(found, self.in_time(lines if among is None else among), LOOKED_THROUGH, request)


def newest_of_worker(user: User, key: str, count: int) -> list[LogLine]:
    """The newest lines of this worker that the person may read, among the last so many that it said."""
    last = LogLine.objects.filter(worker=key).order_by("-pk").values("pk")[:GLANCED_AT]
    return list(lines_for(user).filter(pk__in=last).order_by("-pk")[:count])


def lines_for(user: User) -> QuerySet[LogLine]:
    """Lines of the runs whose judgements this person sees; staff see those of no run as well, administrators all."""
    lines = LogLine.objects.select_related("run__project").defer("run__config")
    if user.is_superuser:
        return lines
    of_runs = Q(run__in=judged_openly(user))
    return lines.filter(of_runs | Q(run=None) if user.is_staff else of_runs)


def is_keeper(user: User) -> bool:
    """Who keeps the installation: sees what belongs to no project, and tells workers what to do."""
    return user.is_superuser or user.is_staff


def as_jsonl(lines: QuerySet[LogLine]) -> Iterator[bytes]:
    """One line each, the newest first."""
    for line in lines.order_by("-pk")[:MOST_DOWNLOADED].iterator(2_000):
        said = {
            "id": line.pk, "at": line.at.isoformat(), "level": line.get_level_display().lower(), "event": line.event,
            "run": f"{line.run.project.slug}/{line.run.slug}" if line.run else None, "worker": line.worker, "logger": line.logger,
            "fields": line.fields,
        }  # fmt: skip
        yield json.dumps(said, ensure_ascii=False).encode() + b"\n"
