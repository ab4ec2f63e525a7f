"""Read-only administration pages for policies and for the work on them."""

from django.contrib import admin

from apps.accounts.ledger_admin import LedgerAdmin
from apps.policies.models import Policy, PolicyImport, PolicyRemoval, TemplatePreview


@admin.register(Policy)
class PolicyAdmin(LedgerAdmin):
    list_display = [
        "slug",
        "project",
        "architecture",
        "parameters",
        "sees_pictures",
        "fingerprint",
        "created_at",
    ]
    list_select_related = ["project"]
    search_fields = ["slug", "title"]


@admin.register(PolicyImport)
class PolicyImportAdmin(LedgerAdmin):
    list_display = ["slug", "project", "kind", "state", "reason", "by", "created_at"]
    list_filter = ["state", "kind"]
    list_select_related = ["project", "by"]
    search_fields = ["slug", "source"]


@admin.register(PolicyRemoval)
class PolicyRemovalAdmin(LedgerAdmin):
    list_display = ["slug", "project", "state", "reason", "by", "created_at"]
    list_filter = ["state"]
    list_select_related = ["project", "by"]


@admin.register(TemplatePreview)
class TemplatePreviewAdmin(LedgerAdmin):
    list_display = ["policy", "state", "reason", "by", "created_at"]
    list_filter = ["state"]
    list_select_related = ["policy", "by"]
