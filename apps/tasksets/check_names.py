"""Names of the functions that a Python test calls, and that the answer must define."""

import ast
import builtins
from collections.abc import Iterator
from warnings import catch_warnings, simplefilter

BUILT_IN = frozenset(dir(builtins))
# Public names that judges put before an answer, and answers may have, too: `gcd` may be either.
USUAL_NAMES = frozenset(
    {
        *(
            "ceil",
            "comb",
            "dist",
            "fabs",
            "factorial",
            "floor",
            "fsum",
            "gcd",
            "hypot",
            "isclose",
            "isnan",
        ),
        *("lcm", "log", "prod", "sqrt", "trunc", "mean", "median", "mode", "shuffle"),
        *(
            "accumulate",
            "chain",
            "combinations",
            "count",
            "cycle",
            "groupby",
            "islice",
            "permutations",
        ),
        *("product", "repeat", "starmap", "zip_longest", "lru_cache", "reduce", "copy", "deepcopy"),
        *("Counter", "defaultdict", "deque", "heapify", "heappop", "heappush"),
    }
)
MAX_TEST_LENGTH = (
    200_000  # characters of a test that is looked into: a syntax tree takes much memory
)


class NotPython(ValueError):
    """Raised for a text that is no Python; the message says where."""


def parse_python(text: str) -> ast.Module:
    """Return the text's syntax tree, an empty one of a long text. Raises NotPython."""
    if len(text) > MAX_TEST_LENGTH:
        return ast.Module(body=[], type_ignores=[])
    try:
        with catch_warnings():
            simplefilter("ignore")
            return ast.parse(text)
    except SyntaxError as error:
        raise NotPython(f"the test is not Python: {error.msg} (line {error.lineno})") from None
    except (ValueError, RecursionError, MemoryError):
        raise NotPython("the test is not valid Python") from None


def defined_in(text: str) -> set[str]:
    """Return every name that the text gives a meaning to. Raises NotPython."""
    return {name for node in ast.walk(parse_python(text)) for name in _bound_names(node)}


def called_in(text: str, known_names: set[str]) -> list[str]:
    """Return the functions that the text calls and neither defines nor knows, inner calls first.

    Raises NotPython.
    """
    nodes = list(ast.walk(parse_python(text)))
    defined = {name for node in nodes for name in _bound_names(node)}
    known_names = known_names | BUILT_IN | defined
    names = []
    for node in reversed(nodes):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            names.append(node.func.id)
    return list(dict.fromkeys(name for name in names if name not in known_names))


def _bound_names(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            yield node.name
        case ast.arg():
            yield node.arg
        case ast.Name(ctx=ast.Store()):
            yield node.id
        case ast.Import() | ast.ImportFrom():
            # What tests import from the answer is the answer's.
            if getattr(node, "module", None) != "solution":
                yield from ((alias.asname or alias.name).partition(".")[0] for alias in node.names)
        case ast.ExceptHandler(name=str(name)):
            yield name
