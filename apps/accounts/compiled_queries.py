"""Compiled queries: written with the ORM, compiled once, and run with other values each time.

Building a query set and its SQL costs 0.5 to 2 ms of processor time, several times as much as
PostgreSQL needs for a row by key. Use these for statements that run for each step, turn or rating.
Each connection prepares them, so that PostgreSQL plans them once too.

    @compiled_query
    def runs_under(pk: int, fence: int) -> QuerySet[Run]:
        return rows_to_lock(Run.objects.filter(pk=pk, fence=fence))

    runs_under(3, 17)  # a list of runs

The function is called once, with a `Parameter` for each argument, so it must not decide anything by
their values. Values reach the database as psycopg adapts them: no field converts them first. All
other values of the statement are written into its SQL, where partial indexes can be matched by
them.
"""

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, NoReturn, ParamSpec, TypeVar

from django.db import connection
from django.db.backends.postgresql.base import ServerBindingCursor
from django.db.backends.utils import CursorWrapper
from django.db.models import BooleanField, Expression, F, Func, Model, QuerySet
from django.db.models.query import (
    FlatValuesListIterable,
    ModelIterable,
    ValuesListIterable,
    get_related_populators,
)
from django.db.models.sql import UpdateQuery
from django.db.transaction import TransactionManagementError, mark_for_rollback_on_error
from psycopg.sql import Literal

from apps.accounts.locking import is_locking

P = ParamSpec("P")
Row = TypeVar("Row")
M = TypeVar("M", bound=Model)

ESCAPED_PERCENT = "%%"
PLACES = re.compile(rf"{ESCAPED_PERCENT}|%s")


class Parameter(Expression):
    """The place of a value that each run of a compiled query gives."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def __repr__(self) -> str:
        return f"Parameter({self.name})"

    def as_sql(self, *_: Any, **__: Any) -> tuple[str, tuple[Any, ...]]:
        return "%s", (self,)

    def _refuse(self, *_: object) -> NoReturn:
        raise TypeError(f"the SQL of a compiled query cannot depend on the value of {self.name}")

    __int__ = __float__ = __lt__ = __gt__ = _refuse


class EqualsAny(Func):
    """The condition that a column has one of the values of an array: `EqualsAny("pk", ids)`.

    `pk__in` writes each value into the statement, so its SQL depends on how many there are.
    """

    arity = 2
    arg_joiner = " = ANY "
    template = "%(expressions)s"

    def __init__(self, column: str, values: Sequence[Any]) -> None:
        super().__init__(F(column), Func(values, template="(%(expressions)s)"))
        self.output_field = BooleanField()


class _Statement:
    """SQL with a place for each value that a run gives; the other values are part of it."""

    def __init__(self, sql: str, values: Iterable[Any]) -> None:
        values = list(values)
        if any(isinstance(value, datetime) for value in values):
            raise TypeError("a compiled query would keep this time for ever: use Now()")
        self.names = [value.name for value in values if isinstance(value, Parameter)]
        place = iter(values)
        self.sql = PLACES.sub(lambda match: _literal(match[0], place), sql)

    def bound(self, values: Mapping[str, Any]) -> list[Any]:
        return [values[name] for name in self.names]


def _literal(place: str, values: Iterator[Any]) -> str:
    """Return what stands at a place of the SQL: the next value, unless a run gives it."""
    if place == ESCAPED_PERCENT:
        return place
    value = next(values)
    if isinstance(value, Parameter):
        return place
    return Literal(value).as_string(connection.connection).replace("%", ESCAPED_PERCENT)


def prepared_cursor() -> CursorWrapper:
    """Return a cursor that sends values apart from the SQL, so that statements are prepared.

    Django's own cursors write the values into the SQL, and PostgreSQL plans each statement anew.
    Without prepared statements (RFTWEB_PREPARE=0), it is one of these.
    """
    connection.ensure_connection()
    session = connection.connection
    if session.prepare_threshold is None:
        return connection.cursor()
    usual = session.cursor_factory
    session.cursor_factory = ServerBindingCursor
    try:
        return connection.cursor()
    finally:
        session.cursor_factory = usual


def _parameters(function: Callable[..., Any]) -> dict[str, Any]:
    return {name: Parameter(name) for name in inspect.signature(function).parameters}


def compiled_query(build: Callable[P, QuerySet[Any, Row]]) -> Callable[P, list[Row]]:
    """Return a function that runs the query of `build` with new values and returns its rows.

    For queries of objects (`select_related`, `only` and annotations included), `values_list`, and
    `values_list(flat=True)`. Raises TransactionManagementError where a query locks rows outside of
    a transaction, and TypeError for other kinds of query.
    """

    @functools.cache
    def compiled() -> "_Select":
        return _Select(build(**_parameters(build)))  # type: ignore[call-arg] # all are given

    arguments = inspect.signature(build)

    @functools.wraps(build)
    def run(*values: P.args, **keywords: P.kwargs) -> list[Row]:
        return list(compiled().rows(arguments.bind(*values, **keywords).arguments))

    run.compile = compiled  # type: ignore[attr-defined] # for the test that compiles each
    return run


class _Select:
    """A compiled query with what turns its rows into objects or tuples."""

    def __init__(self, rows: QuerySet[Any, Any]) -> None:
        kind = rows._iterable_class
        if kind not in (ModelIterable, ValuesListIterable, FlatValuesListIterable):
            raise TypeError(f"a query of {kind.__name__} cannot be compiled once")
        if rows._prefetch_related_lookups:  # type: ignore[attr-defined]
            raise TypeError("a query with prefetch_related cannot be compiled once")
        self.locks = is_locking(rows)
        # The compiler is not kept: it would hold this thread's connection open.
        compiler = rows.query.get_compiler(using=connection.alias)
        self.statement = _Statement(*compiler.as_sql())
        self.select, self.class_info = compiler.select, compiler.klass_info
        self.annotations = compiler.annotation_col_map
        columns = [column for column, *_ in self.select[: compiler.col_count]]
        self.converters = compiler.get_converters(columns)
        readers: dict[type, Callable[[Iterable[Sequence[Any]]], Iterator[Any]]] = {
            ModelIterable: self._objects,
            ValuesListIterable: self._tuples,
            FlatValuesListIterable: self._first_columns,
        }
        self.read_rows = readers[kind]

    def rows(self, values: Mapping[str, Any]) -> Iterable[Any]:
        if self.locks and connection.get_autocommit():
            raise TransactionManagementError("rows are locked within a transaction only")
        return self.of(self.statement, values)

    def of(self, statement: _Statement, values: Mapping[str, Any]) -> Iterable[Any]:
        """Return the rows of a statement that has the columns of this query."""
        with prepared_cursor() as cursor:
            cursor.execute(statement.sql, statement.bound(values))
            rows: Iterable[Sequence[Any]] = cursor.fetchall()
        return self.read_rows(map(self._convert_row, rows) if self.converters else rows)

    def _convert_row(self, row: Sequence[Any]) -> Sequence[Any]:
        """Return a row with the values that fields make of those of the database, such as JSON."""
        values = list(row)
        for place, (converters, column) in self.converters.items():
            for convert in converters:
                values[place] = convert(values[place], column, connection)
        return values

    def _tuples(self, rows: Iterable[Sequence[Any]]) -> Iterator[tuple[Any, ...]]:
        return map(tuple, rows)

    def _first_columns(self, rows: Iterable[Sequence[Any]]) -> Iterator[Any]:
        return (row[0] for row in rows)

    def _objects(self, rows: Iterable[Sequence[Any]]) -> Iterator[Any]:
        """Make the objects of these rows as Django's ModelIterable does."""
        fields = self.class_info["select_fields"]
        first, last = fields[0], fields[-1] + 1
        names = [column.target.attname for column, *_ in self.select[first:last]]
        related = get_related_populators(  # type: ignore[call-arg] # stubs of a newer Django
            self.class_info, self.select, connection.alias
        )
        for row in rows:
            instance = self.class_info["model"].from_db(connection.alias, names, row[first:last])
            for populator in related:
                populator.populate(row, instance)
            for name, place in self.annotations.items():
                setattr(instance, name, row[place])
            yield instance


Change = tuple[QuerySet[Any, Any], dict[str, Any]]


def compiled_update(build: Callable[P, Change]) -> Callable[P, int]:
    """Return a function that runs an UPDATE with new values and returns the number of rows.

    The function that is wrapped returns the rows, and their new values by name, as it would give
    them to `QuerySet.update`.
    """

    @functools.cache
    def compiled() -> _Statement:
        rows, changes = build(**_parameters(build))  # type: ignore[call-arg] # all are given
        query = rows.query.chain(UpdateQuery)
        assert isinstance(query, UpdateQuery)
        query.add_update_values(changes)
        query.clear_select_clause()
        return _Statement(*query.get_compiler(using=connection.alias).as_sql())

    arguments = inspect.signature(build)

    @functools.wraps(build)
    def run(*values: P.args, **keywords: P.kwargs) -> int:
        bound = compiled().bound(arguments.bind(*values, **keywords).arguments)
        with mark_for_rollback_on_error(using=connection.alias), prepared_cursor() as cursor:
            cursor.execute(compiled().sql, bound)
            return int(cursor.rowcount)

    run.compile = compiled  # type: ignore[attr-defined] # for the test that compiles each
    return run


@dataclass(frozen=True)
class Returning(Generic[M]):
    """A statement that returns all columns of rows of `model`, in the order of its fields."""

    model: type[M]
    sql: str
    values: Sequence[Any]


def compiled_returning(build: Callable[P, Returning[M]]) -> Callable[P, list[M]]:
    """Return a function that runs this statement with new values and returns its objects."""

    @functools.cache
    def compiled() -> tuple[_Statement, _Select]:
        returning = build(**_parameters(build))  # type: ignore[call-arg] # all are given
        return _Statement(returning.sql, returning.values), _Select(
            returning.model._base_manager.all()
        )

    arguments = inspect.signature(build)

    @functools.wraps(build)
    def run(*values: P.args, **keywords: P.kwargs) -> list[M]:
        statement, rows = compiled()
        return list(rows.of(statement, arguments.bind(*values, **keywords).arguments))

    run.compile = compiled  # type: ignore[attr-defined] # for the test that compiles each
    return run
