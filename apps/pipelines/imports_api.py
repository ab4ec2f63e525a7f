"""Import tasks over REST: a file is sent, a worker previews it, and its sender starts it."""

from dataclasses import replace
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.exceptions import PermissionDenied, ValidationError
from rest_framework.parsers import MultiPartParser
from rest_framework.permissions import BasePermission
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.accounts.body_limits import FORM_OVERHEAD, takes_body
from apps.accounts.documents import Choice, Slug, Strict, Text, Yes
from apps.accounts.listing import Paged, list_page, page_serializer
from apps.accounts.models import Project
from apps.accounts.problems import Conflict, NotNow
from apps.accounts.requests import ApiRequest
from apps.accounts.scopes import MayRead, MaySteer
from apps.pipelines.checking import in_list, operators_of_import
from apps.runs.config import ConfigError
from apps.streaming import wakeups
from apps.tasksets.column_choice import MAX_COLUMN_LENGTH, ImportOptions, look_at_rows
from apps.tasksets.duplicates import CHOICES, KEEP
from apps.tasksets.import_files import TooManyHeld, create_import
from apps.tasksets.layouts import BY_NAME, TASKS, layouts_for
from apps.tasksets.models import ImportOver, Taskset, TasksetImport
from apps.tasksets.rows import TaskRow
from apps.tasksets.sources import FORMATS
from apps.tasksets.uploads import upload_name

MAX_BYTES = 1000 * 1000 * 1000
RETRY_S = 60.0
LAYOUTS = [layout.name for layout in layouts_for(TASKS)]


class SentFile(Strict):
    """A file of tasks, as multipart/form-data."""

    project = Text(max_length=50, help_text="Slug of the project.")
    file = serializers.FileField(
        help_text="A file of any supported format and layout (docs/tasksets.md)."
    )


class ImportChoices(Strict):
    """How the file is read.

    Fields that you omit stay as the preview shows them, detected from the file's first rows.
    """

    slug = Slug(max_length=50, help_text="Slug of the new taskset.")
    format = Choice(choices=FORMATS, required=False)
    split = Text(max_length=60, required=False, allow_blank=True)
    layout = Choice(
        choices=LAYOUTS,
        required=False,
        allow_blank=True,
        help_text="If empty, detected from the columns below.",
    )
    prompt = Text(max_length=MAX_COLUMN_LENGTH, required=False)
    answer = Text(
        max_length=MAX_COLUMN_LENGTH,
        required=False,
        allow_blank=True,
        help_text="If empty, tasks have no answer.",
    )
    domain = Text(max_length=MAX_COLUMN_LENGTH, required=False, allow_blank=True)
    follow_ups = Text(max_length=MAX_COLUMN_LENGTH, required=False, allow_blank=True)
    meta = Text(max_length=MAX_COLUMN_LENGTH, required=False, allow_blank=True)
    more_meta = serializers.ListField(
        child=Text(max_length=MAX_COLUMN_LENGTH), required=False, max_length=200
    )
    answer_key = Text(max_length=60, required=False)
    quarantine = Yes(required=False, help_text="Set bad rows aside instead of rejecting the file.")
    duplicates = Choice(choices=CHOICES, required=False, default=KEEP)
    operators = Text(
        max_length=20_000, required=False, allow_blank=True, help_text="YAML list of operators."
    )
    version_of = Text(
        max_length=50,
        required=False,
        allow_blank=True,
        help_text="Taskset that this is the next version of.",
    )


class PreviewedRow(serializers.Serializer):
    """A first row of the file: a task, or why it is none."""

    line = serializers.IntegerField()
    prompt = serializers.ListField(child=serializers.DictField(), allow_null=True)
    answer = serializers.DictField(allow_null=True)
    domain = serializers.CharField(allow_blank=True)
    reason = serializers.CharField(allow_blank=True, help_text="Empty for a task.")


class ImportPreview(serializers.Serializer):
    """What a worker saw of the file, read in the way that `how` says."""

    layout = serializers.CharField(
        allow_blank=True, help_text="Name of the layout; empty if columns are used."
    )
    columns = serializers.ListField(child=serializers.CharField())
    splits = serializers.ListField(child=serializers.CharField())
    refusal = serializers.CharField(allow_blank=True, help_text="Why the file cannot be read.")
    not_taken = serializers.DictField(
        child=serializers.IntegerField(),
        help_text="Ignored fields, with the number of rows that have a value.",
    )
    rows = PreviewedRow(many=True)


class ImportDocument(serializers.ModelSerializer):
    """An import of a file."""

    project: serializers.SlugRelatedField[Project] = serializers.SlugRelatedField(
        "slug", read_only=True
    )
    taskset: serializers.SlugRelatedField[Taskset] = serializers.SlugRelatedField(
        "slug", read_only=True, allow_null=True
    )
    preview = serializers.SerializerMethodField(help_text="Null until a worker has read the file.")
    bad = serializers.ListField(
        child=serializers.ListField(),
        help_text="First invalid rows: [line, reason, excerpt].",
    )

    class Meta:
        model = TasksetImport
        fields: tuple[str, ...] = (
            "id",
            "project",
            "name",
            "slug",
            "state",
            "reason",
            "how",
            "preview",
            "rows",
            "bad",
            "bad_count",
            "taskset",
            "created_at",
            "ended_at",
        )

    @extend_schema(responses=ImportPreview)
    def get_preview(self, taskset_import: TasksetImport) -> dict[str, Any] | None:
        return None if taskset_import.preview is None else preview_import(taskset_import)


class ImportRow(ImportDocument):
    """An import in a list."""

    preview = None  # type: ignore[assignment]  # how REST framework leaves out an inherited field

    class Meta(ImportDocument.Meta):
        fields = tuple(
            name for name in ImportDocument.Meta.fields if name not in ("preview", "how", "bad")
        )


class ImportQuery(Paged):
    project = serializers.CharField(required=False, max_length=50)


def preview_import(taskset_import: TasksetImport) -> dict[str, Any]:
    how = ImportOptions.read(taskset_import.how)
    assert taskset_import.preview is not None  # the caller has looked
    preview = look_at_rows(taskset_import.preview, how)
    return {
        "layout": BY_NAME[how.layout].title if how.layout else "",
        "columns": list(preview.columns),
        "splits": taskset_import.preview.get("splits", []),
        "refusal": preview.refusal,
        "not_taken": dict(preview.dropped),
        "rows": [_row(row) for row in preview.rows],
    }


def _row(row: Any) -> dict[str, Any]:
    if isinstance(row, TaskRow):
        return {
            "line": row.line,
            "prompt": row.prompt,
            "answer": row.answer,
            "domain": row.domain,
            "reason": "",
        }
    return {"line": row.number, "prompt": None, "answer": None, "domain": "", "reason": row.reason}


def list_imports(request: ApiRequest) -> QuerySet[TasksetImport]:
    """Imports of projects that the asker runs."""
    return TasksetImport.objects.run_by(request.user).select_related("project", "taskset")


def _import(request: ApiRequest, pk: int) -> TasksetImport:
    """Return an import that the user may change.

    Raises Http404 for strangers, and PermissionDenied for people who may only look.
    """
    visible = TasksetImport.objects.filter(project__in=Project.objects.visible_to(request.user))
    taskset_import = get_object_or_404(visible.select_related("project", "taskset"), pk=pk)
    _require_run(request, taskset_import.project)
    return taskset_import


def _run_project(request: ApiRequest, slug: str) -> Project:
    """Return a project whose data the user may change.

    Raises ValidationError for strangers, and PermissionDenied for people who may only look.
    """
    project = Project.objects.visible_to(request.user).filter(slug=slug).first()
    if project is None:
        raise ValidationError({"project": [f"You have no project {slug!r}."]})
    _require_run(request, project)
    return project


def _require_run(request: ApiRequest, project: Project) -> None:
    """Refuse people who may not run the project. Raises PermissionDenied."""
    if not Project.objects.run_by(request.user).filter(pk=project.pk).exists():
        raise PermissionDenied("Only owners and researchers of the project can import tasks.")


def _wake_importer() -> None:
    transaction.on_commit(lambda: wakeups.send("import_tasksets"), robust=True)


@takes_body(MAX_BYTES + FORM_OVERHEAD)
class Imports(APIView):
    parser_classes = [MultiPartParser]

    def get_permissions(self) -> list[BasePermission]:
        return [MaySteer() if self.request.method == "POST" else MayRead()]

    @extend_schema(
        operation_id="imports_list", parameters=[ImportQuery], responses=page_serializer(ImportRow)
    )
    def get(self, request: ApiRequest) -> Response:
        """List the imports of your projects, the newest first."""
        query = ImportQuery.of(request)
        rows = list_imports(request).defer("preview")
        if "project" in query:
            rows = rows.filter(project__slug=query["project"])
        return Response(list_page(rows, query, ImportRow))

    @extend_schema(
        operation_id="imports_create",
        request={"multipart/form-data": SentFile},
        responses={201: ImportDocument},
    )
    def post(self, request: ApiRequest) -> Response:
        """Upload a file of tasks.

        A worker previews the file. Nothing is stored until you start the import.
        """
        form = SentFile(data=request.data)
        form.is_valid(raise_exception=True)
        file = form.validated_data["file"]
        if file.size > MAX_BYTES:
            raise ValidationError(
                {
                    "file": [
                        (
                            f"The file is {file.size / 1e6:.0f} MB; the limit is "
                            f"{MAX_BYTES / 1e6:.0f} MB."
                        )
                    ]
                }
            )
        project = _run_project(request, form.validated_data["project"])
        try:
            taskset_import = create_import(
                project, request.user, upload_name(file), file.size, file.chunks()
            )
        except TooManyHeld as error:
            raise NotNow(f"{error}.", RETRY_S) from None
        _wake_importer()
        return Response(ImportDocument(taskset_import).data, 201)


class OneImport(APIView):
    permission_classes = [MayRead]

    @extend_schema(operation_id="imports_show", responses=ImportDocument)
    def get(self, request: ApiRequest, pk: int) -> Response:
        """Return the state of an import and its first rows as tasks."""
        return Response(ImportDocument(_import(request, pk)).data)


class StartImport(APIView):
    permission_classes = [MaySteer]

    @extend_schema(
        operation_id="imports_start", request=ImportChoices, responses={200: ImportDocument}
    )
    def post(self, request: ApiRequest, pk: int) -> Response:
        """Start the import, as previewed or with the given options."""
        taskset_import = _import(request, pk)
        form = ImportChoices(data=request.data)
        form.is_valid(raise_exception=True)
        data = dict(form.validated_data)
        slug = data.pop("slug")
        changes: dict[str, Any] = {
            name: tuple(value) if name == "more_meta" else value for name, value in data.items()
        }
        how = replace(ImportOptions.read(taskset_import.how), **changes)
        self._require_possible(taskset_import, slug, how)
        try:
            taskset_import.start(slug, how.written(), request.user)
        except ImportOver as error:
            raise Conflict(f"Nothing was changed: {error}.") from None
        _wake_importer()
        return Response(ImportDocument(taskset_import).data)

    def _require_possible(
        self, taskset_import: TasksetImport, slug: str, how: ImportOptions
    ) -> None:
        """Refuse an import that cannot start now. Raises ValidationError, Conflict."""
        if taskset_import.preview is None:
            raise Conflict("A worker has not read the file yet; try again in a moment.")
        tasksets = taskset_import.project.tasksets
        if tasksets.filter(slug=slug).exists():
            raise ValidationError(
                {
                    "slug": [
                        (
                            f"A taskset {slug} already exists, and tasksets never change; choose "
                            "another name."
                        )
                    ]
                }
            )
        if how.version_of and not tasksets.filter(slug=how.version_of, grows=False).exists():
            raise ValidationError(
                {
                    "version_of": [
                        (
                            f"Taskset {how.version_of!r} does not exist, so it cannot get "
                            "a new version."
                        )
                    ]
                }
            )
        if how.operators:
            _require_operators(how.operators, taskset_import.project)


def _require_operators(text: str, project: Project) -> None:
    """Refuse unknown operators. Raises ValidationError."""
    try:
        operators_of_import(in_list(text), project)
    except ConfigError as error:
        raise ValidationError(
            {"operators": [f"{field}: {why}" for field, why in error.problems.items()]}
        ) from None


class StopImport(APIView):
    permission_classes = [MaySteer]

    @extend_schema(operation_id="imports_stop", request=None, responses={200: ImportDocument})
    def post(self, request: ApiRequest, pk: int) -> Response:
        """Cancel the import and delete the file. No tasks are stored."""
        taskset_import = _import(request, pk)
        try:
            taskset_import.stop(f"stopped by {request.user}", request.user)
        except ImportOver as error:
            raise Conflict(f"Nothing was changed: {error}.") from None
        return Response(ImportDocument(taskset_import).data)
