"""Copies of rows made within the database, for tables with any columns."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.db import connection, models


def copied_rows(
    model: type[models.Model],
    key: str,
    ids: Mapping[int, int],
    where: str = "",
    values: Sequence[Any] = (),
    **instead: Any,
) -> int:
    """Copy the rows whose foreign key `key` is in `ids` (old id → new id); return how many.

    All columns are copied; those named in `instead` get the given value. `where` narrows the rows
    (the table is `o`), with `values` for its placeholders. One statement.
    """
    if not ids:
        return 0
    own_key = _column(model, key)
    fields = [
        field for field in model._meta.concrete_fields if field is own_key or not field.primary_key
    ]
    columns = [field.column for field in fields]
    fixed = {_column(model, name).column: value for name, value in instead.items()}
    chosen = [
        "m.new" if field is own_key else "%s" if field.column in fixed else f'o."{field.column}"'
        for field in fields
    ]
    table = f'"{model._meta.db_table}"'
    names = ", ".join(f'"{column}"' for column in columns)
    sql = (
        f"INSERT INTO {table} ({names}) SELECT {', '.join(chosen)} FROM {table} o "
        f'JOIN unnest(%s::bigint[], %s::bigint[]) m(old, new) ON o."{own_key.column}" = m.old'
        f"{f' WHERE {where}' if where else ''} ORDER BY o.{'ctid' if own_key.primary_key else 'id'}"
    )
    with connection.cursor() as cursor:
        cursor.execute(
            sql,
            [*(fixed[c] for c in columns if c in fixed), list(ids), list(ids.values()), *values],
        )
        return int(cursor.rowcount)


def _column(model: type[models.Model], name: str) -> "models.Field[Any, Any]":
    """Return the field with a column of this name. Raises FieldDoesNotExist."""
    field = model._meta.get_field(name)
    assert isinstance(field, models.Field)  # not a relation from another model, nor generic
    return field
