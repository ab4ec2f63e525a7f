"""Collect the regular expressions that the source compiles, with their locations."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOPS = ("apps", "rftweb", "workers", "clients")
ANCHORED = {"match", "fullmatch"}
FUNCTIONS = {"compile", "search", "findall", "finditer", "split", "sub", "subn", *ANCHORED}
FIELDS = {"RegexField", "RegexValidator"}  # functions of Django whose first argument is a pattern


@dataclass(frozen=True)
class Expression:
    """A pattern as written in the source.

    `method`: search; or match or fullmatch if the pattern is used only with these.
    """

    place: str
    pattern: str
    flags: int
    method: str


@cache
def expressions() -> list[Expression]:
    files = [
        path
        for top in TOPS
        for path in sorted((ROOT / top).rglob("*.py"))
        if "migrations" not in path.parts
    ]
    return [found for path in files for found in _in_file(path)]


def _in_file(path: Path) -> Iterator[Expression]:
    tree = ast.parse(path.read_text())
    constants = _constants(tree)
    names = {id(node.value): node.targets[0].id for node in ast.walk(tree) if _names_one(node)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        method = _method(node.func)
        if method and (pattern := _text(node.args[0], constants)) is not None:
            is_named = method == "compile" and id(node) in names
            used = _methods_of(tree, names[id(node)]) if is_named else {method}
            anchored = next(iter(used)) if len(used) == 1 and used <= ANCHORED else "search"
            place = f"{path.relative_to(ROOT)}:{node.lineno}"
            yield Expression(place, pattern, _flags(node), anchored)


def _names_one(node: ast.AST) -> bool:
    is_assigned = (
        isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and len(node.targets) == 1
    )
    return is_assigned and isinstance(node.targets[0], ast.Name)


def _methods_of(tree: ast.Module, name: str) -> set[str]:
    """Return how the module applies the pattern of this name; another value if it passes it on."""
    uses = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
    ]
    called = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    ]
    methods = {node.attr for node in called if node.value.id == name}
    applied = sum(node.value.id == name for node in called)
    return methods if applied == len(uses) and methods else {"search"}


def _method(function: ast.expr) -> str:
    """Return the name of a function of `re` or of a field, or "" for another function."""
    if (
        isinstance(function, ast.Attribute)
        and isinstance(function.value, ast.Name)
        and function.value.id == "re"
    ):
        return function.attr if function.attr in FUNCTIONS else ""
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return "compile" if name in FIELDS else ""


def _constants(tree: ast.Module) -> dict[str, str]:
    """Return the module's string constants by name."""
    found: dict[str, str] = {}
    for node in tree.body:
        if (
            isinstance(node, ast.Assign)
            and len(node.targets) == 1
            and isinstance(node.targets[0], ast.Name)
        ):
            text = _text(node.value, found)
            if text is not None:
                found[node.targets[0].id] = text
    return found


def _text(node: ast.expr, constants: dict[str, str]) -> str | None:
    """Return the string that the expression builds from string literals and constants; else
    None.
    """
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.Constant(value=bytes(raw)):
            return raw.decode("latin-1")
        case ast.Name(id=name):
            return constants.get(name)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            parts = [_text(left, constants), _text(right, constants)]
        case ast.JoinedStr(values=values):
            inner = [
                value.value if isinstance(value, ast.FormattedValue) else value for value in values
            ]
            parts = [_text(value, constants) for value in inner]
        case _:
            return None
    return None if None in parts else "".join(parts)


def _flags(call: ast.Call) -> int:
    """Return the flags of the call, such as `re.IGNORECASE | re.ASCII`."""
    arguments = [*call.args[1:], *(keyword.value for keyword in call.keywords)]
    names = {
        node.attr for one in arguments for node in ast.walk(one) if isinstance(node, ast.Attribute)
    }
    found = [getattr(re, name, None) for name in names]
    return sum(int(flag) for flag in found if isinstance(flag, re.RegexFlag))
