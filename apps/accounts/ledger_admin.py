"""Base classes of administration pages: lists that stay fast, and read-only history rows.

Every change made here is written to the audit log, in the transaction that makes it.
"""

from typing import ClassVar, Generic, TypeVar

from django.contrib import admin
from django.core.paginator import Paginator
from django.db.models import Max, Model, QuerySet
from django.db.models.expressions import Combinable
from django.forms import ModelForm
from django.http import HttpRequest
from unfold import paginator
from unfold.admin import ModelAdmin

from apps.accounts.models import AuditEntry, Project

ROWS_A_PAGE = 50
MAX_PAGED = 10_000  # rows reachable by paging; beyond them people use a filter
NEWEST = 100_000  # newest rows of a large table that filters and search cover
NEVER_TOLD = {"password", "data"}
Row = TypeVar("Row", bound=Model)


class InfinitePaginator(paginator.InfinitePaginator):
    """A paginator that counts no rows: a full page has a next page.

    The theme's templates know it by its name.
    """

    count = MAX_PAGED


class PlainAdmin(ModelAdmin, Generic[Row]):
    """Rows that people may edit, a few thousand at most; fifty on a page, newest first."""

    show_full_result_count = False
    list_per_page = ROWS_A_PAGE
    list_fullwidth = True
    ordering: ClassVar[list[str | Combinable] | tuple[str | Combinable, ...] | None] = ("-pk",)

    def save_model(self, request: HttpRequest, obj: Row, form: ModelForm, change: bool) -> None:
        super().save_model(request, obj, form, change)
        before = {
            name: as_json_value(form.initial.get(name))
            for name in form.changed_data
            if name not in NEVER_TOLD
        }
        if before or not change:
            after = {name: as_json_value(form.cleaned_data.get(name)) for name in before}
            self.record(
                request,
                "changed" if change else "added",
                obj,
                **({"before": before, "after": after} if change else {}),
            )

    def delete_model(self, request: HttpRequest, obj: Row) -> None:
        self.record(request, "deleted", obj)
        super().delete_model(request, obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet) -> None:
        for obj in queryset:
            self.delete_model(request, obj)

    def record(self, request: HttpRequest, verb: str, obj: Row, **details: object) -> None:
        """Write an action such as `environment changed` to the audit log."""
        kind = obj._meta.verbose_name
        project = obj if isinstance(obj, Project) else getattr(obj, "project", None)
        entry_project = project if project and (verb != "deleted" or project is not obj) else None
        AuditEntry.record(f"{kind} {verb}", f"{kind} {obj}", request.user, entry_project, **details)


class LedgerAdmin(PlainAdmin):
    """Read-only rows that workers and people created elsewhere; they are never counted.

    With `is_large`, columns cannot be sorted, and search and filters cover only the newest rows:
    otherwise each of them would read a table of millions of rows.
    """

    is_large = False
    paginator: type[Paginator] = InfinitePaginator

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def get_sortable_by(self, request: HttpRequest) -> tuple:
        return () if self.is_large else super().get_sortable_by(request)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet, search_term: str
    ) -> tuple[QuerySet, bool]:
        looked_at = among_newest(queryset) if self.is_large and search_term else queryset
        return super().get_search_results(request, looked_at, search_term)

    @property
    def search_help_text(self) -> str | None:
        return f"Looks among the newest {NEWEST:,}." if self.is_large else None


def register_read_only(
    model: type[Model], *columns: str, fields: tuple[str, ...] | None = None
) -> None:
    """Register read-only pages for a large table.

    `columns` are shown in lists; single rows show all fields, or `fields`.
    """
    relations = [name for name in columns if model._meta.get_field(name).is_relation]
    attributes = {
        "is_large": True,
        "list_display": columns,
        "list_select_related": relations or False,
        "fields": fields,
    }
    admin.site.register(
        model, type(f"{model.__name__}Admin", (LedgerAdmin,), {**attributes, "ordering": ["-pk"]})
    )


def newest_rows_filter(field: str, *values: str) -> type[admin.SimpleListFilter]:
    """Return a filter by a field that covers only the newest rows of a large table.

    It offers the given values, or the field's choices.
    """

    class Newest(admin.SimpleListFilter):
        title = f"{field.replace('_', ' ')}, of the newest {NEWEST:,}"
        parameter_name = field

        def lookups(self, request: HttpRequest, model_admin: ModelAdmin) -> list[tuple[str, str]]:
            return [(value, value) for value in values] or list(
                model_admin.model._meta.get_field(field).choices
            )

        def queryset(self, request: HttpRequest, queryset: QuerySet) -> QuerySet:
            return (
                among_newest(queryset).filter(**{field: self.value()}) if self.value() else queryset
            )

    return Newest


def among_newest(queryset: QuerySet) -> QuerySet:
    last = queryset.model.objects.aggregate(last=Max("pk"))["last"] or 0
    return queryset.filter(pk__gt=last - NEWEST)


def as_json_value(value: object) -> object:
    """Convert a value to something that JSON can represent."""
    if isinstance(value, QuerySet | list | tuple | set):
        return [as_json_value(item) for item in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
