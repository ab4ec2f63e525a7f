"""Loading of a planned batch: everything that its step reads, in one binary COPY.

Through the ORM, a batch of 64 rollouts of 1,024 tokens took three times as long: it makes 200
objects field by field, and receives each byte of the arrays as two hexadecimal digits.
"""

from collections.abc import Sequence
from typing import Any, TypeVar

from django.db import connection, models
from django.db.models.base import ModelState

from apps.buffer.credit import Credit
from apps.buffer.models.experiences import Experience
from apps.rollouts.models import Rollout
from apps.rollouts.payload import unpack_payload
from apps.runs.models import TrainStep

M = TypeVar("M", bound=models.Model)

# Columns with their types in PostgreSQL, in the order of LOAD. Of a rollout, `text` and `turns` are
# left out: no step reads them, and they may be long. Django reads them when they are asked for.
ITEM = {"advantage": "float8", "token_advantages": "bytea", "is_again": "bool", "left_out": "text"}
EXPERIENCE = {
    "id": "int8",
    "run_id": "int8",
    "group_id": "int8",
    "rollout_id": "int8",
    "kind": "text",
    "state": "text",
    "reason": "text",
    "reward": "float8",
    "advantage": "float8",
    "weight_version": "int4",
    "uses": "int4",
    "created_at": "timestamptz",
}
ROLLOUT = {
    "id": "int8",
    "run_id": "int8",
    "group_id": "int8",
    "sample_index": "int2",
    "origin": "text",
    "state": "text",
    "stop_reason": "text",
    "prompt_tokens": "int4",
    "completion_tokens": "int4",
    "first_version": "int4",
    "last_version": "int4",
    "started_at": "timestamptz",
    "finished_at": "timestamptz",
    "arrays_released_at": "timestamptz",
}
TYPES = [*ITEM.values(), *EXPERIENCE.values(), *ROLLOUT.values(), "bytea"]


def _column_list(table: str, columns: dict[str, str]) -> str:
    return ", ".join(f"{table}.{name}" for name in columns)


LOAD = f"""
    COPY (SELECT {_column_list("item", ITEM)}, {_column_list("one", EXPERIENCE)},
            {_column_list("r", ROLLOUT)}, payload.data
        FROM buffer_stepitem item
        JOIN buffer_experience one ON one.id = item.experience_id
        JOIN rollouts_rollout r ON r.id = one.rollout_id
        LEFT JOIN rollouts_rolloutpayload payload ON payload.rollout_id = r.id
        WHERE item.step_id = %d ORDER BY item.position)
    TO STDOUT (FORMAT BINARY)"""


def batch_of(step: TrainStep) -> list[Experience]:
    """Return the step's experiences in their recorded order, with rollouts and their arrays.

    Each has its `credit`, `is_again` and `left_out` set from the step's items. The arrays of a
    rollout that retention released are missing: its `tokens` raises ArraysReleased.
    """
    # The number is put in here: Django's cursor passes on no parameters of a COPY when it debugs.
    with connection.cursor() as cursor, cursor.copy(LOAD % step.pk) as copy:
        copy.set_types(TYPES)
        return [_experience(row) for row in copy.rows()]


def _experience(row: Sequence[Any]) -> Experience:
    """Return the experience of one row of LOAD."""
    first, second = len(ITEM), len(ITEM) + len(EXPERIENCE)
    experience = _stored_instance(Experience, EXPERIENCE, row[first:second])
    rollout = _stored_instance(Rollout, ROLLOUT, row[second:-1])
    if row[-1] is not None:
        rollout.read_tokens = unpack_payload(row[-1])
    experience._state.fields_cache["rollout"] = rollout
    advantage, token_advantages, experience.is_again, experience.left_out = row[:first]
    if advantage is not None:
        experience.credit = Credit.unpack(advantage, token_advantages)
    return experience


def _stored_instance(model: type[M], columns: dict[str, str], values: Sequence[Any]) -> M:
    """Return a stored object with these columns; Django reads others when they are asked for."""
    instance = model.__new__(model)
    instance._state = ModelState()
    instance._state.adding = False
    instance._state.db = connection.alias
    instance.__dict__.update(zip(columns, values, strict=True))
    return instance
