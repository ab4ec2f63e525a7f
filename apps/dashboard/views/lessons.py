"""Importing lessons: a file is looked through first, and stored when it is good or when its bad lines may be left out."""

import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from django import forms
from django.contrib.auth.decorators import login_required
from django.core.files.uploadedfile import UploadedFile
from django.db import transaction
from django.db.models import Count
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_http_methods

from apps.accounts.body_limits import FORM_OVERHEAD, takes_body
from apps.accounts.models import AuditEntry, Project, User
from apps.dashboard.form_actions import posted_action
from apps.feedback.importing import BadLessons, Destination, Imported, import_lessons
from apps.feedback.layouts import LAYOUTS
from apps.feedback.models import LESSONS
from apps.feedback.parquet import NotParquet
from apps.feedback.reading import LessonLine, RawBadLine, read

LARGEST_BYTES = 100 * 1000 * 1000
LOOKED_AT = 50_000  # lines that a preview reads
SHOWN, BAD_SHOWN = 5, 20
SOURCES_SHOWN = 20
MOST_COUNTED = 20_000  # newest lessons of a kind whose sources are counted


class Upload(forms.Form):
    """What is imported, about which taskset, and what becomes of lines that are no lessons."""

    kind = forms.ChoiceField(choices=[(kind, kind) for kind in LESSONS])
    taskset = forms.ChoiceField(required=False)
    leave_out = forms.BooleanField(required=False)
    file = forms.FileField(error_messages={"required": "Choose a file.", "empty": "The file is empty."})

    def __init__(self, project: Project, *given: object) -> None:
        super().__init__(*given)
        self.project = project
        self.fields["taskset"].choices = [("", "none"), *((slug, slug) for slug in project.tasksets.values_list("slug", flat=True))]

    def clean_file(self) -> UploadedFile:
        file = self.cleaned_data["file"]
        if file.size > LARGEST_BYTES:
            raise forms.ValidationError(
                f"The file has {file.size / 1e6:.0f} MB; pages take {LARGEST_BYTES / 1e6:.0f}. Use manage.py for larger ones."
            )
        return file

    @property
    def destination(self) -> Destination:
        taskset = self.project.tasksets.filter(slug=self.cleaned_data["taskset"]).first()
        return Destination(self.project, Path(self.cleaned_data["file"].name).name[:200], taskset)


@takes_body(LARGEST_BYTES + FORM_OVERHEAD)
@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def import_page(request: HttpRequest, project: str) -> HttpResponse:
    """Owners and researchers of the project: looking through a file of lessons (`act=preview`), and storing it."""
    found = get_object_or_404(Project.objects.run_by(request.user), slug=project)
    form = Upload(found, *((request.POST, request.FILES) if request.method == "POST" else ()))
    context = {
        "section": "tasksets", "project": found, "form": form, "layouts": LAYOUTS, "most": MOST_COUNTED,
        "tasksets": list(found.tasksets.values_list("slug", flat=True)),
    }  # fmt: skip
    status = 200
    if request.method == "POST":
        store = posted_action(request, ("preview", "store")) == "store"
        context |= _done(form, store, request.user) if form.is_valid() else {}
        status = 200 if form.is_valid() and "refusal" not in context else 422
    context["sources"] = _sources(found)  # after what was stored now
    return render(request, "dashboard/lessons_import.html", context, status=status)


def _done(form: Upload, store: bool, by: User) -> dict:
    try:
        return {"stored": _store(form, by)} if store else {"preview": _preview(form)}
    except NotParquet as damage:
        return {"refusal": f"The file is no Parquet that can be read: {damage}."}
    except BadLessons as refusal:
        return {"refusal": f"Nothing was stored: {refusal}.", "bad": refusal.lines[:BAD_SHOWN], "bad_count": refusal.count}


@transaction.atomic
def _store(form: Upload, by: User) -> Imported:
    """All of the file, or all but its bad lines where these may be left out."""
    to = form.destination
    AuditEntry.record("lessons imported", f"project {to.project.slug}", by, to.project, file=to.source)
    with tempfile.NamedTemporaryFile(suffix=".lessons") as copy, tempfile.TemporaryFile() as aside:
        for piece in form.cleaned_data["file"].chunks():
            copy.write(piece)
        copy.flush()
        leave_out = aside if form.cleaned_data["leave_out"] else None
        return import_lessons(Path(copy.name), form.cleaned_data["kind"], to, leave_out)


def _preview(form: Upload) -> dict:
    lines = islice(_lines(form), LOOKED_AT)
    good: list[LessonLine] = []
    bad: list[RawBadLine] = []
    count = bad_count = 0
    for line in lines:
        count += 1
        if isinstance(line, LessonLine):
            good += [line] if len(good) < SHOWN else []
        else:
            bad_count += 1
            bad += [line] if len(bad) < BAD_SHOWN else []
    return {"count": count, "good": good, "bad": bad, "bad_count": bad_count, "is_cut": count == LOOKED_AT}


def _lines(form: Upload) -> Iterator[LessonLine | RawBadLine]:
    file = form.cleaned_data["file"]
    file.seek(0)
    return read(file.file, form.cleaned_data["kind"], {})


def _sources(project: Project) -> list[tuple[str, str, int]]:
    """(kind, source, how many) of the newest lessons of each kind."""
    found = []
    for kind, model in LESSONS.items():
        newest = model.objects.filter(project=project).order_by("-pk").values("pk")[:MOST_COUNTED]
        rows = model.objects.filter(pk__in=newest).order_by().values_list("source").annotate(n=Count("pk")).order_by("-n")
        found += [(kind, source, count) for source, count in rows[:SOURCES_SHOWN]]
    return found
