"""Read-only administration pages for topics and their events."""

from django.contrib import admin

from apps.accounts.ledger_admin import LedgerAdmin
from apps.streaming.models import Event, Topic


@admin.register(Topic)
class TopicAdmin(LedgerAdmin):
    list_display = ["name", "project", "sequence"]
    list_select_related = ["project"]
    search_fields = ["name"]


@admin.register(Event)
class EventAdmin(LedgerAdmin):
    is_large = True
    list_display = ["topic", "sequence", "kind", "at"]
    list_select_related = ["topic"]
    search_fields = ["=kind"]
    ordering = ["-pk"]
