"""Actions on a weight version: pin, promote to a policy, branch a run, export or push."""

from pathlib import Path

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db import transaction
from django.http import Http404, HttpResponse, HttpResponseBase, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST, require_safe

from apps.accounts.downloads import stream_download
from apps.accounts.models import AuditEntry
from apps.accounts.requests import SignedInRequest
from apps.dashboard.access import steered_run
from apps.dashboard.version_line import read_version_content
from apps.dashboard.views.weights import get_version, version_context
from apps.policies.as_gguf import KINDS
from apps.policies.exporting import adapter_zipped, zipped
from apps.policies.manifest import read_manifest
from apps.runs.config import ConfigError
from apps.runs.hub_names import OWNER_NAME, REPOSITORY, TOKEN
from apps.runs.model_card import version_folder_name
from apps.runs.models import ExportJob, NotPossible, Run, WeightVersion
from apps.runs.models.orders import ADAPTER, FOLDER, FORM_TITLES
from apps.runs.promoting import plan_of_branch, why_no_branch
from apps.runs.weight_downloads import why_not_gguf

MAX_STEPS = 10_000_000
TOKEN_WORDS = "Use only letters, digits, - and _."
WORDS = {"required": "Enter a name.", "invalid": "Use only letters, digits, - and _."}


class Promotion(forms.Form):
    """The name of the new policy."""

    slug = forms.SlugField(max_length=50, error_messages=WORDS)
    title = forms.CharField(max_length=200, required=False)

    def __init__(self, data: QueryDict | None, version: WeightVersion) -> None:
        super().__init__(data)
        self.version = version

    def clean_slug(self) -> str:
        slug = self.cleaned_data["slug"]
        if self.version.run.project.policies.filter(slug=slug).exists():
            raise forms.ValidationError(
                f"The project already has a policy {slug}. Choose another name."
            )
        return slug

    def clean(self) -> dict:
        super().clean()
        data = self.cleaned_data
        return {
            **data,
            "title": (
                data.get("title")
                or f"{self.version.run.title}, version {self.version.version}"[:200]
            ),
        }


class Branching(forms.Form):
    """The name of the new run."""

    slug = forms.SlugField(max_length=50, error_messages=WORDS)
    title = forms.CharField(max_length=200, required=False)
    steps = forms.IntegerField(
        min_value=1, max_value=MAX_STEPS, error_messages={"required": "Enter the number of steps."}
    )
    start = forms.BooleanField(required=False)
    stop_parent = forms.BooleanField(required=False)
    name = forms.CharField(max_length=50, required=False)

    def __init__(self, data: QueryDict | None, version: WeightVersion) -> None:
        super().__init__(data)
        self.version = version

    def clean_slug(self) -> str:
        slug = self.cleaned_data["slug"]
        if Run.objects.filter(project=self.version.run.project_id, slug=slug).exists():
            raise forms.ValidationError(f"A run {slug} already exists. Choose another name.")
        return slug

    def clean(self) -> dict:
        super().clean()
        data = self.cleaned_data
        run = self.version.run
        if why := why_no_branch(run):
            raise forms.ValidationError(f"You can’t branch {run.slug}: {why}.")
        if data.get("stop_parent") and data.get("name", "").strip() != run.slug:
            self.add_error("name", f"To stop the run as well, type {run.slug}.")
        if data.get("steps"):
            try:
                plan_of_branch(run, run.policy.slug, data["steps"])
            except ConfigError as wrong:
                raise forms.ValidationError(f"{wrong}.") from None
        data["title"] = (
            data.get("title") or f"{run.title}, from version {self.version.version}"[:200]
        )
        return {name: data.get(name) for name in ("slug", "title", "steps", "start", "stop_parent")}


class Exporting(forms.Form):
    """The format of an export."""

    form = forms.ChoiceField(required=False, choices=[(name, name) for name in (FOLDER, *KINDS)])

    def __init__(self, data: QueryDict | None, version: WeightVersion) -> None:
        super().__init__(data)
        self.version = version

    def clean_form(self) -> str:
        form = self.cleaned_data["form"] or FOLDER
        if form in KINDS and (why := why_not_gguf(self.version)):
            raise forms.ValidationError(f"GGUF is not available: {why}.")
        if form == ADAPTER and read_manifest(self.version.folder).base is None:
            raise forms.ValidationError("This version has full weights, not an adapter.")
        return form


class Pushing(Exporting):
    """The repository, format and token of a push to the Hub."""

    form = forms.ChoiceField(required=False, choices=[(name, name) for name in FORM_TITLES])
    repository = forms.RegexField(
        REPOSITORY,
        max_length=193,
        error_messages={"required": "Enter a repository.", "invalid": OWNER_NAME},
    )
    is_public = forms.BooleanField(required=False)
    token = forms.RegexField(
        TOKEN, required=False, max_length=200, error_messages={"invalid": TOKEN_WORDS}
    )

    def clean_token(self) -> str:
        token = self.cleaned_data["token"]
        if not token and not settings.HUB_TOKEN:
            raise forms.ValidationError(
                "Enter a Hub token with write access. This installation has none."
            )
        return token


FORMS = {"promote": Promotion, "branch": Branching, "export": Exporting, "push": Pushing}
MESSAGES = {
    "promote": "Creating policy {slug} from version {version}. The version is now pinned.",
    "branch": "Creating run {slug} from version {version}.",
    "export": "Exporting version {version}.",
    "push": "Pushing version {version} to {repository}.",
}


@sensitive_post_parameters("token")
@require_POST
@login_required
def act_on_version(
    request: SignedInRequest, project: str, slug: str, version: int, verb: str
) -> HttpResponse:
    """Owners and researchers of the project: pin, unpin, promote, branch, export, push."""
    run = steered_run(request, project, slug)
    model_version = get_version(run, version)
    try:
        if verb in ("pin", "unpin"):
            model_version.pin(request.user, is_kept=verb == "pin")
        elif verb in MESSAGES:
            return _order(request, run, model_version, verb)
        else:
            raise Http404(verb)
    except NotPossible as error:
        messages.error(request, f"{error}.".capitalize())
    return redirect("run-weight", project, slug, version)


def _order(request: SignedInRequest, run: Run, version: WeightVersion, verb: str) -> HttpResponse:
    """Create the job for the action. Raise NotPossible."""
    if not version.has_folder:
        raise NotPossible(f"version {version.version} is {version.state}: it has no files")
    form = FORMS[verb](request.POST, version)
    if not form.is_valid():
        context = {**version_context(request, run, version.version), f"{verb}_form": form}
        return render(request, "dashboard/weight_version.html", context, status=422)
    data = dict(form.cleaned_data)
    secret = data.pop("token", "")
    ExportJob.place(verb, version, request.user, secret, **data)
    messages.success(request, MESSAGES[verb].format(version=version.version, **data))
    return redirect("run-weight", run.project.slug, run.slug, version.version)


@require_safe
@login_required
def stream_export_zip(
    request: SignedInRequest, project: str, slug: str, pk: int
) -> HttpResponseBase:
    """Owners and researchers of the project: an exported version as a zip stream."""
    run = steered_run(request, project, slug)
    order = _export(run, pk)
    if not order.has_folder:
        raise Http404("the export was deleted")
    AuditEntry.record(
        "weight version downloaded", order.weight_version.address, request.user, run.project
    )
    return stream_download(request, zipped(order.path), "application/zip", f"{order.path.name}.zip")


@require_safe
@login_required
def adapter(request: SignedInRequest, project: str, slug: str, version: int) -> HttpResponseBase:
    """Owners and researchers of the project: an unmerged adapter version as a zip stream."""
    run = steered_run(request, project, slug)
    model_version = get_version(run, version)
    content = read_version_content(model_version)
    if isinstance(content, str) or content.manifest.base is None:
        raise Http404(content if isinstance(content, str) else "this version has full weights")
    name = f"{version_folder_name(model_version)}-adapter"
    pieces = adapter_zipped(Path(model_version.folder), name, run.policy.slug)
    AuditEntry.record(
        "weight version downloaded",
        model_version.address,
        request.user,
        run.project,
        form="adapter",
    )
    return stream_download(request, pieces, "application/zip", f"{name}.zip")


@require_POST
@login_required
def delete_export(request: SignedInRequest, project: str, slug: str, pk: int) -> HttpResponse:
    """Owners and researchers of the project: delete an export's folder; the version stays."""
    run = steered_run(request, project, slug)
    order = _export(run, pk)
    with transaction.atomic():
        order.drop_folder()
        AuditEntry.record(
            "weight version's export deleted",
            order.weight_version.address,
            request.user,
            run.project,
        )
    messages.success(request, f"Export of version {order.weight_version.version} deleted.")
    return redirect("run-weight", project, slug, order.weight_version.version)


def _export(run: Run, pk: int) -> ExportJob:
    orders = ExportJob.objects.select_related("weight_version__run__project")
    return get_object_or_404(
        orders,
        pk=pk,
        weight_version__run=run,
        kind=ExportJob.Kind.EXPORT,
        state=ExportJob.State.DONE,
    )
