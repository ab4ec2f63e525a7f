"""How the administration shows rows: cheap lists, and ledger rows that may be looked at but never changed there."""

from django.db.models import Model
from django.http import HttpRequest
from unfold.admin import ModelAdmin


class PlainAdmin(ModelAdmin):
    """Rows people may edit. No count over the whole table, fifty rows to a page."""

    show_full_result_count = False
    list_per_page = 50
    list_fullwidth = True


class LedgerAdmin(PlainAdmin):
    """Rows that workers and people wrote through their own faces: only looked at."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False
