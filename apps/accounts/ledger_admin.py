"""How the administration shows rows: cheap lists whatever the table's size, and ledger rows that may only be looked at.

What is changed here is put on record, in the transaction that changes it.
"""

from django.contrib import admin
from django.db.models import Max, Model, QuerySet
from django.forms import ModelForm
from django.http import HttpRequest
from unfold import paginator
from unfold.admin import ModelAdmin

from apps.accounts.models import AuditEntry, Project

ROWS_A_PAGE = 50
MOST_PAGED = 10_000  # rows that may be paged to: beyond them a filter finds what is wanted
NEWEST = 100_000  # rows of a large table among which filters and the search look
NEVER_TOLD = {"password", "data"}


class InfinitePaginator(paginator.InfinitePaginator):
    """Counts nothing: there is a next page where this one is full. The theme's templates know it by its name."""

    count = MOST_PAGED


class PlainAdmin(ModelAdmin):
    """Rows people may edit: a few thousand at most. Fifty to a page, the newest first."""

    show_full_result_count = False
    list_per_page = ROWS_A_PAGE
    list_fullwidth = True
    ordering = ("-pk",)

    def save_model(self, request: HttpRequest, obj: Model, form: ModelForm, change: bool) -> None:
        super().save_model(request, obj, form, change)
        before = {name: said(form.initial.get(name)) for name in form.changed_data if name not in NEVER_TOLD}
        if before or not change:
            after = {name: said(form.cleaned_data.get(name)) for name in before}
            self.record(request, "changed" if change else "added", obj, **({"before": before, "after": after} if change else {}))

    def delete_model(self, request: HttpRequest, obj: Model) -> None:
        self.record(request, "deleted", obj)
        super().delete_model(request, obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet) -> None:
        for obj in queryset:
            self.delete_model(request, obj)

    def record(self, request: HttpRequest, verb: str, obj: Model, **details: object) -> None:
        """Put an act on record: `environment changed`."""
        words, project = obj._meta.verbose_name, obj if isinstance(obj, Project) else getattr(obj, "project", None)
        kept = project if project and (verb != "deleted" or project is not obj) else None
        AuditEntry.record(f"{words} {verb}", f"{words} {obj}", request.user, kept, **details)


class LedgerAdmin(PlainAdmin):
    """Rows that workers and people wrote through their own faces: only looked at, and never counted.

    Where `is_large`, columns are sorted by no click, and the search and filters look among the newest rows: each of them would
    read a table of millions otherwise.
    """

    is_large = False
    paginator = InfinitePaginator

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def get_sortable_by(self, request: HttpRequest) -> tuple:
        return () if self.is_large else super().get_sortable_by(request)

    def get_search_results(self, request: HttpRequest, queryset: QuerySet, search_term: str) -> tuple[QuerySet, bool]:
        looked_at = among_newest(queryset) if self.is_large and search_term else queryset
        return super().get_search_results(request, looked_at, search_term)

    @property
    def search_help_text(self) -> str | None:
        return f"Looks among the newest {NEWEST:,}." if self.is_large else None


def looked_at(model: type[Model], *columns: str, fields: tuple[str, ...] | None = None) -> None:
    """Show the rows of a large table, which nothing else is to be said about: these columns in lists; on pages all, or `fields`."""
    named = [name for name in columns if model._meta.get_field(name).is_relation]
    told = {"is_large": True, "list_display": columns, "list_select_related": named or False, "fields": fields}
    admin.site.register(model, type(f"{model.__name__}Admin", (LedgerAdmin,), {**told, "ordering": ["-pk"]}))


def newest(field: str, *values: str) -> type[admin.SimpleListFilter]:
    """A filter of a large table by a field: of the values named, or of the field's choices; among its newest rows."""

    class Newest(admin.SimpleListFilter):
        title = f"{field.replace('_', ' ')}, of the newest {NEWEST:,}"
        parameter_name = field

        def lookups(self, request: HttpRequest, model_admin: ModelAdmin) -> list[tuple[str, str]]:
            return [(value, value) for value in values] or list(model_admin.model._meta.get_field(field).choices)

        def queryset(self, request: HttpRequest, queryset: QuerySet) -> QuerySet:
            return among_newest(queryset).filter(**{field: self.value()}) if self.value() else queryset

    return Newest


def among_newest(queryset: QuerySet) -> QuerySet:
    last = queryset.model.objects.aggregate(last=Max("pk"))["last"] or 0
    return queryset.filter(pk__gt=last - NEWEST)


def said(value: object) -> object:
    """As JSON can say it."""
    if isinstance(value, QuerySet | list | tuple | set):
        return [said(one) for one in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
