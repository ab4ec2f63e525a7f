"""The rows of a run, in an order in which small transactions can delete them.

The order follows from the models' foreign keys: a table comes before those that it refers to. A new
model is therefore deleted with the run without being named here.
"""

from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter

from django.db import connection, models
from django.db.models import CASCADE, SET_NULL

from apps.feedback.models import Demonstration, Preference, Thumb
from apps.runs.models import Run
from apps.streaming.models import Event, Topic

ROWS_AT_ONCE = 1_000  # of a table that no other row goes with
PARENTS_AT_ONCE = 100  # of a table with dependents, of which each row has several
Table = type[models.Model]
# Lessons are the project's: they stay, and no longer name the run or its rollouts.
LEFT: tuple[tuple[Table, str], ...] = (
    (Demonstration, "run"),
    (Preference, "run"),
    (Preference, "chosen_rollout"),
    (Preference, "rejected_rollout"),
    (Thumb, "run"),
)


def relations_to(table: Table) -> Iterator[models.ForeignObjectRel]:
    """Yield the foreign keys of all tables that refer to this one."""
    for relation in table._meta.get_fields(include_hidden=True):
        # Relations of models are reverse ones; a model's own foreign keys are fields.
        if isinstance(relation, models.ManyToOneRel):
            yield relation


@cache
def tables_of_runs() -> tuple[Table, ...]:
    """Return every table whose rows go with a run, each before the tables that it refers to."""
    tables: set[Table] = set()
    waiting: list[Table] = [Run]
    while waiting:
        for relation in relations_to(waiting.pop()):
            table = relation.related_model
            if relation.on_delete is CASCADE and table not in tables:
                tables.add(table)
                waiting.append(table)
    before: dict[Table, set[Table]] = {table: set() for table in tables}
    for table in tables:
        for field in table._meta.concrete_fields:
            target = field.related_model
            if target in tables and target is not table:
                before[target].add(table)
    return tuple(TopologicalSorter(before).static_order())


def named_by_run(table: Table) -> list[str]:
    """Return the fields by which the rows of a table name the run that they go with."""
    return [
        relation.field.name
        for relation in relations_to(Run)
        if relation.related_model is table and relation.on_delete is CASCADE
    ]


def batches_of(run: Run) -> Iterator[tuple[Table, list[int]]]:
    """Yield the keys of the run's rows, the newest first, some of one table at a time.

    Rows that name no run themselves go with the rows that they belong to (`delete_rows`).
    """
    for table in tables_of_runs():
        for field in named_by_run(table):
            yield from _batches(table, table._base_manager.filter(**{field: run.pk}))
    yield from _batches(Event, Event.objects.filter(topic=run.topic_id))


def _batches(
    table: Table, rows: models.QuerySet[models.Model]
) -> Iterator[tuple[Table, list[int]]]:
    """Walk by key, so that no batch reads again what the ones before it have deleted."""
    newest_first = rows.order_by("-pk").values_list("pk", flat=True)
    size = PARENTS_AT_ONCE if any(relations_to(table)) else ROWS_AT_ONCE
    some = list(newest_first[:size])
    while some:
        yield table, some
        some = list(newest_first.filter(pk__lt=some[-1])[:size])


def count_rows(run: Run) -> int:
    """Count the rows that the batches of the run will have."""
    rows = Event.objects.filter(topic=run.topic_id).count()
    for table in tables_of_runs():
        for field in named_by_run(table):
            rows += table._base_manager.filter(**{field: run.pk}).count()
    return rows


def delete_rows(table: Table, keys: list[int]) -> None:
    """Delete these rows and everything that goes with them; one statement per table.

    What stays and refers to them no longer does. Call it in a transaction.
    """
    going = _with_dependents(table, keys)
    for model in (*tables_of_runs(), Event, Run, Topic):
        if model in going:
            _forget(model, going[model])
            model._base_manager.filter(pk__in=going[model])._raw_delete(connection.alias)


def _with_dependents(table: Table, keys: list[int]) -> dict[Table, set[int]]:
    """Return the keys of these rows and of all that are deleted with them, by table."""
    going: dict[Table, set[int]] = defaultdict(set)
    waiting: list[tuple[Table, set[int]]] = [(table, set(keys))]
    while waiting:
        parent, keys_of_rows = waiting.pop()
        new = keys_of_rows - going[parent]
        going[parent] |= new
        for relation in relations_to(parent):
            if new and relation.on_delete is CASCADE:
                child = relation.related_model
                rows = child._base_manager.filter(**{f"{relation.field.name}__in": new})
                if depending := set(rows.values_list("pk", flat=True)):
                    waiting.append((child, depending))
    return going


def _forget(table: Table, keys: set[int]) -> None:
    """Empty the references of rows that stay."""
    for relation in relations_to(table):
        name = relation.field.name
        is_left = (relation.related_model, name) in LEFT
        if relation.on_delete is SET_NULL or is_left:
            rows = relation.related_model._base_manager.filter(**{f"{name}__in": keys})
            rows.update(**{name: None})
