"""Import of lessons: a preview checks the file, then it is stored, without bad lines if allowed."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django import forms
from django.contrib.auth.decorators import login_required
from django.core.files.uploadedfile import UploadedFile
from django.db import transaction
from django.db.models import Count
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_http_methods

from apps.accounts.body_limits import FORM_OVERHEAD, takes_body
from apps.accounts.models import AuditEntry, Project, User
from apps.accounts.requests import SignedInRequest
from apps.dashboard.form_actions import posted_action
from apps.dashboard.form_fields import choice_field
from apps.feedback.importing import BadLessons, Destination, Imported, LessonFile, import_lessons
from apps.feedback.models import LESSONS
from apps.feedback.previewing import LessonPreview, preview_lessons
from apps.feedback.reading import LessonColumns
from apps.tasksets.layouts import BY_NAME, LAYOUTS
from apps.tasksets.sources.names import ALL_SUFFIXES
from apps.tasksets.sources.records import NotReadable
from apps.tasksets.uploads import keep_upload, upload_name

MAX_BYTES = 100 * 1000 * 1000
BAD_SHOWN = 20
SOURCES_SHOWN = 20
MAX_COUNTED = 20_000  # newest lessons of a kind whose sources are counted


class Upload(forms.Form):
    """The kind of lessons, their taskset, and whether bad lines may be left out."""

    kind = forms.ChoiceField(choices=[(kind, kind) for kind in LESSONS])
    taskset = forms.ChoiceField(required=False)
    leave_out = forms.BooleanField(required=False)
    layout = forms.ChoiceField(required=False)
    split = forms.CharField(max_length=60, required=False)
    min_rating = forms.FloatField(required=False)
    file = forms.FileField(
        error_messages={"required": "Choose a file.", "empty": "The file is empty."}
    )

    def __init__(self, project: Project, *form_args: Any) -> None:
        super().__init__(*form_args)
        self.project = project
        layout_choices = [
            (layout.name, layout.title)
            for layout in LAYOUTS
            if layout.reads.keys() & LESSONS.keys()
        ]
        choice_field(self, "layout").choices = [("", "Detect automatically"), *layout_choices]
        choice_field(self, "taskset").choices = [
            ("", "none"),
            *((slug, slug) for slug in project.tasksets.values_list("slug", flat=True)),
        ]

    def clean_file(self) -> UploadedFile:
        file = self.cleaned_data["file"]
        if file.size > MAX_BYTES:
            raise forms.ValidationError(
                f"The file has {file.size / 1e6:.0f} MB; the maximum is"
                f" {MAX_BYTES / 1e6:.0f} MB. Use manage.py for larger files."
            )
        return file

    def clean(self) -> dict:
        super().clean()
        cleaned = self.cleaned_data
        layout = cleaned.get("layout")
        kind = cleaned.get("kind")
        if layout and kind and kind not in BY_NAME[layout].reads:
            self.add_error("layout", f"Rows of this layout hold no {kind}.")
        return cleaned

    @contextmanager
    def stored_file(self) -> Iterator[LessonFile]:
        """Yield the file where a child can read it, for as long as the block lasts."""
        columns = LessonColumns(
            layout=self.cleaned_data["layout"], min_rating=self.cleaned_data["min_rating"]
        )
        with keep_upload(self.cleaned_data["file"]) as path:
            kind = self.cleaned_data["kind"]
            yield LessonFile(path, kind, columns, split=self.cleaned_data["split"])

    @property
    def destination(self) -> Destination:
        taskset = self.project.tasksets.filter(slug=self.cleaned_data["taskset"]).first()
        return Destination(self.project, upload_name(self.cleaned_data["file"]), taskset)


@takes_body(MAX_BYTES + FORM_OVERHEAD)
@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def import_page(request: SignedInRequest, project: str) -> HttpResponse:
    """Owners and researchers of the project: check a file (`act=preview`), or store it."""
    own_project = get_object_or_404(Project.objects.run_by(request.user), slug=project)
    form = Upload(own_project, *((request.POST, request.FILES) if request.method == "POST" else ()))
    context = {
        "section": "tasksets",
        "project": own_project,
        "form": form,
        "suffixes": ",".join(ALL_SUFFIXES),
        "limit": MAX_COUNTED,
        "tasksets": list(own_project.tasksets.values_list("slug", flat=True)),
    }
    status = 200
    if request.method == "POST":
        store = posted_action(request, ("preview", "store")) == "store"
        context |= _import_result(form, store, request.user) if form.is_valid() else {}
        status = 200 if form.is_valid() and "refusal" not in context else 422
    context["sources"] = _sources(own_project)  # includes what was just stored
    return render(request, "dashboard/lessons_import.html", context, status=status)


def _import_result(form: Upload, store: bool, by: User) -> dict:
    try:
        return {"stored": _store(form, by)} if store else {"preview": _preview(form)}
    except NotReadable as damage:
        return {"refusal": f"The file cannot be read: {damage}."}
    except BadLessons as refusal:
        return {
            "refusal": f"Nothing was imported: {refusal}.",
            "bad": refusal.lines[:BAD_SHOWN],
            "bad_count": refusal.count,
        }


@transaction.atomic
def _store(form: Upload, by: User) -> Imported:
    """Store the whole file, or all but its bad lines if these may be left out."""
    to = form.destination
    AuditEntry.record(
        "lessons imported", f"project {to.project.slug}", by, to.project, file=to.source
    )
    with form.stored_file() as file, tempfile.TemporaryFile() as aside:
        return import_lessons(file, to, aside if form.cleaned_data["leave_out"] else None)


def _preview(form: Upload) -> LessonPreview:
    with form.stored_file() as file:
        return preview_lessons(file)


def _sources(project: Project) -> list[tuple[str, str, int]]:
    """Return (kind, source, count) of the newest lessons of each kind."""
    sources = []
    for kind, model in LESSONS.items():
        newest = model.objects.filter(project=project).order_by("-pk").values("pk")[:MAX_COUNTED]
        rows = (
            model.objects.filter(pk__in=newest)
            .order_by()
            .values_list("source")
            .annotate(n=Count("pk"))
            .order_by("-n")
        )
        sources += [(kind, source, count) for source, count in rows[:SOURCES_SHOWN]]
    return sources
