"""Administration pages for users, projects, tokens and the audit log."""

from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount, SocialApp, SocialToken
from django.contrib import admin, messages
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.forms import ModelForm
from django.http import HttpRequest, HttpResponse
from unfold.admin import TabularInline
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

from apps.accounts.ledger_admin import LedgerAdmin, PlainAdmin, register_read_only
from apps.accounts.models import (
    AuditEntry,
    Invitation,
    InvitationMail,
    LastOwner,
    Membership,
    NoMember,
    OnceRequest,
    Project,
    RaterGroup,
    Token,
    User,
)
from apps.accounts.requests import SignedInRequest

for library_model in (EmailAddress, Authenticator, Group, SocialAccount, SocialApp, SocialToken):
    admin.site.unregister(library_model)


@admin.register(User)
class PersonAdmin(UserAdmin, PlainAdmin):
    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm
    list_display = [
        "username",
        "first_name",
        "last_name",
        "is_simulated",
        "is_staff",
        "is_superuser",
        "is_active",
        "last_login",
    ]
    list_filter = ["is_staff", "is_superuser", "is_active", "is_simulated"]
    ordering = ["username"]
    readonly_fields = ["last_login", "date_joined"]
    fieldsets = (*(UserAdmin.fieldsets or ()), ("Rating", {"fields": ["is_simulated"]}))

    def user_change_password(
        self, request: HttpRequest, id: str, form_url: str = ""
    ) -> HttpResponse:
        answer = super().user_change_password(request, id, form_url)
        if request.method == "POST" and answer.status_code == 302:  # the form was accepted
            person = self.get_object(request, id)
            assert person is not None
            self.record(request, "password changed", person)
        return answer


@admin.register(Group)
class StaffGroupAdmin(GroupAdmin, PlainAdmin[Group]):
    """The group that decides what staff who are not administrators may view."""


@admin.register(Authenticator)
class AuthenticatorAdmin(LedgerAdmin):
    """Second factors.

    Deleting one lets a person who has lost it sign in by password; its secret is shown to nobody.
    """

    list_display = ["user", "type", "created_at", "last_used_at"]
    list_select_related = ["user"]
    list_filter = ["type"]
    paginator = Paginator
    search_fields = ["user__username"]
    fields = ["user", "type", "created_at", "last_used_at"]

    def has_delete_permission(self, request: HttpRequest, obj: Authenticator | None = None) -> bool:
        return request.user.has_perm("mfa.delete_authenticator")

    def record(
        self, request: HttpRequest, verb: str, obj: Authenticator, **details: object
    ) -> None:
        AuditEntry.record(f"second factor {verb}", f"user {obj.user}", request.user, kind=obj.type)


class MembershipInline(TabularInline):
    model = Membership
    autocomplete_fields = ["user"]
    extra = 0


@admin.register(Project)
class ProjectAdmin(PlainAdmin):
    list_display = ["slug", "title", "created_at"]
    search_fields = ["slug", "title"]
    inlines = [MembershipInline]

    def get_readonly_fields(
        self, request: HttpRequest, obj: Project | None = None
    ) -> tuple[str, ...]:
        """Make the slug of an existing project read-only.

        The slug is part of recorded data: names of topics, addresses of runs, references kept by
        other programs.
        """
        return ("slug",) if obj else ()

    def save_formset(self, request: HttpRequest, form: ModelForm, formset, change: bool) -> None:
        """Save roles through the model's own methods, which write the audit log."""
        formset.save(commit=False)
        changed = [membership for membership, _ in formset.changed_objects]
        try:
            # New owners come first, so that they can take the place of those who leave.
            for membership in [*formset.new_objects, *changed]:
                membership.give(request.user)
            for membership in formset.deleted_objects:
                membership.take(request.user)
        except (LastOwner, NoMember) as refused:
            messages.error(request, str(refused))


@admin.register(Token)
class TokenAdmin(PlainAdmin):
    """API tokens: issued by their owners alone; here they can be viewed and revoked."""

    list_display = [
        "name",
        "user",
        "last_four",
        "scopes",
        "expires_at",
        "last_used_at",
        "revoked_at",
    ]
    list_select_related = ["user"]
    list_filter = [("revoked_at", admin.EmptyFieldListFilter)]
    search_fields = ["name", "user__username", "=last_four"]
    fields = readonly_fields = [
        "name",
        "user",
        "last_four",
        "scopes",
        "created_at",
        "expires_at",
        "last_used_at",
        "revoked_at",
    ]
    actions = ["revoke"]

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Token | None = None) -> bool:
        return False  # a revoked token still identifies who did what

    @admin.action(
        description="Revoke: requests with this token are rejected", permissions=["change"]
    )
    def revoke(self, request: SignedInRequest, tokens: QuerySet[Token]) -> None:
        living = list(tokens.filter(revoked_at=None).select_related("user"))
        for token in living:
            token.revoke(request.user)
        self.message_user(request, f"{len(living)} revoked.", messages.SUCCESS)


@admin.register(AuditEntry)
class AuditEntryAdmin(LedgerAdmin):
    """The audit log: every action that needed a permission, newest first."""

    is_large = True
    list_display = ["at", "name", "action", "target", "project"]
    list_select_related = ["project"]
    list_filter = ["project"]
    search_fields = ["=name", "target", "action"]


register_read_only(Membership, "project", "user", "role")
# The digest of an invitation is left out: nobody needs it.
INVITATION = (
    "project",
    "role",
    "note",
    "last_four",
    "uses",
    "max_uses",
    "created_by",
    "expires_at",
    "revoked_at",
)
register_read_only(Invitation, *INVITATION, fields=(*INVITATION, "created_at"))
# The encrypted link is left out.
MAIL = ("invitation", "address", "state", "reason", "attempts", "sent_at")
register_read_only(InvitationMail, *MAIL, fields=MAIL)
register_read_only(RaterGroup, "name", "project", fields=("name", "project", "members"))
# The stored answer is left out: it may be a secret that only its owner may see.
register_read_only(
    OnceRequest, "id", "user", "begun_at", "status", fields=("user", "key", "begun_at", "status")
)
