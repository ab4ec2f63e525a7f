"""Importing lessons over REST: a file is looked through, or stored."""

import math
import tempfile
from typing import Any

from django.db import transaction
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.exceptions import PermissionDenied, ValidationError
from rest_framework.parsers import MultiPartParser
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.accounts.body_limits import FORM_OVERHEAD, takes_body
from apps.accounts.documents import Choice, Strict, Text
from apps.accounts.models import AuditEntry, Project
from apps.accounts.requests import ApiRequest
from apps.accounts.scopes import MaySteer
from apps.feedback.importing import BadLessons, Destination, Imported, LessonFile, import_lessons
from apps.feedback.models import LESSONS
from apps.feedback.previewing import preview_lessons
from apps.feedback.reading import LessonColumns
from apps.tasksets.layouts import BY_NAME, layouts_for
from apps.tasksets.models import Taskset
from apps.tasksets.sources.records import NotReadable
from apps.tasksets.uploads import keep_upload, upload_name

MAX_BYTES = 100 * 1000 * 1000
BAD_SHOWN = 20
LAYOUTS = sorted({layout.name for kind in LESSONS for layout in layouts_for(kind)})


class SentLessons(Strict):
    """A file of lessons, as multipart/form-data."""

    project = Text(max_length=50, help_text="The project's slug.")
    kind = Choice(choices=list(LESSONS))
    file = serializers.FileField(help_text="Any supported format and layout (docs/lessons.md).")
    taskset = Text(
        max_length=50,
        required=False,
        allow_blank=True,
        help_text="If given, prompts must be tasks of this taskset.",
    )
    layout = Choice(
        choices=LAYOUTS,
        required=False,
        allow_blank=True,
        help_text="If omitted: detected from the first rows.",
    )
    split = Text(
        max_length=60,
        required=False,
        allow_blank=True,
        help_text="Split to read, if a zip file has several.",
    )
    min_rating = serializers.FloatField(
        required=False, help_text="Lowest rating of a good answer, if the file has ratings."
    )
    leave_out = serializers.BooleanField(
        required=False, default=False, help_text="Skip invalid rows instead of rejecting the file."
    )
    preview = serializers.BooleanField(
        required=False, default=False, help_text="Check the file without storing anything."
    )

    def validate(self, attrs: dict) -> dict:
        layout = attrs.get("layout")
        if not math.isfinite(attrs.get("min_rating", 0.0)):
            raise ValidationError({"min_rating": ["A finite number is required."]})
        if layout and attrs["kind"] not in BY_NAME[layout].reads:
            raise ValidationError({"layout": [f"This layout has no {attrs['kind']}."]})
        if attrs["file"].size > MAX_BYTES:
            size = attrs["file"].size / 1e6
            limit = MAX_BYTES / 1e6
            raise ValidationError(
                {"file": [f"The file has {size:.0f} MB; the limit is {limit:.0f} MB."]}
            )
        return attrs


class BadRow(serializers.Serializer):
    line = serializers.IntegerField()
    reason = serializers.CharField()


class PreviewedLesson(serializers.Serializer):
    line = serializers.IntegerField()
    prompt = serializers.ListField(child=serializers.DictField(), allow_null=True)
    author = serializers.CharField(allow_null=True)
    values = serializers.DictField(help_text="The values of the lesson by field.")


class LessonsDocument(serializers.Serializer):
    """The result of an import; of a preview, the result that its first rows would have."""

    stored = serializers.BooleanField()
    layout = serializers.CharField(
        allow_blank=True, help_text="Name of the layout; empty if unknown."
    )
    not_taken = serializers.DictField(
        child=serializers.IntegerField(),
        help_text="Ignored fields, with the number of rows that have a value.",
    )
    new = serializers.IntegerField(help_text="Lessons stored; in a preview, valid lessons.")
    existing = serializers.IntegerField(help_text="Lessons that already existed.")
    bad_count = serializers.IntegerField()
    bad = BadRow(many=True)
    imported_raters = serializers.ListField(
        child=serializers.CharField(), help_text="Authors who are not members."
    )
    lessons = PreviewedLesson(many=True, help_text="The first lessons, in a preview.")


@takes_body(MAX_BYTES + FORM_OVERHEAD)
class Lessons(APIView):
    permission_classes = [MaySteer]
    parser_classes = [MultiPartParser]

    @extend_schema(
        operation_id="lessons_import",
        request={"multipart/form-data": SentLessons},
        responses={200: LessonsDocument},
    )
    def post(self, request: ApiRequest) -> Response:
        """Import the demonstrations, preferences or thumbs of a file, or preview the file."""
        form = SentLessons(data=request.data)
        form.is_valid(raise_exception=True)
        data = form.validated_data
        project = _run_project(request, data["project"])
        to = Destination(
            project, upload_name(data["file"]), _taskset(project, data.get("taskset", ""))
        )
        columns = LessonColumns(layout=data.get("layout", ""), min_rating=data.get("min_rating"))
        with keep_upload(data["file"]) as path:
            file = LessonFile(path, data["kind"], columns, split=data.get("split", ""))
            try:
                answer = (
                    _previewed(file)
                    if data["preview"]
                    else _stored(file, to, data["leave_out"], request)
                )
            except NotReadable as damage:
                raise ValidationError({"file": [f"The file can’t be read: {damage}."]}) from None
            except BadLessons as refusal:
                lines = [f"line {line.number}: {line.reason}" for line in refusal.lines[:BAD_SHOWN]]
                raise ValidationError(
                    {"file": [f"Nothing was stored: {refusal.count} rows are invalid.", *lines]}
                ) from None
        return Response(answer)


def _run_project(request: ApiRequest, slug: str) -> Project:
    """Return the project, whose data the user may change.

    Raises ValidationError for strangers, and PermissionDenied for people who may only look.
    """
    project = Project.objects.visible_to(request.user).filter(slug=slug).first()
    if project is None:
        raise ValidationError({"project": [f"You are not a member of a project {slug!r}."]})
    if not Project.objects.run_by(request.user).filter(pk=project.pk).exists():
        raise PermissionDenied("Only owners and researchers of the project can import lessons.")
    return project


def _taskset(project: Project, slug: str) -> Taskset | None:
    """Return the taskset of this slug; None without a slug. Raises ValidationError."""
    taskset = project.tasksets.filter(slug=slug).first() if slug else None
    if slug and taskset is None:
        raise ValidationError({"taskset": [f"The project has no taskset {slug!r}."]})
    return taskset


@transaction.atomic
def _stored(
    file: LessonFile, to: Destination, leave_out: bool, request: ApiRequest
) -> dict[str, Any]:
    AuditEntry.record(
        "lessons imported", f"project {to.project.slug}", request.user, to.project, file=to.source
    )
    with tempfile.TemporaryFile() as aside:
        outcome = import_lessons(file, to, aside if leave_out else None)
    return _document(outcome, stored=True)


def _previewed(file: LessonFile) -> dict[str, Any]:
    preview = preview_lessons(file)
    outcome = Imported(
        new=preview.lessons, bad=preview.bad_rows, layout=preview.layout, dropped=preview.dropped
    )
    return _document(outcome, stored=False) | {
        "bad": [{"line": line.number, "reason": line.reason} for line in preview.bad],
        "lessons": [
            {
                "line": lesson.number,
                "prompt": lesson.prompt,
                "author": lesson.author,
                "values": lesson.fields,
            }
            for lesson in preview.good
        ],
    }


def _document(outcome: Imported, *, stored: bool) -> dict[str, Any]:
    return {
        "stored": stored,
        "layout": outcome.layout,
        "not_taken": dict(outcome.dropped),
        "new": outcome.new,
        "existing": outcome.existing,
        "bad_count": outcome.bad,
        "bad": [],
        "imported_raters": sorted(outcome.raters),
        "lessons": [],
    }
