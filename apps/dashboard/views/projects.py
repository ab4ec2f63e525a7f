"""Projects, their members, and invitations: owners manage them without an administrator."""

import re
from datetime import timedelta
from typing import Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.core.validators import EmailValidator
from django.db import IntegrityError, transaction
from django.db.models import Count, Exists, F, OuterRef, Prefetch, QuerySet, Subquery
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.text import slugify
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from apps.accounts import password_resets
from apps.accounts.models import (
    MAX_INVITATION_USES,
    Invitation,
    InvitationMail,
    LastOwner,
    Membership,
    NoMember,
    Project,
    RaterGroup,
    User,
)
from apps.accounts.requests import SignedInRequest
from apps.accounts.sealing import seal_secret
from apps.dashboard.form_actions import posted_action
from apps.dashboard.form_fields import model_field
from apps.dashboard.paging import load_page
from apps.dashboard.views.deletions import list_project_deletions
from apps.runs.archiving import archive_project, restore_project
from apps.runs.models import NotPossible, ProjectRemoval
from apps.runs.raters import runs_given_to
from apps.streaming import wakeups

ROWS_SHOWN = 50
INVITATIONS_SHOWN = 20
MAX_MAILS = 20  # invitations sent by one form
GROUPS_SHOWN = 50
RATERS_SHOWN = 50  # people offered for a group at a time
NAMES_SHOWN = 8  # members named beside a group
MAX_SEARCH_LENGTH = 150  # characters, as many as a username has
NAME_TAKEN = "The project already has a group with this name."


class ProjectForm(forms.Form):
    """The title of a project."""

    title = forms.CharField(max_length=200, label="Name")


class NewProjectForm(ProjectForm):
    """A new project; without a slug, the title makes one."""

    slug = forms.SlugField(max_length=50, required=False, label="Short name in addresses")

    def clean(self) -> dict:
        """Derive the slug, and check that no project has it."""
        super().clean()
        data = self.cleaned_data
        if self.errors:
            return data
        data["slug"] = data["slug"] or slugify(data["title"])[:50].strip("-")
        if not data["slug"]:
            self.add_error("slug", "Enter a short name: the name has no letters to make one from.")
        elif Project.objects.filter(slug=data["slug"]).exists():
            self.add_error("slug", f"“{data['slug']}” is taken. Choose another short name.")
        return data


class InvitationForm(forms.Form):
    """A new invitation."""

    DAYS = ((1, "1 day"), (7, "7 days"), (30, "30 days"), (90, "90 days"))
    role = forms.ChoiceField(
        choices=[(role, role.label) for role in reversed(Membership.Role)],
        initial=Membership.Role.RATER,
        label="Role",
    )
    max_uses = forms.IntegerField(
        min_value=1, max_value=MAX_INVITATION_USES, initial=1, label="People who can join"
    )
    days = forms.TypedChoiceField(choices=DAYS, coerce=int, initial=7, label="Expires after")
    note = forms.CharField(max_length=100, required=False, label="Note")
    emails = forms.CharField(max_length=4_000, required=False, label="Send by e-mail to")

    def clean_emails(self) -> list[str]:
        """Return the addresses, each once; none where no mail server is configured."""
        parts = re.split(r"[\s,;]+", self.cleaned_data["emails"].strip())
        addresses = list(dict.fromkeys(filter(None, parts)))
        if addresses and not settings.EMAIL_HOST:
            raise forms.ValidationError("E-mail is not set up: create a link instead.")
        if len(addresses) > MAX_MAILS:
            raise forms.ValidationError(
                f"There are {len(addresses)} addresses; send at most {MAX_MAILS} at a time."
            )
        for address in addresses:
            EmailValidator(f"{address} is not an e-mail address, such as name@example.org.")(
                address
            )
        return addresses


class GroupForm(forms.Form):
    """A new group of raters of a project."""

    name = forms.RegexField(
        r"^[^:,]+$",
        max_length=60,
        label="Name",
        error_messages={"invalid": "Use a name without colon or comma."},
    )
    members = forms.ModelMultipleChoiceField(queryset=User.objects.none(), required=False)

    def __init__(self, project: Project, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.project = project
        model_field(self, "members").queryset = _raters_of(project)

    def clean_name(self) -> str:
        """Return the name, which no other group of the project has."""
        name = self.cleaned_data["name"]
        if self.project.rater_groups.filter(name=name).exists():
            raise forms.ValidationError(NAME_TAKEN)
        return name


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def projects(request: SignedInRequest) -> HttpResponse:
    """Everybody signed in: their projects. Owners and administrators create new ones."""
    may_create = _may_create(request)
    form = NewProjectForm(request.POST or None)
    if request.method == "POST":
        if not may_create:
            raise PermissionDenied("Only administrators and project owners can create projects.")
        if form.is_valid() and (created := _create_project(request, form)):
            messages.success(request, f"Project {created.title} created. Invite people to it.")
            return redirect("project", created.slug)
    memberships = Membership.objects.filter(project=OuterRef("pk"))
    own_memberships = memberships.filter(user=request.user)
    # Counted apart: visible_to() joins one membership only.
    counted = memberships.values("project").annotate(count=Count("pk")).values("count")
    shows_archived = request.GET.get("archived") == "only"
    visible = Project.objects.visible_to(request.user)
    listed = visible.filter(archived_at__isnull=not shows_archived).annotate(
        members=Subquery(counted), my_role=Subquery(own_memberships.values("role")[:1])
    )
    owned = set(Project.objects.owned_by(request.user).values_list("pk", flat=True))
    context = {
        "section": "settings",
        "page": load_page(listed, request, size=ROWS_SHOWN, by="title", rising=True),
        "roles": {role.value: role.label for role in Membership.Role},
        "owned": owned,
        "may_create": may_create,
        "shows_archived": shows_archived,
        "deletions": list_project_deletions(request.user),
        "has_archived": visible.filter(archived_at__isnull=False).exists(),
        "form": form,
    }
    return render(request, "dashboard/projects.html", context, status=422 if form.errors else 200)


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
@never_cache
def show_project(request: SignedInRequest, project: str) -> HttpResponse:
    """Owners of the project: its members and invitations; a POST renames it.

    The address of a project that is being deleted leads to its deletion.
    """
    visible_removals = ProjectRemoval.objects.visible_to(request.user)
    removals = visible_removals.filter(project__slug=project, project__deleting_since__isnull=False)
    if removal := removals.first():
        return redirect("project-deletion", removal.pk)
    owned_project = _owned_project(request, project)
    if request.method != "POST":
        return _page(request, owned_project)
    form = ProjectForm(request.POST)
    if not form.is_valid():
        return _page(request, owned_project, title=form, status=422)
    owned_project.rename(form.cleaned_data["title"], request.user)
    messages.success(request, "Name changed.")
    return redirect("project", project)


@require_POST
@login_required
def archive(request: SignedInRequest, project: str) -> HttpResponse:
    """Owners of the project: archive it (`act`: archive), or restore it (`act`: restore)."""
    owned_project = _owned_project(request, project)
    action = posted_action(request, ("archive", "restore"))
    try:
        if action == "archive":
            archive_project(owned_project, request.user)
            messages.success(
                request, f"{owned_project.title} is archived. You can restore it here."
            )
        else:
            restore_project(owned_project, request.user)
            messages.success(request, f"{owned_project.title} is restored.")
    except NotPossible as error:
        messages.error(request, f"The project was not archived. {error}")
    return redirect("project", project)


@require_POST
@login_required
def member(request: SignedInRequest, project: str, pk: int) -> HttpResponse:
    """Owners of the project: give a member another `role`, or none to remove them."""
    owned_project = _owned_project(request, project)
    membership = get_object_or_404(owned_project.memberships.select_related("user"), pk=pk)
    role = request.POST.get("role", "")
    name = membership.user.username
    try:
        if not role:
            membership.take(request.user)
            messages.success(request, f"{name} is no longer a member of {owned_project.title}.")
        elif role not in Membership.Role.values:
            roles = ", ".join(Membership.Role.values)
            return _page(request, owned_project, wrong=f"Role: choose one of {roles}.", status=422)
        else:
            membership.role = role
            membership.give(request.user)
            messages.success(request, f"{name} is now {membership.get_role_display().lower()}.")
    except (LastOwner, NoMember) as refused:
        return _page(request, owned_project, wrong=str(refused), status=409)
    if not Project.objects.owned_by(request.user).filter(pk=owned_project.pk).exists():
        return redirect("projects")  # they changed their own role
    return redirect("project", project)


@require_POST
@login_required
def add_group(request: SignedInRequest, project: str) -> HttpResponse:
    """Owners of the project: create a group of raters."""
    owned_project = _owned_project(request, project)
    form = GroupForm(owned_project, request.POST)
    if not form.is_valid():
        return _page(request, owned_project, group=form, status=422)
    try:
        with transaction.atomic():
            new_group = RaterGroup.objects.create(
                project=owned_project, name=form.cleaned_data["name"]
            )
            new_group.note("rater group created", request.user)
            new_group.fill(form.cleaned_data["members"], request.user)
    except IntegrityError:  # somebody else created it since the form was checked
        form.add_error("name", NAME_TAKEN)
        return _page(request, owned_project, group=form, status=422)
    messages.success(request, f"Group {new_group.name} created. Choose its members.")
    return redirect(_group_address(owned_project, new_group))


@require_POST
@login_required
def change_group(request: SignedInRequest, project: str, pk: int) -> HttpResponse:
    """Owners of the project: change who is in a group (`act`: save), or delete it (`act`: delete).

    Of the raters, only those whose boxes were on the page (`offered`) are changed. A group that
    runs name is not deleted: their items would wait for nobody.
    """
    owned_project = _owned_project(request, project)
    group = get_object_or_404(owned_project.rater_groups, pk=pk)
    if posted_action(request, ("save", "delete")) == "save":
        offered = _posted_ids(request, "offered")
        chosen = offered & _posted_ids(request, "members")
        group.choose(_raters_of(owned_project).filter(pk__in=chosen), offered, request.user)
        messages.success(request, f"Group {group.name} saved.")
        return redirect(_group_address(owned_project, group))
    if users := runs_given_to(group):
        names = ", ".join(run.slug for run in users[:3])
        messages.error(request, f"Group {group.name} was not deleted: {names} asks it to rate.")
    else:
        with transaction.atomic():
            group.note("rater group deleted", request.user)
            group.delete()
        messages.success(request, f"Group {group.name} deleted. Its members stay in the project.")
    return redirect(f"{reverse('project', args=[project])}#groups")


def _posted_ids(request: SignedInRequest, name: str) -> set[int]:
    """Return the posted ids, without those that can't be one."""
    posted = request.POST.getlist(name)
    return {int(key) for key in posted if key.isascii() and key.isdigit() and len(key) <= 18}


def _group_address(project: Project, group: RaterGroup) -> str:
    """Return the address of the project's page with this group opened."""
    return f"{reverse('project', args=[project.slug])}?group={group.pk}#group-{group.pk}"


def _groups_context(request: SignedInRequest, project: Project) -> dict[str, Any]:
    """Return the project's groups that match the search, and the opened one with its raters."""
    words = _searched_words(request, "groups")
    opened = request.GET.get("group", "")
    named = User.objects.order_by("username")[:NAMES_SHOWN]
    counted = project.rater_groups.annotate(size=Count("members")).order_by("name")
    groups = counted.prefetch_related(Prefetch("members", named, to_attr="first_members"))
    found = groups.filter(name__icontains=words) if words else groups
    is_id = opened.isascii() and opened.isdigit() and len(opened) <= 18
    opened_group = groups.filter(pk=int(opened)).first() if is_id else None
    listed = list(found[: GROUPS_SHOWN + 1])
    if opened_group and opened_group not in listed:
        listed.insert(0, opened_group)
    return {
        "groups": listed[:GROUPS_SHOWN],
        "has_more_groups": len(listed) > GROUPS_SHOWN,
        "group_words": words,
        "groups_shown": GROUPS_SHOWN,
        "opened_group": opened_group,
        **(_offered_raters(request, project, opened_group) if opened_group else {}),
    }


def _offered_raters(
    request: SignedInRequest, project: Project, group: RaterGroup
) -> dict[str, Any]:
    """Return the raters whose boxes the group's form shows: its members first, or those found."""
    words = _searched_words(request, "raters")
    in_group = RaterGroup.members.through.objects.filter(ratergroup=group, user=OuterRef("pk"))
    raters = _raters_of(project).annotate(is_member=Exists(in_group))
    if words:
        raters = raters.filter(username__icontains=words)
    offered = list(raters.order_by("-is_member", "username")[: RATERS_SHOWN + 1])
    return {
        "offered": offered[:RATERS_SHOWN],
        "has_more_raters": len(offered) > RATERS_SHOWN,
        "rater_words": words,
        "raters_shown": RATERS_SHOWN,
    }


def _searched_words(request: SignedInRequest, name: str) -> str:
    return request.GET.get(name, "").replace("\0", "").strip()[:MAX_SEARCH_LENGTH]


def _raters_of(project: Project) -> QuerySet[User]:
    """Return the people who may rate in the project, by name."""
    rating = {"memberships__project": project, "memberships__role__in": Membership.MAY_RATE}
    return User.objects.filter(is_active=True, **rating).order_by("username")


@require_POST
@login_required
@never_cache
def reset_link(request: SignedInRequest, project: str, pk: int) -> HttpResponse:
    """Owners of the project: create a password reset link for a member. Shown once."""
    owned_project = _owned_project(request, project)
    user = get_object_or_404(owned_project.memberships.select_related("user"), pk=pk).user
    path = password_resets.create_link(request.user, user, owned_project)
    return _page(request, owned_project, reset=user, link=request.build_absolute_uri(path))


@require_POST
@login_required
@never_cache
def invite(request: SignedInRequest, project: str) -> HttpResponse:
    """Owners of the project: create an invitation. The answer shows its link, once."""
    owned_project = _owned_project(request, project)
    form = InvitationForm(request.POST)
    if not form.is_valid():
        return _page(request, owned_project, form=form, status=422)
    data = form.cleaned_data
    if data["emails"]:
        return _invite_by_mail(request, owned_project, data)
    invitation, link = _invitation(request, owned_project, data, data["max_uses"], data["note"])
    return _page(request, owned_project, fresh=invitation, link=link)


def _invite_by_mail(request: SignedInRequest, project: Project, data: dict) -> HttpResponse:
    """Create an invitation for each address; a worker sends them."""
    addresses = data["emails"]
    with transaction.atomic():
        for address in addresses:
            invitation, link = _invitation(request, project, data, 1, data["note"])
            InvitationMail.objects.create(
                invitation=invitation, address=address, sealed_link=seal_secret(link)
            )
        transaction.on_commit(lambda: wakeups.send("send_invitations"), robust=True)
    count = f"{len(addresses)} invitations" if len(addresses) > 1 else "The invitation"
    messages.success(request, f"{count} will be sent. The result appears below.")
    return redirect(f"{reverse('project', args=[project.slug])}#invitations")


def _invitation(
    request: SignedInRequest, project: Project, data: dict, max_uses: int, note: str
) -> tuple[Invitation, str]:
    """Create an invitation; return it and its link."""
    lifetime = timedelta(days=data["days"])
    invitation, secret = Invitation.create(
        project, data["role"], lifetime, request.user, max_uses, note
    )
    return invitation, request.build_absolute_uri(reverse("invitation", args=[secret]))


@require_POST
@login_required
def send_again(request: SignedInRequest, project: str, pk: int) -> HttpResponse:
    """Owners of the project: have a failed e-mail of an invitation sent again."""
    owned_project = _owned_project(request, project)
    mail = get_object_or_404(InvitationMail, invitation__project=owned_project, invitation=pk)
    if mail.send_again(request.user):
        wakeups.send("send_invitations")
        messages.success(request, f"The invitation to {mail.address} will be sent again.")
    return redirect(f"{reverse('project', args=[project])}#invitations")


@require_POST
@login_required
def revoke_invitation(request: SignedInRequest, project: str, pk: int) -> HttpResponse:
    """Owners of the project: revoke an invitation."""
    owned_project = _owned_project(request, project)
    get_object_or_404(owned_project.invitations, pk=pk, revoked_at=None).revoke(request.user)
    messages.success(request, "Invitation revoked. Its link no longer works.")
    return redirect("project", project)


def _may_create(request: SignedInRequest) -> bool:
    return request.user.is_superuser or Project.objects.owned_by(request.user).exists()


def _create_project(request: SignedInRequest, form: NewProjectForm) -> Project | None:
    """Create the project; return None, with an error in the form, if its slug was just taken."""
    data = form.cleaned_data
    try:
        return Project.create(data["title"], data["slug"], request.user)
    except IntegrityError:
        form.add_error("slug", f"“{data['slug']}” is taken. Choose another short name.")
        return None


def _owned_project(request: SignedInRequest, slug: str) -> Project:
    """Return the project if the user may manage its members.

    Raises Http404 for a stranger, PermissionDenied for other members.
    """
    owned_project = get_object_or_404(
        Project.objects.visible_to(request.user).distinct(), slug=slug
    )
    if not Project.objects.owned_by(request.user).filter(pk=owned_project.pk).exists():
        raise PermissionDenied("Only owners of this project can manage its members.")
    return owned_project


def _page(
    request: SignedInRequest,
    project: Project,
    title: ProjectForm | None = None,
    form: InvitationForm | None = None,
    group: GroupForm | None = None,
    fresh: Invitation | None = None,
    reset: User | None = None,
    link: str = "",
    wrong: str = "",
    status: int = 200,
) -> HttpResponse:
    has_other_owner = Membership.objects.filter(
        project=project, role=Membership.Role.OWNER
    ).exclude(pk=OuterRef("pk"))
    members = (
        Membership.objects.filter(project=project)
        .select_related("user")
        .annotate(name=F("user__username"), has_other_owner=Exists(has_other_owner))
    )
    words = _searched_words(request, "words")
    if words:
        members = members.filter(user__username__icontains=words)
    page = load_page(members, request, size=ROWS_SHOWN, by="name", rising=True)
    page_users = User.objects.filter(pk__in=[member.user_id for member in page.rows])
    context = {
        "section": "settings",
        "project": project,
        "title": title or ProjectForm(initial={"title": project.title}),
        "form": form or InvitationForm(),
        "fresh": fresh,
        "reset": reset,
        "link": link,
        "wrong": wrong,
        "page": page,
        "words": words,
        "has_search": bool(words or page.newer or page.older),
        "max_search_length": MAX_SEARCH_LENGTH,
        "resettable": set(
            password_resets.resettable(request.user, page_users).values_list("pk", flat=True)
        ),
        "roles": Membership.Role.choices,
        "group_form": group or GroupForm(project),
        **_groups_context(request, project),
        "invitations": project.invitations.select_related("created_by", "mail").order_by("-pk")[
            :INVITATIONS_SHOWN
        ],
        "has_mail": bool(settings.EMAIL_HOST),
    }
    return render(request, "dashboard/project.html", context, status=status)
