"""Models: those of the user's projects, and one with its source, use and chat template."""

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from apps.accounts.models import Project
from apps.accounts.requests import SignedInRequest
from apps.dashboard import policy_page
from apps.dashboard.paging import load_page
from apps.dashboard.views.chatting import Question
from apps.dashboard.views.prompt_trials import (
    initial_prompt,
    load_prompt_trial,
    start_prompt_trial,
)
from apps.policies.adding import OWN
from apps.policies.chat_presets import PRESETS, TEMPLATE_LIMIT
from apps.policies.models import Policy, PolicyImport, PolicyRemoval, TemplatePreview
from apps.rollouts.models.chats import COLDEST, MAX_TEXT_LENGTH, MAX_TOKENS
from apps.runs.model_use import (
    ModelInUse,
    delete_model,
    find_parent_version,
    runs_referring_to,
    runs_with,
    why_not_deleted,
)
from apps.runs.models import ExportJob, NotPossible, Run
from apps.streaming import wakeups

RUNS_SHOWN = 20
IMPORTS_SHOWN = 20
MAX_MESSAGE_LENGTH = 20_000  # characters of one message of a preview
MAY_NOT = "Only owners and researchers of this project can change its models."


class Conversation(forms.Form):
    """An example conversation, and the chat template that a preview renders it by."""

    ROLES = {"system": "system", "user": "user", "reply": "assistant", "user_again": "user"}

    system = forms.CharField(max_length=MAX_MESSAGE_LENGTH, required=False, strip=False)
    user = forms.CharField(
        max_length=MAX_MESSAGE_LENGTH,
        strip=False,
        error_messages={"required": "Write what the user says."},
    )
    reply = forms.CharField(max_length=MAX_MESSAGE_LENGTH, required=False, strip=False)
    user_again = forms.CharField(max_length=MAX_MESSAGE_LENGTH, required=False, strip=False)
    template = forms.ChoiceField(
        required=False, choices=[(name, name) for name in ("", *PRESETS, OWN)]
    )
    template_text = forms.CharField(max_length=TEMPLATE_LIMIT, required=False, strip=False)

    def clean(self) -> dict:
        super().clean()
        data = self.cleaned_data
        if data.get("user_again") and not data.get("reply"):
            self.add_error("reply", "Write a reply between the two messages of the user.")
        if data.get("template") == OWN and not data.get("template_text", "").strip():
            self.add_error("template_text", "Write the chat template, or choose another one.")
        return data

    @property
    def messages(self) -> list[dict[str, str]]:
        """Return the messages that were written, in order."""
        texts = {name: _lines(self.cleaned_data[name]) for name in self.ROLES}
        return [{"role": self.ROLES[name], "content": text} for name, text in texts.items() if text]


def _lines(text: str) -> str:
    """Return the text with the line ends that people see, not those of HTML forms."""
    return text.replace("\r\n", "\n")


LABELS = {
    "system": "System message (optional)",
    "user": "User",
    "reply": "Reply (optional)",
    "user_again": "User again (optional)",
}
EXAMPLE = {"user": "What is 2 + 3?", "reply": "5", "user_again": "And 4 + 4?"}


@require_safe
@login_required
def policies(request: SignedInRequest) -> HttpResponse:
    """Everybody signed in: the models of their projects; imports, to owners and researchers."""
    visible = Policy.objects.visible_to(request.user).select_related("project")
    visible = visible.filter(project__archived_at=None)
    unfinished = PolicyImport.objects.run_by(request.user).unfinished().select_related("project")
    managed = Project.objects.run_by(request.user)
    removals = PolicyRemoval.objects.filter(project__in=managed).exclude(
        state=PolicyRemoval.State.DONE
    )
    context = {
        "section": "weights",
        "page": load_page(visible, request),
        "imports": unfinished[:IMPORTS_SHOWN],
        "removals": removals.select_related("project")[:IMPORTS_SHOWN],
        "may_add": managed.exists(),
    }
    return render(request, "dashboard/policies.html", context)


@require_safe
@login_required
def policy(request: SignedInRequest, project: str, slug: str) -> HttpResponse:
    """Members of the model's project; trials and deleting, to its owners and researchers."""
    shown_policy = _visible_policy(request, project, slug)
    return _page(request, shown_policy)


def _page(
    request: SignedInRequest,
    policy: Policy,
    form: Conversation | None = None,
    prompt_form: Question | None = None,
) -> HttpResponse:
    visible_runs = Run.objects.visible_to(request.user).select_related("project")
    latest = TemplatePreview.objects.of(request.user).filter(policy=policy).first()
    conversation_form = form or Conversation(initial=_preview_values(latest))
    context = {
        "section": "weights",
        "policy": policy,
        "content": policy_page.read_policy_content(policy),
        "runs": runs_with(policy)
        .filter(pk__in=visible_runs)
        .select_related("project")[:RUNS_SHOWN],
        "referring": runs_referring_to(policy)
        .filter(pk__in=visible_runs)
        .select_related("project")[:RUNS_SHOWN],
        "made_by": ExportJob.objects.filter(policy=policy).order_by("pk").first(),
        "parent": find_parent_version(policy),
        "form": conversation_form,
        "conversation": [(conversation_form[name], label) for name, label in LABELS.items()],
        "preview": None if form else latest,
        "presets": list(PRESETS),
        "may_change": _may_change(request, policy),
        "why_not_deleted": why_not_deleted(policy),
        **_prompt_context(request, policy, prompt_form),
    }
    is_refused = any(
        given_form is not None and given_form.errors for given_form in (form, prompt_form)
    )
    status = 422 if is_refused else 200
    return render(request, "dashboard/policy.html", context, status=status)


def _prompt_context(request: SignedInRequest, policy: Policy, form: Question | None) -> dict:
    trial = load_prompt_trial(policy, request.user)
    return {
        "trial": trial,
        "prompt_form": form or Question(initial=initial_prompt(trial)),
        "max_prompt_length": MAX_TEXT_LENGTH,
        "coldest": COLDEST,
        "max_tokens": MAX_TOKENS,
    }


@require_POST
@login_required
def try_prompt(request: SignedInRequest, project: str, slug: str) -> HttpResponse:
    """Owners and researchers of the project: have an explorer answer a prompt with the model."""
    policy = _managed_policy(request, project, slug)
    form = Question(request.POST)
    if form.is_valid():
        try:
            start_prompt_trial(policy, request.user, form)
        except NotPossible as error:
            form.add_error("text", f"{error}.".capitalize())
    if form.errors:
        return _page(request, policy, prompt_form=form)
    return redirect(f"{reverse('policy', args=[project, slug])}#try")


@require_safe
@login_required
def prompt_now(request: SignedInRequest, project: str, slug: str) -> HttpResponse:
    """Owners and researchers of the project: the polled part of their own trial."""
    policy = _managed_policy(request, project, slug)
    context = {"policy": policy, "trial": load_prompt_trial(policy, request.user)}
    return render(request, "dashboard/_prompt_trial_now.html", context)


@require_POST
@login_required
def stop_prompt(request: SignedInRequest, project: str, slug: str) -> HttpResponse:
    """Owners and researchers of the project: stop the reply to their own prompt."""
    policy = _managed_policy(request, project, slug)
    trial = load_prompt_trial(policy, request.user)
    if trial is None:
        raise Http404("no prompt was tried")
    trial.turn.wish_to_stop()
    return redirect(f"{reverse('policy', args=[project, slug])}#try")


@require_POST
@login_required
def preview_conversation(request: SignedInRequest, project: str, slug: str) -> HttpResponse:
    """Owners and researchers of the project: have a worker render a conversation.

    It takes the place of the user's earlier previews.
    """
    policy = _managed_policy(request, project, slug)
    form = Conversation(request.POST)
    if not form.is_valid():
        return _page(request, policy, form)
    chosen = form.cleaned_data["template"]
    text = _lines(form.cleaned_data["template_text"]) if chosen == OWN else ""
    with transaction.atomic():
        TemplatePreview.objects.filter(by=request.user).delete()
        TemplatePreview.objects.create(
            policy=policy,
            by=request.user,
            messages=form.messages,
            template="" if chosen == OWN else chosen,
            template_text=text,
        )
        transaction.on_commit(lambda: wakeups.send("import_models"), robust=True)
    return redirect(f"{reverse('policy', args=[project, slug])}#preview")


@require_safe
@login_required
def preview_now(request: SignedInRequest, project: str, slug: str) -> HttpResponse:
    """Owners and researchers of the project: the polled part of the page."""
    policy = _managed_policy(request, project, slug)
    latest = TemplatePreview.objects.of(request.user).filter(policy=policy).first()
    return render(request, "dashboard/_template_preview.html", {"preview": latest})


@require_POST
@login_required
def delete_policy(request: SignedInRequest, project: str, slug: str) -> HttpResponse:
    """Owners and researchers of the project: delete a model that nothing uses."""
    policy = _managed_policy(request, project, slug)
    try:
        delete_model(policy, request.user)
    except ModelInUse as error:
        messages.error(request, str(error))
        return redirect("policy", project, slug)
    transaction.on_commit(lambda: wakeups.send("import_models"), robust=True)
    messages.success(request, f"Model {slug} is deleted. A worker removes its files.")
    return redirect("policies")


def _preview_values(latest: TemplatePreview | None) -> dict[str, str]:
    """Return the form's values of a preview, or those of an example."""
    if latest is None:
        return EXAMPLE
    names = iter(Conversation.ROLES.items())
    texts = {}
    for message in latest.messages:
        name = next(name for name, role in names if role == message["role"])
        texts[name] = message["content"]
    template = OWN if latest.template_text else latest.template
    return {**texts, "template": template, "template_text": latest.template_text}


def _visible_policy(request: SignedInRequest, project: str, slug: str) -> Policy:
    visible = Policy.objects.visible_to(request.user).select_related("project", "created_by")
    return get_object_or_404(visible, project__slug=project, slug=slug)


def _may_change(request: SignedInRequest, policy: Policy) -> bool:
    return Project.objects.run_by(request.user).filter(pk=policy.project_id).exists()


def _managed_policy(request: SignedInRequest, project: str, slug: str) -> Policy:
    """Return the model. Raise Http404 for a stranger, PermissionDenied for a viewer."""
    policy = _visible_policy(request, project, slug)
    if not _may_change(request, policy):
        raise PermissionDenied(MAY_NOT)
    return policy
