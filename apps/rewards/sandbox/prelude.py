"""The names that judges of programming tasks put before an answer. Standard library alone.

Guests are given this file's text as well. Nothing hides a built-in function: `pow` stays Python's,
and where a module and a function share a name (`datetime`, `copy`, `bisect`) it is the module.
"""

import builtins
import sys

RECURSION_LIMIT = 50_000
# Modules whose public names are known without an import; the modules themselves are, too.
OPENED = (
    "string",
    "re",
    "datetime",
    "collections",
    "heapq",
    "bisect",
    "copy",
    "math",
    "random",
    "statistics",
    "itertools",
    "functools",
    "operator",
    "typing",
    "fractions",
    "decimal",
    "queue",
)
NAMED = (
    "io",
    "sys",
    "json",
    "os",
    "time",
    "array",
    "cmath",
    "numbers",
    "types",
    "dataclasses",
    "enum",
    "abc",
)
SINGLE = (
    ("io", "StringIO"),
    ("io", "BytesIO"),
    ("dataclasses", "dataclass"),
    ("dataclasses", "field"),
    ("enum", "Enum"),
)


def _imported(module):
    return sys.modules.get(module) or __import__(module)


def prelude_names():
    """Return the names with what they mean, each time a new dictionary."""
    names: dict = {}
    for module in OPENED:
        module_object = _imported(module)
        public = getattr(module_object, "__all__", None) or [
            name for name in vars(module_object) if name[0] != "_"
        ]
        names.update(
            (name, getattr(module_object, name)) for name in public if not hasattr(builtins, name)
        )
    for module, name in SINGLE:
        names[name] = getattr(_imported(module), name)
    for module in (*OPENED, *NAMED):
        names[module] = _imported(module)
    if "numpy" in sys.modules:
        names["np"] = names["numpy"] = sys.modules["numpy"]
    return names


def lift_limits():
    """Let numbers be of any length, and calls nest as deeply as such judges let them."""
    sys.set_int_max_str_digits(0)
    sys.setrecursionlimit(RECURSION_LIMIT)
