"""People, projects and tokens in the administration."""

from django.contrib import admin
from django.contrib.auth.admin import UserAdmin
from django.http import HttpRequest
from unfold.admin import TabularInline
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

from apps.accounts.ledger_admin import LedgerAdmin, PlainAdmin
from apps.accounts.models import AuditEntry, Membership, Project, Token, User


@admin.register(User)
class PersonAdmin(UserAdmin, PlainAdmin):
    form, add_form, change_password_form = UserChangeForm, UserCreationForm, AdminPasswordChangeForm
    list_display = ["username", "is_simulated", "is_staff", "is_active", "last_login"]
    fieldsets = (*UserAdmin.fieldsets, ("rating", {"fields": ["is_simulated"]}))


class MembershipInline(TabularInline):
    model = Membership
    autocomplete_fields = ["user"]
    extra = 0


@admin.register(Project)
class ProjectAdmin(PlainAdmin):
    list_display = ["slug", "title", "created_at"]
    search_fields = ["slug", "title"]
    inlines = [MembershipInline]


@admin.register(Token)
class TokenAdmin(PlainAdmin):
    """Tokens are issued by their owners alone; here they can be seen and revoked."""

    list_display = ["name", "user", "last_four", "scopes", "expires_at", "last_used_at", "revoked_at"]
    list_select_related = ["user"]
    fields = ["name", "user", "last_four", "scopes", "created_at", "expires_at", "last_used_at", "revoked_at"]
    readonly_fields = [name for name in fields if name != "revoked_at"]

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False


@admin.register(AuditEntry)
class AuditEntryAdmin(LedgerAdmin):
    """Every act that needed a right, newest first."""

    list_display = ["at", "name", "act", "target", "project"]
    list_select_related = ["project"]
    list_filter = ["act"]
    search_fields = ["name", "target"]
    ordering = ["-pk"]
