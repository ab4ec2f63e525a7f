"""Adding a model: where it comes from, its chat template, and how far a worker is with it."""

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from apps.accounts.models import Project
from apps.accounts.requests import SignedInRequest
from apps.policies.adding import (
    MAX_SLUG_LENGTH,
    MAX_TITLE_LENGTH,
    OWN,
    NewModel,
    NotAddable,
    add_again,
)
from apps.policies.adding import create_policy_import as add_model
from apps.policies.chat_presets import PRESETS, TEMPLATE_LIMIT
from apps.policies.models import ImportOver, PolicyImport
from apps.policies.named_models import CATALOGUE
from apps.policies.server_models import listed_models
from apps.policies.uploads import HOURS, MAX_BYTES, PIECE_BYTES, received
from apps.streaming import wakeups

Kind = PolicyImport.Kind
NEEDS_SCRIPT = "Uploads need JavaScript. Turn it on, or use the REST API."
MAY_NOT = "Only owners and researchers of a project can add models to it."
KINDS = (
    (Kind.HUB, "Hugging Face Hub", "A worker downloads it by its ID."),
    (Kind.NAMED, "Built-in model", "A small model that runs on any machine, to try rftweb."),
    (Kind.UPLOAD, "Upload", "A GGUF file, or safetensors with configuration and tokenizer."),
    (Kind.SERVER, "On the server", "A folder or a GGUF file in the server’s model folder."),
)


class TemplateForm(forms.Form):
    """The chat template of a model, and its name."""

    slug = forms.CharField(max_length=MAX_SLUG_LENGTH, required=False)
    template = forms.ChoiceField(
        required=False, choices=[(name, name) for name in ("", *PRESETS, OWN)]
    )
    template_text = forms.CharField(max_length=TEMPLATE_LIMIT, required=False, strip=False)

    def clean_template_text(self) -> str:
        return self.cleaned_data["template_text"].replace("\r\n", "\n")

    def take(self, refusal: NotAddable) -> None:
        """Show each problem at its field; of a field that the form lacks, above the form."""
        for name, why in refusal.problems.items():
            self.add_error(self.place_of(name), why)

    def place_of(self, name: str) -> str | None:
        """Return the form's field for a field of the request."""
        return name if name in self.fields else None


class AddForm(TemplateForm):
    """Where a model comes from, in which project, and under which title."""

    project = forms.SlugField(max_length=50)
    kind = forms.ChoiceField(choices=Kind.choices)
    title = forms.CharField(max_length=MAX_TITLE_LENGTH, required=False)
    hub = forms.CharField(max_length=300, required=False)
    revision = forms.CharField(max_length=100, required=False)
    named = forms.CharField(max_length=300, required=False)
    server = forms.CharField(max_length=300, required=False)
    # Declared fields are taken out of the class: a form's own `files` stays what it is.
    files = forms.Field(required=False)  # type: ignore[assignment]

    def place_of(self, name: str) -> str | None:
        if name == "source" and self.cleaned_data.get("kind") in self.fields:
            return self.cleaned_data["kind"]
        return super().place_of(name)

    @property
    def new_model(self) -> NewModel:
        """Return the model to import, as posted."""
        data = self.cleaned_data
        kind = data["kind"]
        return NewModel(
            kind=kind,
            source=data.get(kind, ""),
            revision=data["revision"] if kind == Kind.HUB else "",
            title=data["title"],
            slug=data["slug"],
            template=data["template"],
            template_text=data["template_text"],
        )


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def show_add_model(request: SignedInRequest) -> HttpResponse:
    """Owners and researchers of any project: add a model to it."""
    projects = list(Project.objects.run_by(request.user).current().distinct().order_by("title"))
    if not projects:
        raise PermissionDenied(MAY_NOT)
    form = (
        AddForm(request.POST)
        if request.method == "POST"
        else AddForm(initial=_initial_values(request))
    )
    if request.method == "POST" and form.is_valid():
        model_import = _add_policy_import(request, form, projects)
        if model_import is not None:
            return redirect("model-import", model_import.pk)
    context = {
        "section": "weights",
        "form": form,
        "projects": projects,
        "kinds": KINDS,
        "presets": list(PRESETS),
        "named": CATALOGUE.values(),
        "listed": listed_models(),
        "piece_bytes": PIECE_BYTES,
        "max_bytes": MAX_BYTES,
    }
    status = 422 if form.errors else 200
    return render(request, "dashboard/model_add.html", context, status=status)


def _initial_values(request: SignedInRequest) -> dict[str, str]:
    """Return the first values of the form; the address may name the project."""
    catalogue_name = next(iter(CATALOGUE))
    return {
        "kind": Kind.HUB,
        "named": catalogue_name,
        "project": request.GET.get("project", "")[:50],
    }


def _add_policy_import(
    request: SignedInRequest, form: AddForm, projects: list[Project]
) -> PolicyImport | None:
    """Return the new import; None if the form says why there is none."""
    project = next(
        (candidate for candidate in projects if candidate.slug == form.cleaned_data["project"]),
        None,
    )
    if project is None:
        form.add_error("project", "Choose one of your projects.")
        return None
    if form.cleaned_data["kind"] == Kind.UPLOAD:
        form.add_error("files", NEEDS_SCRIPT)
        return None
    try:
        model_import = add_model(project, request.user, form.new_model)
    except NotAddable as refusal:
        form.take(refusal)
        return None
    _wake_worker()
    return model_import


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def show_model_import(request: SignedInRequest, pk: int) -> HttpResponse:
    """Owners and researchers of the project: follow an import, or try a failed one again."""
    model_import = _import(request, pk)
    form = (
        TemplateForm(request.POST)
        if request.method == "POST"
        else TemplateForm(_form_values(model_import))
    )
    if request.method == "POST" and form.is_valid():
        data = form.cleaned_data
        try:
            add_again(model_import, data["slug"], data["template"], data["template_text"])
        except NotAddable as refusal:
            form.take(refusal)
        else:
            _wake_worker()
            return redirect("model-import", model_import.pk)
    context = {
        "section": "weights",
        "model_import": model_import,
        "form": form,
        "presets": list(PRESETS),
        "files": _files(model_import),
        "hours": HOURS,
        "piece_bytes": PIECE_BYTES,
    }
    status = 422 if form.errors else 200
    return render(request, "dashboard/model_import.html", context, status=status)


@require_safe
@login_required
def show_model_import_progress(request: SignedInRequest, pk: int) -> HttpResponse:
    """Owners and researchers of the project: the polled part of the page.

    When the import ends, the browser goes to the model, or to the page with its form.
    """
    model_import = _import(request, pk)
    answer = render(request, "dashboard/_model_import_now.html", {"model_import": model_import})
    if not model_import.is_open:
        answer["HX-Redirect"] = _place(model_import)
    return answer


@require_POST
@login_required
def cancel_model_import(request: SignedInRequest, pk: int) -> HttpResponse:
    """Owners and researchers of the project: give the import up; nothing of it is kept."""
    model_import = _import(request, pk)
    try:
        model_import.stop(f"stopped by {request.user}", request.user)
    except ImportOver as error:
        messages.error(request, f"The import was not stopped: {error}.")
        return redirect("model-import", model_import.pk)
    messages.success(request, f"The import of {model_import.slug} is stopped. Nothing was stored.")
    return redirect("policies")


def _place(model_import: PolicyImport) -> str:
    """Return the address that shows the outcome of an import."""
    if model_import.policy is None:
        return reverse("model-import", args=[model_import.pk])
    return reverse("policy", args=[model_import.policy.project.slug, model_import.policy.slug])


def _form_values(model_import: PolicyImport) -> dict[str, str]:
    """Return the form's values of the import."""
    template = OWN if model_import.template_text else model_import.template
    return {
        "slug": model_import.slug,
        "template": template,
        "template_text": model_import.template_text,
    }


def _files(model_import: PolicyImport) -> list[tuple[str, int, int]]:
    """Return name, size and received bytes of each file of an upload."""
    received_bytes = received(model_import)
    return [(name, size, received_bytes[name]) for name, size in sorted(model_import.files.items())]


def _import(request: SignedInRequest, pk: int) -> PolicyImport:
    """Return the import. Raise Http404 for a stranger, PermissionDenied for a viewer."""
    visible_imports = PolicyImport.objects.visible_to(request.user)
    model_import = get_object_or_404(
        visible_imports.select_related("project", "by", "policy__project"), pk=pk
    )
    if not Project.objects.run_by(request.user).filter(pk=model_import.project_id).exists():
        raise PermissionDenied(MAY_NOT)
    return model_import


def _wake_worker() -> None:
    """Wake a worker now; the regular job would begin within seconds."""
    transaction.on_commit(lambda: wakeups.send("import_models"), robust=True)
