"""CreateModels: the same tables and state as one CreateModel for each model."""

import pytest
from django.db import connection, models
from django.db.migrations import CreateModel
from django.db.migrations.state import ProjectState
from django.db.migrations.writer import MigrationWriter

from apps.accounts.create_models import CreateModels

ONE_BY_ONE = [
    CreateModel("Shelf", [("id", models.BigAutoField(primary_key=True))]),
    CreateModel(
        "Book",
        [
            ("id", models.BigAutoField(primary_key=True)),
            ("shelf", models.ForeignKey("library.shelf", models.CASCADE)),
        ],
    ),
]
TOGETHER = CreateModels(ONE_BY_ONE)
TABLES = {"library_shelf", "library_book"}


def test_state_equals_that_of_separate_create_model_operations():
    state, expected = ProjectState(), ProjectState()
    TOGETHER.state_forwards("library", state)
    for operation in ONE_BY_ONE:
        operation.state_forwards("library", expected)
    assert state == expected


@pytest.mark.django_db
def test_tables_are_created_and_dropped_in_an_order_that_foreign_keys_allow():
    before, after = ProjectState(), ProjectState()
    TOGETHER.state_forwards("library", after)
    with connection.schema_editor() as editor:
        TOGETHER.database_forwards("library", editor, before, after)
    assert set(connection.introspection.table_names()) >= TABLES
    with connection.schema_editor() as editor:
        TOGETHER.database_backwards("library", editor, after, before)
    assert not TABLES & set(connection.introspection.table_names())


def test_operation_can_be_serialized_into_a_migration():
    text, imports = MigrationWriter.serialize(TOGETHER.models)
    assert text.startswith("[migrations.CreateModel(") and imports
    assert TOGETHER.describe() == "Create models Shelf, Book"
