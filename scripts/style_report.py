#!/usr/bin/env python3
"""Measure how the source reads and print one table: the output of `make style`.

Migrations, tests and vendored files are left out. A row that misses its aim is marked, and the
script ends with status 1. Standard library only.
"""

from __future__ import annotations

import ast
import re
import statistics
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("apps", "bench", "clients", "rftweb", "scripts", "workers")
PACKAGES = ("apps", "rftweb", "workers")
MAX_LINE_BYTES = 100
# A docstring that begins with one of these describes the thing by a riddle instead of a verb.
RIDDLES = frozenset(
    """
    who whose whom what which where when why how that those these this it its they he she we as if
    so for by with without of from in on at to until since while because
    """.split()  # noqa: SIM905
)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass
class Row:
    """One line of the table: a figure, its aim in words, and whether the aim is met."""

    name: str
    value: str
    aim: str
    is_met: bool


@dataclass
class Measured:
    """Everything that the table needs, gathered over all files."""

    files: int = 0
    lines: int = 0
    largest: tuple[int, str] = (0, "")
    long_lines: int = 0
    format_comments: int = 0
    packed: int = 0
    function_lines: list[int] = field(default_factory=list)
    function_nodes: list[int] = field(default_factory=list)
    body_nodes: int = 0
    body_lines: int = 0
    docstrings: int = 0
    riddles: int = 0
    public: Counter = field(default_factory=Counter)

    def add(self, path: Path) -> None:
        """Measure one file."""
        text = path.read_text()
        lines = text.splitlines()
        tree = ast.parse(text)
        self.files += 1
        self.lines += len(lines)
        self.largest = max(self.largest, (len(lines), str(path.relative_to(ROOT))))
        self.long_lines += sum(len(line) > MAX_LINE_BYTES for line in lines)
        self.format_comments += len(re.findall(r"#\s*fmt:", text)) if path != Path(__file__) else 0
        self.packed += sum(is_packed_assignment(node) for node in ast.walk(tree))
        for node in ast.walk(tree):
            if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
                self._add_docstring(node)
            if isinstance(node, FUNCTIONS):
                self._add_function(node)
        for node in tree.body:
            if isinstance(node, FUNCTIONS) and not node.name.startswith("_"):
                self.public[node.name] += 1

    def _add_docstring(self, node: ast.AST) -> None:
        text = ast.get_docstring(node)
        if not text:
            return
        first = re.split(r"[^\w']", text.strip(), maxsplit=1)[0].lower()
        self.docstrings += 1
        self.riddles += first in RIDDLES

    def _add_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        body = node.body[1:] if ast.get_docstring(node) is not None else node.body
        self.function_lines.append(node.end_lineno - node.lineno + 1)
        if body:
            self.body_lines += body[-1].end_lineno - body[0].lineno + 1
            nodes = sum(1 for part in body for _ in ast.walk(part))
            self.body_nodes += nodes
            self.function_nodes.append(nodes)


def main() -> int:
    measured = Measured()
    for path in source_files():
        measured.add(path)
    rows = build_table(measured)
    width = max(len(row.name) for row in rows)
    for row in rows:
        mark = " " if row.is_met else "!"
        print(f"{mark} {row.name:<{width}}  {row.value:>16}  {row.aim}")
    return 0 if all(row.is_met for row in rows) else 1


def source_files() -> Iterator[Path]:
    """Yield the Python files of the product, without migrations."""
    for folder in SOURCES:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if "migrations" not in path.parts:
                yield path


def is_packed_assignment(node: ast.AST) -> bool:
    """Tell whether the node is `a, b = x, y`: several assignments in one line."""
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Tuple):
        return False
    return any(isinstance(target, ast.Tuple) for target in node.targets)


def build_table(measured: Measured) -> list[Row]:
    """Return the figures beside their aims."""
    lines = measured.function_lines
    nodes = statistics.median(measured.function_nodes)
    size, largest = measured.largest
    return [
        Row("files / lines", f"{measured.files} / {measured.lines}", "no aim", True),
        at_most(f"largest file ({largest})", size, 600),
        Row("function lines: median / 90 % / max", spread(lines), "max <= 60", max(lines) <= 60),
        at_most("AST nodes a body line", measured.body_nodes / measured.body_lines, 10, ".1f"),
        at_most("AST nodes a function, median", nodes, 45, ".0f"),
        at_most(f"lines over {MAX_LINE_BYTES}", measured.long_lines, 0),
        at_most(
            "packed assignments a 1,000 lines", 1000 * measured.packed / measured.lines, 1.5, ".1f"
        ),
        at_most("fmt comments", measured.format_comments, 0),
        at_most(
            "docstrings that begin with a riddle",
            measured.riddles / measured.docstrings,
            0.04,
            ".0%",
        ),
        at_most("public function names not unique", repeated_share(measured.public), 0.15, ".0%"),
        at_most("public functions named *_of", share_named_of(measured.public), 0.03, ".0%"),
        at_most("files in import cycles", file_cycles(), 0),
    ]


def at_most(name: str, value: float, limit: float, form: str = "d") -> Row:
    """Return the row of a figure that must not be above `limit`."""
    aim = f"<= {limit:.0%}" if form.endswith("%") else f"<= {limit}"
    return Row(name, format(value, form), aim, value <= limit)


def spread(lines: list[int]) -> str:
    """Return the median, the ninth decile and the maximum."""
    deciles = statistics.quantiles(lines, n=10)
    return f"{statistics.median(lines):.0f} / {deciles[8]:.0f} / {max(lines)}"


def repeated_share(names: Counter) -> float:
    """Return the share of functions whose name another one has too."""
    several = sum(count for count in names.values() if count > 1)
    return several / names.total()


def share_named_of(names: Counter) -> float:
    """Return the share of functions whose name ends with "of"."""
    named_count = sum(count for name, count in names.items() if name.endswith("_of"))
    return named_count / names.total()


def file_cycles() -> int:
    """Count the files that import each other in a circle; imports for type checkers count too."""
    modules = {}
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            modules[".".join(part for part in parts if part != "__init__")] = path
    edges = {name: set(list_imports(path, modules)) - {name} for name, path in modules.items()}
    return sum(len(cycle) for cycle in strongly_connected(edges) if len(cycle) > 1)


def list_imports(path: Path, modules: dict[str, Path]) -> Iterator[str]:
    """Yield the modules of this project that a file imports when it is loaded."""
    for node in top_level_nodes(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            whole = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name for name in whole if name in modules)
            if node.module in modules and not all(name in modules for name in whole):
                yield node.module


def top_level_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a module that do not stand inside a function."""
    for node in ast.iter_child_nodes(tree):
        if not isinstance(node, FUNCTIONS):
            yield node
            yield from top_level_nodes(node)


def strongly_connected(edges: dict[str, set[str]]) -> list[set[str]]:
    """Return the strongly connected components of a graph (Kosaraju's algorithm)."""
    order: list[str] = []
    backwards: dict[str, set[str]] = {name: set() for name in edges}
    for name, targets in edges.items():
        for target in targets:
            backwards[target].add(name)
    visited: set[str] = set()
    for name in edges:
        order.extend(visit_reachable(name, edges, visited))
    visited.clear()
    components = []
    for name in reversed(order):
        if component := visit_reachable(name, backwards, visited):
            components.append(set(component))
    return components


def visit_reachable(start: str, edges: dict[str, set[str]], visited: set[str]) -> list[str]:
    """Return the unseen nodes that `start` reaches, in the order of leaving them."""
    if start in visited:
        return []
    visited.add(start)
    order = []
    waiting = [(start, iter(sorted(edges[start])))]
    while waiting:
        name, targets = waiting[-1]
        for target in targets:
            if target not in visited:
                visited.add(target)
                waiting.append((target, iter(sorted(edges[target]))))
                break
        else:
            waiting.pop()
            order.append(name)
    return order


if __name__ == "__main__":
    sys.exit(main())
