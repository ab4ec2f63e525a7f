"""Models over REST: list, show, add, follow, upload in pieces, delete."""

from typing import IO, Any, TypeVar, cast

from django.db import transaction
from django.db.models import Model, QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.exceptions import PermissionDenied, ValidationError
from rest_framework.parsers import BaseParser
from rest_framework.permissions import BasePermission
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.accounts.body_limits import takes_body
from apps.accounts.documents import MAX_ID, Choice, Strict, Text, Whole
from apps.accounts.listing import Paged, Query, list_page, page_serializer
from apps.accounts.models import Project
from apps.accounts.problems import Conflict
from apps.accounts.requests import ApiRequest
from apps.accounts.scopes import MayRead, MaySteer
from apps.policies.adding import (
    MAX_TITLE_LENGTH,
    OWN,
    NewModel,
    NotAddable,
    add_again,
    create_policy_import,
)
from apps.policies.chat_presets import PRESETS, TEMPLATE_LIMIT
from apps.policies.models import ImportOver, Policy, PolicyImport
from apps.policies.uploads import (
    MAX_FILES,
    PIECE_BYTES,
    BadUpload,
    WrongOffset,
    finish_upload,
    received,
    take_piece,
)
from apps.runs.model_use import ModelInUse, delete_model, why_not_deleted
from apps.streaming import wakeups

TEMPLATES = (*PRESETS, OWN)


class TemplateChoice(Strict):
    """A chat template: the model's own, one by name, or one that you write."""

    template = Choice(
        choices=TEMPLATES,
        required=False,
        allow_blank=True,
        default="",
        help_text="Name of a template, or `own` for `template_text`. Empty: the model's own.",
    )
    template_text = Text(
        max_length=TEMPLATE_LIMIT,
        required=False,
        allow_blank=True,
        default="",
        trim_whitespace=False,
        help_text="A Jinja chat template, for `own`.",
    )


class NewModelDocument(TemplateChoice):
    """A model to add."""

    project = Text(max_length=50, help_text="Slug of the project.")
    kind = Choice(choices=PolicyImport.Kind.choices)
    # A field of this name is a field: DRF takes it from the class, its `source` from instances.
    source = Text(  # type: ignore[assignment]
        max_length=300,
        required=False,
        allow_blank=True,
        default="",
        help_text="Hub ID, name of a built-in model, or path below RFTWEB_MODELS. Not of uploads.",
    )
    revision = Text(
        max_length=100,
        required=False,
        allow_blank=True,
        default="",
        help_text="Branch, tag or commit of the Hub. Empty: main.",
    )
    slug = Text(max_length=50, required=False, allow_blank=True, default="")
    title = Text(max_length=MAX_TITLE_LENGTH, required=False, allow_blank=True, default="")
    files = serializers.DictField(
        child=Whole(min_value=0, max_value=MAX_ID),
        required=False,
        default=dict,
        help_text=f"Of an upload: the bytes of each file, by name. At most {MAX_FILES} files.",
    )


class AgainDocument(TemplateChoice):
    """Changes to a failed import before it is retried."""

    slug = Text(max_length=50, required=False, allow_blank=True, default="")


class ModelRow(serializers.ModelSerializer[Policy]):
    """A model in a list."""

    project = serializers.SlugRelatedField[Project]("slug", read_only=True)

    class Meta:
        model = Policy
        fields: tuple[str, ...] = (
            "id",
            "project",
            "slug",
            "title",
            "licence",
            "architecture",
            "parameters",
            "context_tokens",
            "sees_pictures",
            "fingerprint",
            "created_at",
        )


class ModelDocument(ModelRow):
    """A model, and whether you can delete it."""

    source = serializers.SerializerMethodField()  # type: ignore[assignment]  # as above
    in_use = serializers.SerializerMethodField(
        help_text="Why it cannot be deleted; empty if it can."
    )

    class Meta(ModelRow.Meta):
        fields = (*ModelRow.Meta.fields, "source", "in_use")

    def get_source(self, policy: Policy) -> str:
        return policy.shown_source

    def get_in_use(self, policy: Policy) -> str:
        return why_not_deleted(policy)


class ModelImportRow(serializers.ModelSerializer[PolicyImport]):
    """An import of a model in a list."""

    project = serializers.SlugRelatedField[Project]("slug", read_only=True)
    model = serializers.IntegerField(
        source="policy_id", read_only=True, allow_null=True, help_text="ID of the added model."
    )

    class Meta:
        model = PolicyImport
        fields: tuple[str, ...] = (
            "id",
            "project",
            "kind",
            "source",
            "revision",
            "slug",
            "title",
            "state",
            "stage",
            "done",
            "total",
            "reason",
            "model",
            "created_at",
            "ended_at",
        )


class ModelImportDocument(ModelImportRow):
    """An import of a model: its state, its progress, and notes about the model."""

    notes = serializers.ListField(child=serializers.CharField())
    received = serializers.SerializerMethodField(
        help_text="Of an upload: the bytes of each file that have arrived."
    )

    class Meta(ModelImportRow.Meta):
        fields = (*ModelImportRow.Meta.fields, "notes", "received")

    def get_received(self, policy_import: PolicyImport) -> dict[str, int]:
        return received(policy_import)


class ReceivedPiece(serializers.Serializer[Any]):
    """How much of a file has arrived."""

    received = serializers.IntegerField(help_text="Bytes; the next piece begins there.")


class PieceQuery(Query):
    offset = serializers.IntegerField(
        min_value=0, max_value=MAX_ID, help_text="Byte of the file at which the piece begins."
    )


class ModelQuery(Paged):
    project = serializers.CharField(required=False, max_length=50)


class Bytes(BaseParser):
    """A body of bytes, as it is."""

    media_type = "application/octet-stream"

    # DRF's types know parsers of forms and of JSON only.
    def parse(  # type: ignore[override]
        self, stream: IO[Any], media_type: str | None = None, parser_context: Any = None
    ) -> bytes:
        return bytes(stream.read())


def _wake_worker() -> None:
    """Wake a worker now; the regular job would begin within seconds."""
    transaction.on_commit(lambda: wakeups.send("import_models"), robust=True)


def _require_run(request: ApiRequest, project: Project) -> None:
    """Raise PermissionDenied for somebody who may only look."""
    if not Project.objects.run_by(request.user).filter(pk=project.pk).exists():
        raise PermissionDenied("Only owners and researchers of the project can change its models.")


def _project(request: ApiRequest, slug: str) -> Project:
    """Raise ValidationError for a stranger, PermissionDenied for somebody who may only look."""
    project = Project.objects.visible_to(request.user).filter(slug=slug).first()
    if project is None:
        raise ValidationError({"project": [f"You have no project {slug!r}."]})
    _require_run(request, project)
    return project


def _import(request: ApiRequest, pk: int) -> PolicyImport:
    """Raise Http404 for a stranger, PermissionDenied for somebody who may only look."""
    visible_imports = PolicyImport.objects.visible_to(request.user).select_related("project")
    policy_import: PolicyImport = get_object_or_404(visible_imports, pk=pk)
    _require_run(request, policy_import.project)
    return policy_import


M = TypeVar("M", bound=Model)


def _of_project(rows: QuerySet[M], query: dict[str, Any]) -> QuerySet[M]:
    return rows.filter(project__slug=query["project"]) if "project" in query else rows


def _refusal(error: NotAddable) -> ValidationError:
    return ValidationError({name: [why] for name, why in error.problems.items()})


class Models(APIView):
    def get_permissions(self) -> list[BasePermission]:
        return [MaySteer() if self.request.method == "POST" else MayRead()]

    @extend_schema(
        operation_id="models_list", parameters=[ModelQuery], responses=page_serializer(ModelRow)
    )
    def get(self, request: ApiRequest) -> Response:
        """List the models of your projects, the newest first."""
        query = ModelQuery.of(request)
        rows = Policy.objects.visible_to(request.user).select_related("project")
        return Response(list_page(_of_project(rows, query), query, ModelRow))

    @extend_schema(
        operation_id="models_add",
        request=NewModelDocument,
        responses={201: ModelImportDocument},
    )
    def post(self, request: ApiRequest) -> Response:
        """Add a model. A worker adds it; the response is the import to follow.

        For an upload, next send the files in parts, then start the import.
        """
        form = NewModelDocument(data=request.data)
        form.is_valid(raise_exception=True)
        data = dict(form.validated_data)
        project = _project(request, data.pop("project"))
        try:
            policy_import = create_policy_import(project, request.user, NewModel(**data))
        except NotAddable as error:
            raise _refusal(error) from None
        _wake_worker()
        return Response(ModelImportDocument(policy_import).data, 201)


class OneModel(APIView):
    def get_permissions(self) -> list[BasePermission]:
        return [MaySteer() if self.request.method == "DELETE" else MayRead()]

    @extend_schema(operation_id="models_show", responses=ModelDocument)
    def get(self, request: ApiRequest, pk: int) -> Response:
        """Return a model, and whether you can delete it."""
        visible_models = Policy.objects.visible_to(request.user).select_related("project")
        return Response(ModelDocument(get_object_or_404(visible_models, pk=pk)).data)

    @extend_schema(operation_id="models_delete", responses={204: None})
    def delete(self, request: ApiRequest, pk: int) -> Response:
        """Delete a model that no run uses. A worker removes its files."""
        visible_models = Policy.objects.visible_to(request.user).select_related("project")
        policy = get_object_or_404(visible_models, pk=pk)
        _require_run(request, policy.project)
        try:
            delete_model(policy, request.user)
        except ModelInUse as error:
            raise Conflict(str(error)) from None
        _wake_worker()
        return Response(status=204)


class ModelImports(APIView):
    permission_classes = [MayRead]

    @extend_schema(
        operation_id="model_imports_list",
        parameters=[ModelQuery],
        responses=page_serializer(ModelImportRow),
    )
    def get(self, request: ApiRequest) -> Response:
        """List the model imports of the projects that you run, the newest first."""
        query = ModelQuery.of(request)
        rows = PolicyImport.objects.run_by(request.user).select_related("project")
        return Response(list_page(_of_project(rows, query), query, ModelImportRow))


class OneModelImport(APIView):
    permission_classes = [MayRead]

    @extend_schema(operation_id="model_imports_show", responses=ModelImportDocument)
    def get(self, request: ApiRequest, pk: int) -> Response:
        """Return the state and the progress of a model import."""
        return Response(ModelImportDocument(_import(request, pk)).data)


class StopModelImport(APIView):
    permission_classes = [MaySteer]

    @extend_schema(
        operation_id="model_imports_stop", request=None, responses={200: ModelImportDocument}
    )
    def post(self, request: ApiRequest, pk: int) -> Response:
        """Cancel the import. Nothing of the model is kept."""
        policy_import = _import(request, pk)
        try:
            policy_import.stop(f"stopped by {request.user}", request.user)
        except ImportOver as error:
            raise Conflict(f"Nothing was changed: {error}.") from None
        return Response(ModelImportDocument(policy_import).data)


class ModelImportAgain(APIView):
    permission_classes = [MaySteer]

    @extend_schema(
        operation_id="model_imports_again",
        request=AgainDocument,
        responses={200: ModelImportDocument},
    )
    def post(self, request: ApiRequest, pk: int) -> Response:
        """Retry a failed import, with another name or another chat template."""
        policy_import = _import(request, pk)
        form = AgainDocument(data=request.data)
        form.is_valid(raise_exception=True)
        data = form.validated_data
        if policy_import.state != PolicyImport.State.FAILED:
            raise Conflict(f"Nothing was changed: it is {policy_import.get_state_display()}.")
        try:
            add_again(
                policy_import,
                data["slug"] or policy_import.slug,
                data["template"],
                data["template_text"],
            )
        except NotAddable as error:
            raise _refusal(error) from None
        _wake_worker()
        return Response(ModelImportDocument(policy_import).data)


@takes_body(PIECE_BYTES)
class ModelFile(APIView):
    permission_classes = [MaySteer]
    parser_classes = [Bytes]

    @extend_schema(
        operation_id="model_imports_upload",
        parameters=[PieceQuery],
        request={"application/octet-stream": OpenApiTypes.BINARY},
        responses={200: ReceivedPiece},
    )
    def put(self, request: ApiRequest, pk: int, name: str) -> Response:
        """Upload a part of a file, of at most 8 MiB.

        A part must begin where the file ends so far. Sending a part again changes nothing.
        """
        policy_import = _import(request, pk)
        offset = PieceQuery.of(request)["offset"]
        piece = cast("bytes", request.data)  # what Bytes parsed
        try:
            return Response({"received": take_piece(policy_import, name, offset, piece)})
        except WrongOffset as error:
            raise Conflict(str(error)) from None
        except BadUpload as error:
            raise ValidationError({"file": [str(error)]}) from None
        except ImportOver as error:
            raise Conflict(f"Nothing was changed: {error}.") from None
        except OSError as error:
            raise Conflict(f"The piece could not be stored: {error.strerror}.") from None


class StartModelImport(APIView):
    permission_classes = [MaySteer]

    @extend_schema(
        operation_id="model_imports_start", request=None, responses={200: ModelImportDocument}
    )
    def post(self, request: ApiRequest, pk: int) -> Response:
        """Add the model whose files are uploaded."""
        policy_import = _import(request, pk)
        try:
            finish_upload(policy_import)
        except BadUpload as error:
            raise ValidationError({"files": [str(error)]}) from None
        except ImportOver as error:
            raise Conflict(f"Nothing was changed: {error}.") from None
        _wake_worker()
        return Response(ModelImportDocument(policy_import).data)
