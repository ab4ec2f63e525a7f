"""Topics and their events in the administration, only looked at."""

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
    list_display = ["topic", "sequence", "kind", "at"]
    list_select_related = ["topic"]
    list_filter = ["kind"]
    ordering = ["-pk"]
