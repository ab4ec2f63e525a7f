"""The rows of a project beside those of its runs, in an order in which they can be deleted.

As with the rows of runs, the order follows from the foreign keys, so that a new model goes with its
project without being named here.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from graphlib import TopologicalSorter
from typing import Any, cast

from django.db import connection, models
from django.db.models import CASCADE, PROTECT, SET_NULL

from apps.accounts.models import Membership, Project
from apps.evaluation.models import Contestant, Pairing, Vote
from apps.runs.models import Run, RunRemoval
from apps.streaming.models import Topic
from workers.run_removal.rows import ROWS_AT_ONCE, Table, relations_to

# An arena's contestants are runs, which cannot go before them.
BEFORE_RUNS: tuple[Table, ...] = (Vote, Pairing, Contestant)
# They go with the project's own row: until then members follow the deletion.
WITH_PROJECT: tuple[Table, ...] = (Membership, RunRemoval)


@dataclass(frozen=True)
class Path:
    """A way from a table to the project: the lookup, such as `taskset__project`."""

    table: Table
    lookup: str


def _is_deleted_with_runs(table: Table) -> bool:
    """Tell whether each row of the table belongs to a run, with which it is deleted."""
    return any(
        field.remote_field.on_delete is CASCADE
        and not field.null
        and (field.related_model is Run or _is_deleted_with_runs(field.related_model))
        for field in _references(table)
    )


def _references(table: Table) -> list[models.ForeignKey[Any, Any]]:
    """Return the foreign keys of a table to other tables."""
    return [
        field
        for field in table._meta.concrete_fields
        if isinstance(field, models.ForeignKey) and field.related_model is not table
    ]


@cache
def paths_to_projects() -> tuple[Path, ...]:
    """Return how rows of each table belong to a project, tables before those they refer to.

    The project itself and its runs, with their rows, are left out.
    """
    paths_by_table: dict[Table, list[str]] = {}
    waiting: list[tuple[Table, str]] = [(Project, "")]
    while waiting:
        parent, lookup = waiting.pop(0)
        for relation in relations_to(parent):
            table, field = relation.related_model, relation.field.name
            is_held = relation.on_delete in (CASCADE, PROTECT)
            if not is_held or table in (Run, parent) or _is_deleted_with_runs(table):
                continue
            path = f"{field}__{lookup}" if lookup else field
            paths = paths_by_table.setdefault(table, [])
            if path not in paths:
                paths.append(path)
                waiting.append((table, path))
    before: dict[Table, set[Table]] = {table: set() for table in paths_by_table}
    for table in paths_by_table:
        for reference in _references(table):
            if reference.related_model in paths_by_table:
                before[reference.related_model].add(table)
    order = TopologicalSorter(before).static_order()
    return tuple(Path(table, lookup) for table in order for lookup in paths_by_table[table])


def batches_before_runs(project: int) -> Iterator[tuple[Table, list[int]]]:
    """Yield the keys of rows that must go before the runs, some of one table at a time."""
    return _batches(project, [path for path in paths_to_projects() if path.table in BEFORE_RUNS])


def batches_of_project(project: int) -> Iterator[tuple[Table, list[int]]]:
    """Yield the keys of the project's rows, the newest first, some of one table at a time."""
    return _batches(
        project, [path for path in paths_to_projects() if path.table not in WITH_PROJECT]
    )


def _batches(project: int, paths: Iterable[Path]) -> Iterator[tuple[Table, list[int]]]:
    for path in paths:
        newest_first = _rows(path, project).order_by("-pk").values_list("pk", flat=True)
        while some := list(dict.fromkeys(newest_first[:ROWS_AT_ONCE])):
            yield path.table, some


def _rows(path: Path, project: int) -> models.QuerySet[models.Model]:
    return path.table._base_manager.filter(**{path.lookup: project})


def count_project_rows(project: int) -> int:
    """Count the rows that the batches of the project will have, each once, without those of runs.

    The deletions of the runs count theirs.
    """
    rows_by_table: dict[Table, models.QuerySet[models.Model, Any]] = {}
    for path in paths_to_projects():
        if path.table in WITH_PROJECT:
            continue
        rows = _rows(path, project).filter(**_outside_runs(path)).order_by().values("pk")
        rows_by_table[path.table] = (
            rows_by_table[path.table].union(rows) if path.table in rows_by_table else rows
        )
    return sum(rows.count() for rows in rows_by_table.values())


def _outside_runs(path: Path) -> dict[str, None]:
    """Return the condition that neither a row nor its parents on the path belong to a run."""
    conditions: dict[str, None] = {}
    table, prefix = path.table, ""
    for part in path.lookup.split("__"):
        names = [
            field.name
            for field in _references(table)
            if field.related_model is Run and field.remote_field.on_delete is CASCADE
        ]
        conditions |= dict.fromkeys([f"{prefix}{name}" for name in names])
        if table is Topic:  # a run's topic goes with it
            conditions[f"{prefix}run"] = None
        table = cast("Table", table._meta.get_field(part).related_model)
        prefix += f"{part}__"
    return conditions


def delete_project_rows(table: Table, keys: list[int]) -> None:
    """Delete these rows, to which nothing refers any more but what may stay without them."""
    for relation in relations_to(table):
        if relation.on_delete is SET_NULL:
            name = relation.field.name
            rows = relation.related_model._base_manager.filter(**{f"{name}__in": keys})
            rows.update(**{name: None})
    table._base_manager.filter(pk__in=keys)._raw_delete(connection.alias)


def delete_project_row(project: int) -> None:
    """Delete the row of the project itself, with its memberships and the deletions of its runs."""
    for table in WITH_PROJECT:
        table._base_manager.filter(project=project)._raw_delete(connection.alias)
    delete_project_rows(Project, [project])
