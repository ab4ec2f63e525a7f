"""Import of tasks: upload a file, map its columns in a preview, and let a worker read it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.core.files.uploadedfile import UploadedFile
from django.db import transaction
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from apps.accounts.body_limits import FORM_OVERHEAD, takes_body
from apps.accounts.models import Project
from apps.accounts.requests import SignedInRequest
from apps.dashboard.form_actions import posted_action
from apps.dashboard.form_fields import choice_field
from apps.dashboard.paging import load_page
from apps.pipelines.applying import OperatorFailed
from apps.pipelines.checking import in_list, operators_of_import
from apps.pipelines.tasks import row_sieve
from apps.runs.config import ConfigError
from apps.streaming import wakeups
from apps.tasksets.column_choice import MAX_COLUMN_LENGTH, ImportOptions, RowPreview, look_at_rows
from apps.tasksets.duplicates import CHOICES
from apps.tasksets.import_files import TooManyHeld, ask_hub, create_import
from apps.tasksets.layouts import TASKS, layouts_for
from apps.tasksets.models import ImportOver, TasksetImport
from apps.tasksets.rows import TaskRow
from apps.tasksets.sources import FORMATS
from apps.tasksets.sources.hub import NAME
from apps.tasksets.sources.names import ALL_SUFFIXES
from apps.tasksets.uploads import upload_name

MAX_BYTES = 1000 * 1000 * 1000
IMPORTS_SHOWN = 20
MAX_OPERATORS_LENGTH = 20_000  # characters of the operators' YAML
BY_LAYOUT = ("prompt", "answer")  # columns that a known layout determines
COLUMNS = ("prompt", "answer", "domain", "follow_ups", "meta")
WORDS = {
    "prompt": ("Prompt", "text, or chat messages that end with one from the user", ""),
    "answer": ("Answer", "what scorers compare replies with", "it has none"),
    "domain": ("Domain", "the subject of the task; scorers can be limited to domains", "none"),
    "follow_ups": ("Follow-ups", "a list with the user’s next message after each reply", "none"),
    "meta": ("Meta", "an object with further facts about the task", "none"),
}
# The fields under "More options", each with the value that needs no attention.
MORE_OPTIONS = {
    "format": "auto",
    "domain": "",
    "follow_ups": "",
    "meta": "",
    "more_meta": (),
    "answer_key": "value",
    "duplicates": "keep",
    "operators": "",
}
LAYOUTS = layouts_for(TASKS)
DUPLICATES = {
    "keep": "keep them",
    "drop": "skip and list them",
    "refuse": "reject the file",
}


class Upload(forms.Form):
    """A file of tasks."""

    file = forms.FileField(
        error_messages={"required": "Choose a file.", "empty": "The file is empty."}
    )

    def clean_file(self) -> UploadedFile:
        file = self.cleaned_data["file"]
        if file.size > MAX_BYTES:
            raise forms.ValidationError(
                f"The file has {file.size / 1e6:.0f} MB; the maximum on this page is"
                f" {MAX_BYTES / 1e6:.0f} MB. For larger files, use manage.py taskset import."
            )
        return file


class FromHub(forms.Form):
    """A data set of the Hugging Face Hub."""

    name = forms.RegexField(
        NAME,
        max_length=120,
        error_messages={
            "required": "Enter a name.",
            "invalid": "Enter the dataset’s ID: owner/name, or name.",
        },
    )
    config = forms.CharField(max_length=60, required=False)
    split = forms.CharField(max_length=60, required=False)


def followed(importing: TasksetImport) -> list[str]:
    """Return the tasksets that the file may be a new version of."""
    return list(
        importing.project.tasksets.filter(grows=False)
        .order_by("slug")
        .values_list("slug", flat=True)
    )


class Choices(forms.Form):
    """The name of the taskset, and how the file is read.

    The fields are those of `apps.tasksets.column_choice.ImportOptions`.
    """

    slug = forms.SlugField(
        max_length=50,
        error_messages={
            "invalid": "Use only letters, digits, - and _.",
            "required": "Enter a name.",
        },
    )
    format = forms.ChoiceField(choices=[(format, format) for format in FORMATS])
    split = forms.ChoiceField(
        required=False, error_messages={"invalid_choice": "The dataset has no such split."}
    )
    layout = forms.ChoiceField(
        required=False,
        choices=[("", "the columns below"), *((layout.name, layout.title) for layout in LAYOUTS)],
    )
    prompt = forms.CharField(
        max_length=MAX_COLUMN_LENGTH, strip=False, error_messages={"required": "Choose a column."}
    )
    answer = forms.CharField(max_length=MAX_COLUMN_LENGTH, strip=False, required=False)
    domain = forms.CharField(max_length=MAX_COLUMN_LENGTH, strip=False, required=False)
    follow_ups = forms.CharField(max_length=MAX_COLUMN_LENGTH, strip=False, required=False)
    meta = forms.CharField(max_length=MAX_COLUMN_LENGTH, strip=False, required=False)
    answer_key = forms.CharField(
        max_length=60,
        error_messages={"required": "Enter the key that scorers read, usually “value”."},
    )
    quarantine = forms.BooleanField(required=False)
    duplicates = forms.ChoiceField(choices=[(choice, choice) for choice in CHOICES])
    operators = forms.CharField(max_length=MAX_OPERATORS_LENGTH, strip=False, required=False)
    version_of = forms.ChoiceField(
        required=False, error_messages={"invalid_choice": "The project has no such taskset."}
    )

    def __init__(self, importing: TasksetImport, *form_args: Any) -> None:
        super().__init__(*form_args)
        self.importing = importing
        self.splits = (importing.preview or {}).get("splits", [])
        choice_field(self, "split").choices = [(name, name) for name in ("", *self.splits)]
        choice_field(self, "version_of").choices = [
            ("", ""),
            *((slug, slug) for slug in followed(importing)),
        ]

    def clean_slug(self) -> str:
        slug = self.cleaned_data["slug"]
        taken_slugs = set(
            self.importing.project.tasksets.filter(slug__startswith=slug[:40]).values_list(
                "slug", flat=True
            )
        )
        if slug in taken_slugs:
            free = next(
                name for number in count(2) if (name := f"{slug[:40]}-{number}") not in taken_slugs
            )
            raise forms.ValidationError(
                f"A taskset {slug} already exists, and tasksets never change; choose another name, "
                f"such as {free}, or select below which taskset this is a new version of."
            )
        return slug

    def clean_operators(self) -> str:
        text = self.cleaned_data["operators"].replace("\r\n", "\n")
        try:
            operators_of_import(in_list(text), self.importing.project)
        except ConfigError as error:
            raise forms.ValidationError(
                [f"{field}: {why}" for field, why in error.problems.items()]
            ) from None
        return text

    def how(self, more_meta: tuple[str, ...]) -> ImportOptions:
        options = {name: value for name, value in self.cleaned_data.items() if name != "slug"}
        return ImportOptions(**options, more_meta=more_meta)


@takes_body(MAX_BYTES + FORM_OVERHEAD)
@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def show_imports(request: SignedInRequest, project: str) -> HttpResponse:
    """Owners and researchers of the project: its imports, and uploading another file."""
    managed_project = _require_managed(
        request, get_object_or_404(Project.objects.visible_to(request.user), slug=project)
    )
    form = Upload(*((request.POST, request.FILES) if request.method == "POST" else ()))
    if request.method == "POST" and form.is_valid():
        try:
            taskset_import = _create_import(request, managed_project, form.cleaned_data["file"])
            _wake_importer()
            return redirect("taskset-import", taskset_import.pk)
        except TooManyHeld as error:
            form.add_error("file", f"{error}.")
        except OSError as error:
            form.add_error("file", f"The file could not be kept: {error.strerror}.")
    return _sending(request, managed_project, form, FromHub())


@require_POST
@login_required
def hub(request: SignedInRequest, project: str) -> HttpResponse:
    """Owners and researchers of the project: fetch a data set of the Hub."""
    managed_project = _require_managed(
        request, get_object_or_404(Project.objects.visible_to(request.user), slug=project)
    )
    form = FromHub(request.POST)
    if form.is_valid():
        try:
            hub_import = ask_hub(managed_project, request.user, **form.cleaned_data)
            _wake_importer()
            return redirect("taskset-import", hub_import.pk)
        except TooManyHeld as error:
            form.add_error("name", f"{error}.")
    return _sending(request, managed_project, Upload(), form)


def _wake_importer() -> None:
    """Wake a worker to import now; beat would do so within seconds."""
    transaction.on_commit(lambda: wakeups.send("import_tasksets"), robust=True)


def _sending(
    request: SignedInRequest, project: Project, form: Upload, hub: FromHub
) -> HttpResponse:
    page = load_page(
        project.taskset_imports.select_related("by", "taskset__project"),
        request,
        size=IMPORTS_SHOWN,
    )
    suffixes = ",".join(ALL_SUFFIXES)
    context = {
        "section": "tasksets",
        "project": project,
        "form": form,
        "hub": hub,
        "page": page,
        "suffixes": suffixes,
    }
    return render(
        request,
        "dashboard/taskset_imports.html",
        context,
        status=422 if form.errors or hub.errors else 200,
    )


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def show_import(request: SignedInRequest, pk: int) -> HttpResponse:
    """Owners and researchers of the project: choose how the file is read, import it, follow it.

    `act=look` makes a new preview.
    """
    taskset_import = _import(request, pk)
    if taskset_import.state != TasksetImport.State.LOOKED_AT or taskset_import.preview is None:
        return render(
            request,
            "dashboard/taskset_import.html",
            {"section": "tasksets", "taskset_import": taskset_import},
        )
    how = ImportOptions.read(taskset_import.how)
    form = Choices(taskset_import)
    if request.method == "POST":
        form = Choices(taskset_import, request.POST)
        if form.is_valid():
            return _save_choices(request, taskset_import, form, how)
        options = {name: value for name, value in form.cleaned_data.items() if name != "slug"}
        how = replace(how, **options, more_meta=_more_meta(request, taskset_import))
    preview = look_at_rows(taskset_import.preview, how)
    left_out, broken = _left_out(taskset_import, how, preview)
    context = {
        "section": "tasksets",
        "taskset_import": taskset_import,
        "form": form,
        "how": how,
        "seen": preview,
        "rows": _rows(preview, left_out),
        "left_out": len(left_out),
        "broken": broken,
        "operators": request.POST.get("operators", how.operators),
        "slug": request.POST.get("slug", taskset_import.slug),
        "columns": _columns(form, how, preview),
        "is_more_open": _is_more_open(form, how),
        "by_layout": BY_LAYOUT if how.layout else (),
        "duplicates": DUPLICATES.items(),
        "formats": FORMATS,
        "followed": followed(taskset_import),
        "others": [
            (name, name in how.more_meta)
            for name in preview.columns
            if name not in (how.prompt, how.answer, how.meta)
        ],
    }
    return render(
        request, "dashboard/taskset_look.html", context, status=422 if form.errors else 200
    )


@require_safe
@login_required
def show_import_progress(request: SignedInRequest, pk: int) -> HttpResponse:
    """Owners and researchers of the project: the polled part of the page.

    Once the preview is there, the whole page is fetched, because it has the form then.
    """
    taskset_import = _import(request, pk)
    answer = render(
        request, "dashboard/_taskset_import_now.html", {"taskset_import": taskset_import}
    )
    if taskset_import.state == TasksetImport.State.LOOKED_AT and taskset_import.preview is not None:
        answer["HX-Redirect"] = reverse("taskset-import", args=[pk])
    return answer


@require_POST
@login_required
def cancel_import(request: SignedInRequest, pk: int) -> HttpResponse:
    """Owners and researchers of the project: cancel the import and delete the file."""
    taskset_import = _import(request, pk)
    try:
        taskset_import.stop(f"stopped by {request.user}", request.user)
    except ImportOver as error:
        messages.error(request, f"The import was not stopped: {error}.")
    return redirect("taskset-import", taskset_import.pk)


def _require_managed(request: SignedInRequest, project: Project) -> Project:
    """Return the project if the user may run it. Raise PermissionDenied for a viewer."""
    if not Project.objects.run_by(request.user).filter(pk=project.pk).exists():
        raise PermissionDenied("Only owners and researchers of this project can import tasksets.")
    return project


def _import(request: SignedInRequest, pk: int) -> TasksetImport:
    visible_imports = TasksetImport.objects.filter(
        project__in=Project.objects.visible_to(request.user)
    )
    taskset_import = get_object_or_404(
        visible_imports.select_related("project", "by", "taskset__project"), pk=pk
    )
    _require_managed(request, taskset_import.project)
    return taskset_import


def _create_import(request: SignedInRequest, project: Project, file: UploadedFile) -> TasksetImport:
    assert file.size is not None  # it has arrived
    return create_import(project, request.user, upload_name(file), file.size, file.chunks())


def _save_choices(
    request: SignedInRequest, taskset_import: TasksetImport, form: Choices, before: ImportOptions
) -> HttpResponse:
    """Save the choices, and start the import if requested.

    A file that is read differently needs a new preview.
    """
    action = posted_action(request, ("look", "import"))
    slug = form.cleaned_data["slug"]
    how = form.how(_more_meta(request, taskset_import))
    is_other = (how.format, how.split) != (before.format, before.split)
    try:
        if action == "import" and not is_other:
            taskset_import.start(slug, how.written(), request.user)
            _wake_importer()
        else:
            taskset_import.draft(slug, how.written())
        if is_other:
            taskset_import.ask_preview(how.written())
            _wake_importer()
    except ImportOver as error:
        messages.error(request, f"Nothing was changed: {error}.")
    return redirect("taskset-import", taskset_import.pk)


def _more_meta(request: SignedInRequest, taskset_import: TasksetImport) -> tuple[str, ...]:
    """Return the ticked columns that the file has."""
    ticked = set(request.POST.getlist("more_meta"))
    return tuple(
        name for name in (taskset_import.preview or {}).get("columns", []) if name in ticked
    )


@dataclass(frozen=True)
class ColumnField:
    """A choice of the file's columns; `empty` says what no choice means, "": there is none."""

    name: str
    title: str
    why: str
    empty: str
    chosen: str
    choices: list[str]
    errors: Sequence[str]

    @property
    def is_optional(self) -> bool:
        return self.name not in BY_LAYOUT


def _columns(form: Choices, how: ImportOptions, preview: RowPreview) -> list[ColumnField]:
    """Return the form fields that choose columns."""
    fields = []
    for name in COLUMNS:
        chosen = getattr(how, name)
        choices = dict.fromkeys([*preview.columns, *filter(None, [chosen])])
        errors = [str(error) for error in form.errors.get(name, ())]
        fields.append(ColumnField(name, *WORDS[name], chosen, list(choices), errors))
    return fields


def _is_more_open(form: Choices, how: ImportOptions) -> bool:
    """Tell whether a field under "More options" has an error or not its usual value."""
    return any(
        name in form.errors or getattr(how, name) != usual for name, usual in MORE_OPTIONS.items()
    )


def _rows(preview: RowPreview, left_out: Mapping[int, str]) -> list[tuple]:
    """Return (line, task or None, bad line or None, why it is left out) of the first rows."""
    return [
        (
            (row.line, row, None, left_out.get(row.line, ""))
            if isinstance(row, TaskRow)
            else (row.number, None, row, "")
        )
        for row in preview.rows
    ]


def _left_out(
    taskset_import: TasksetImport, how: ImportOptions, preview: RowPreview
) -> tuple[Mapping[int, str], str]:
    """Return the lines that operators leave out of the first rows with reasons, and an error."""
    tasks = [row for row in preview.rows if isinstance(row, TaskRow)]
    try:
        pipeline = operators_of_import(in_list(how.operators), taskset_import.project)
        return row_sieve(pipeline, taskset_import.project)(tasks), ""
    except (ConfigError, OperatorFailed) as failure:
        return {}, str(failure)
