"""Policies in the administration: registered by command, looked at here."""

from django.contrib import admin

from apps.accounts.ledger_admin import LedgerAdmin
from apps.policies.models import Policy


@admin.register(Policy)
class PolicyAdmin(LedgerAdmin):
    list_display = ["slug", "project", "architecture", "parameters", "sees_pictures", "fingerprint", "created_at"]
    list_select_related = ["project"]
    search_fields = ["slug", "title"]
