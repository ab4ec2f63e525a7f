"""Read-only administration pages for alerts."""

from django.contrib import admin

from apps.accounts.ledger_admin import LedgerAdmin, newest_rows_filter
from apps.alerts.kinds import TITLES
from apps.alerts.models import Alert, AlertEntry, Channel, Delivery


@admin.register(Alert)
class AlertAdmin(LedgerAdmin):
    list_display = ["run", "rule", "key", "opened_at", "closed_at", "closed_for", "acknowledged_by"]
    list_select_related = ["run", "acknowledged_by"]
    list_filter = [newest_rows_filter("rule", *TITLES)]
    ordering = ["-pk"]


@admin.register(AlertEntry)
class AlertEntryAdmin(LedgerAdmin):
    is_large = True
    list_display = ["alert", "what", "words", "by", "at"]
    list_select_related = ["alert", "by"]
    list_filter = [newest_rows_filter("what")]
    ordering = ["-pk"]


@admin.register(Channel)
class ChannelAdmin(LedgerAdmin):
    list_display = ["project", "kind", "address", "is_on", "created_by", "created_at"]
    list_select_related = ["project", "created_by"]
    exclude = ["nonce"]
    ordering = ["-pk"]


@admin.register(Delivery)
class DeliveryAdmin(LedgerAdmin):
    is_large = True
    list_display = ["channel", "kind", "state", "attempts", "due_at", "answer", "sent_at"]
    list_select_related = ["channel"]
    list_filter = [newest_rows_filter("state")]
    ordering = ["-pk"]
