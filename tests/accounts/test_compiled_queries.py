"""Compiled queries: the same rows and changes as the query sets that they are written with."""

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from django.db import IntegrityError, connection, transaction
from django.db.models import F, QuerySet, Value
from django.db.models.functions import Upper
from django.db.transaction import TransactionManagementError
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

import apps
import workers
from apps.accounts.compiled_queries import Change, EqualsAny, compiled_query, compiled_update
from apps.accounts.locking import rows_to_lock
from apps.accounts.models import Project, User
from apps.runs.models import Run

pytestmark = pytest.mark.django_db


@compiled_query
def runs_of(project: int, states: list[str]) -> QuerySet[Run]:
    return (
        Run.objects.filter(EqualsAny("state", states), project=project)
        .select_related("project")
        .annotate(loud=Upper("slug"))
        .order_by("pk")
    )


@compiled_query
def read_run(pk: int) -> QuerySet[Run]:
    return Run.objects.filter(pk=pk)


@compiled_query
def locked_run(pk: int) -> QuerySet[Run]:
    return rows_to_lock(Run.objects.filter(pk=pk).only("slug"))


@compiled_update
def retitled(pk: int, title: str) -> Change:
    return Run.objects.filter(pk=pk), {"title": title, "step": F("step") + 1}


def test_objects_have_relations_annotations_and_converted_columns(run, django_assert_num_queries):
    with django_assert_num_queries(1):
        found = runs_of(run.project_id, [run.state, "paused"])
        assert [(one, one.loud, one.project) for one in found] == [(run, "RUN-0", run.project)]
        assert found[0].config == run.config
    assert runs_of(run.project_id, []) == []


def test_each_call_uses_its_own_arguments(new_run):
    runs = [new_run(), new_run()]
    for run in [*runs, *runs]:
        assert read_run(run.pk) == [run]


@pytest.mark.parametrize(("threshold", "is_prepared"), [(2, True), (None, False)])
def test_queries_are_prepared_only_if_the_connection_has_a_prepare_threshold(
    run, threshold, is_prepared
):
    connection.ensure_connection()
    usual = connection.connection.prepare_threshold
    connection.connection.prepare_threshold = threshold
    try:
        for _ in range(4):
            assert read_run(run.pk) == [run]
        with connection.cursor() as cursor:
            cursor.execute("SELECT statement FROM pg_prepared_statements")
            prepared = [statement for (statement,) in cursor.fetchall()]
    finally:
        connection.connection.prepare_threshold = usual
    assert any('"runs_run"."id" = ($1)' in one for one in prepared) == is_prepared


def test_constant_values_are_part_of_the_statement(run):
    @compiled_query
    def odd(pk: int) -> QuerySet[Run]:
        return Run.objects.filter(pk=pk).exclude(title="100 % o'clock, %s")

    with CaptureQueriesContext(connection) as captured:
        assert odd(run.pk) == [run]
    assert "'100 % o''clock, %s'" in captured[0]["sql"].replace("%%", "%")


def test_values_list_returns_tuples_or_flat_values():
    user = User.objects.create_user("ada")

    @compiled_query
    def names(pk: int) -> QuerySet[User, tuple[int, str]]:
        return User.objects.filter(pk=pk).values_list("pk", "username")

    @compiled_query
    def name(pk: int) -> QuerySet[User, str]:
        return User.objects.filter(pk=pk).values_list("username", flat=True)

    assert names(user.pk) == [(user.pk, "ada")]
    assert name(pk=user.pk) == ["ada"]


def test_update_changes_rows_and_returns_their_number(run):
    assert retitled(run.pk, "It's 100 % new") == 1
    assert retitled(run.pk + 1, "other") == 0
    changed = Run.objects.get(pk=run.pk)
    assert (changed.title, changed.step) == ("It's 100 % new", run.step + 1)


def test_failed_update_rolls_back_a_transaction_without_savepoint():
    project = Project.objects.create(slug="one", title="One")
    Project.objects.create(slug="two", title="Two")

    @compiled_update
    def renamed(pk: int, slug: str) -> Change:
        return Project.objects.filter(pk=pk), {"slug": slug}

    inner = transaction.atomic(savepoint=False)
    with pytest.raises(IntegrityError, match="two"), transaction.atomic(), inner:
        renamed(project.pk, "two")
    assert Project.objects.get(pk=project.pk).slug == "one"


def test_deferred_columns_are_loaded_on_access(run, django_assert_num_queries):
    found = locked_run(run.pk)[0]
    with django_assert_num_queries(0):
        assert found.slug == run.slug
    with django_assert_num_queries(1):
        assert found.title == run.title


@pytest.mark.django_db(transaction=True)
def test_row_locks_require_a_transaction(run):
    with pytest.raises(TransactionManagementError, match="within a transaction"):
        locked_run(run.pk)
    with transaction.atomic():
        with CaptureQueriesContext(connection) as seen:
            assert locked_run(run.pk) == [run]
        assert "FOR NO KEY UPDATE OF" in seen[0]["sql"]
    with pytest.raises(TransactionManagementError, match="within a transaction"):
        locked_run(run.pk)


def test_error_contains_the_name_of_a_missing_argument():
    with pytest.raises(TypeError, match="project"):
        runs_of(states=[])


def test_the_sql_cannot_depend_on_a_value():
    @compiled_query
    def newest(count: int) -> QuerySet[Run]:
        return Run.objects.all()[: count if count > 0 else 1]

    with pytest.raises(TypeError, match="cannot depend on the value of count"):
        newest(3)


def test_query_with_a_fixed_current_time_is_refused():
    @compiled_query
    def old() -> QuerySet[Run]:
        return Run.objects.filter(created_at__lt=timezone.now())

    with pytest.raises(TypeError, match=r"use Now\(\)"):
        old()


def test_prefetch_related_and_values_dicts_are_refused():
    @compiled_query
    def with_projects() -> QuerySet[Run]:
        return Run.objects.prefetch_related("steps")

    @compiled_query
    def by_name() -> QuerySet[Run]:
        return Run.objects.annotate(one=Value(1)).values("slug")

    with pytest.raises(TypeError, match="prefetch_related"):
        with_projects()
    with pytest.raises(TypeError, match="ValuesIterable"):
        by_name()


def test_every_compiled_query_of_the_product_compiles():
    """Otherwise a mistake in a query would be found only at its first use."""
    found = {
        f"{module.__name__}.{name}": part.compile
        for module in product_modules()
        for name, part in vars(module).items()
        if hasattr(part, "__wrapped__") and hasattr(part, "compile")
    }
    assert len(found) > 30
    for name, compile_query in found.items():
        assert compile_query(), name


def product_modules() -> Iterator[ModuleType]:
    for package in (apps, workers):
        for folder in package.__path__:
            for found in Path(folder).rglob("*.py"):
                if "compiled_queries import" in found.read_text():
                    relative = found.relative_to(Path(folder).parent).with_suffix("")
                    yield importlib.import_module(".".join(relative.parts))
