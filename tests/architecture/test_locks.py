"""Only apps.accounts.locking locks rows, and never in a way that blocks foreign keys."""

import ast
import re
from functools import cache

import pytest

from tests.architecture.test_imports import ROOT, modules

THE_HELPER = ROOT / "apps" / "accounts" / "locking.py"
CONCERNED = re.compile(r"select_for_update|update_or_create|\bFOR\s+UPDATE\b", re.I)
BLOCKS_KEYS = re.compile(r"\bFOR\s+UPDATE\b", re.I)
# These lock with a plain FOR UPDATE, which is allowed if no foreign key references the table.
UPDATE_OR_CREATE = {"Adjudication", "Acknowledgement", "ChartView", "Prices"}


@cache
def parsed() -> list[tuple[str, ast.Module]]:
    """Parse only the modules that contain the searched names, as parsing all takes seconds."""
    files = [(name, path.read_text()) for name, path in modules() if path != THE_HELPER]
    return [(name, ast.parse(text)) for name, text in files if CONCERNED.search(text)]


def docstrings(tree: ast.Module) -> set[int]:
    """Return the ids of the nodes that are docstrings."""
    owners = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    bodies = [node.body for node in ast.walk(tree) if isinstance(node, owners) and node.body]
    return {id(body[0].value) for body in bodies if isinstance(body[0], ast.Expr)}


def test_only_the_helper_selects_for_update():
    guilty = [
        (name, node.lineno)
        for name, tree in parsed()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr == "select_for_update"
    ]
    assert guilty == []


def test_raw_sql_locks_rows_without_blocking_foreign_keys():
    guilty = [
        (name, node.lineno)
        for name, tree in parsed()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if BLOCKS_KEYS.search(node.value) and id(node) not in docstrings(tree)
    ]
    assert guilty == []


def test_update_or_create_is_used_only_for_models_without_referencing_keys():
    from django.apps import apps

    models = {model.__name__: model for model in apps.get_models()}
    pointed_at = {
        name: [relation.name for relation in models[name]._meta.related_objects]
        for name in UPDATE_OR_CREATE
    }
    assert not any(pointed_at.values()), pointed_at
    calls = sum(
        isinstance(node, ast.Attribute) and node.attr == "update_or_create"
        for _, tree in parsed()
        for node in ast.walk(tree)
    )
    assert calls == len(UPDATE_OR_CREATE)


@pytest.mark.parametrize(
    ("sql", "blocks"),
    [("SELECT 1 FOR UPDATE", True), ("SELECT 1 FOR NO KEY UPDATE OF s SKIP LOCKED", False)],
)
def test_pattern_distinguishes_the_two_locks(sql, blocks):
    assert bool(BLOCKS_KEYS.search(sql)) is blocks
