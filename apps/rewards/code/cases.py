"""The tests of a task, read from its answer: inputs and outputs of a program, or calls of a function and their values."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


class BadTests(ValueError):
    """The answer has no tests that can be run; the message names the field."""


@dataclass(frozen=True)
class Case:
    """One test: `stdin` and the wanted text, or `arguments` of a call and the values of which any is right."""

    stdin: str = ""
    arguments: tuple = ()
    wanted: tuple = ()


@dataclass(frozen=True)
class Cases:
    """`function`: the one that is called, "" when it is a whole program that runs."""

    function: str
    cases: tuple[Case, ...]


def read(answer: Mapping[str, Any]) -> Cases:
    """The tests of {"tests": [{"stdin", "stdout"}]}, {"function", "tests": [{"args", "value"}]}, {"inputs", "outputs", "fn_name"}.

    In the last form, as common data sets have it, inputs and outputs may be texts or lists of lines, and the value of a call
    may stand alone in a list. "input" and "output" mean the same as "stdin" and "stdout". Raises BadTests.
    """
    function = answer.get("function", answer.get("fn_name")) or ""
    if not isinstance(function, str) or (function and not function.isidentifier()):
        raise BadTests("function: the name of a function is wanted")
    cases = _in_columns(answer, function) if "inputs" in answer else _in_rows(answer.get("tests"), function)
    if not cases:
        raise BadTests("tests: the task has none")
    return Cases(function, tuple(cases))


def _in_columns(answer: Mapping[str, Any], function: str) -> list[Case]:
    inputs, outputs = answer["inputs"], answer.get("outputs")
    if not isinstance(inputs, list) or not isinstance(outputs, list) or len(inputs) != len(outputs):
        raise BadTests("inputs, outputs: two lists of the same length are wanted")
    if not function:
        return [Case(_text(given, f"inputs.{n}"), (), (_text(wanted, f"outputs.{n}"),)) for n, (given, wanted) in _pairs(answer)]
    return [Case("", _arguments(given, f"inputs.{n}"), _any_of(wanted)) for n, (given, wanted) in _pairs(answer)]


def _pairs(answer: Mapping[str, Any]):
    return enumerate(zip(answer["inputs"], answer["outputs"], strict=True))


def _any_of(wanted: Any) -> tuple:
    return (wanted, wanted[0]) if isinstance(wanted, list) and len(wanted) == 1 else (wanted,)


def _in_rows(rows: Any, function: str) -> list[Case]:
    if not isinstance(rows, list):
        raise BadTests("tests: a list is wanted")
    return [(_call if function else _run)(row, f"tests.{n}") for n, row in enumerate(rows)]


def _run(row: Any, field: str) -> Case:
    known = isinstance(row, dict) and ("stdout" in row or "output" in row)
    if not known:
        raise BadTests(f"{field}: an object of stdin and stdout is wanted")
    given, wanted = row.get("stdin", row.get("input", "")), row.get("stdout", row.get("output"))
    return Case(_text(given, f"{field}.stdin"), (), (_text(wanted, f"{field}.stdout"),))


def _call(row: Any, field: str) -> Case:
    if not isinstance(row, dict) or "value" not in row:
        raise BadTests(f"{field}: an object of args and value is wanted")
    return Case("", _arguments(row.get("args", []), f"{field}.args"), (row["value"],))


def _arguments(given: Any, field: str) -> tuple:
    if not isinstance(given, list):
        raise BadTests(f"{field}: a list of arguments is wanted")
    return tuple(given)


def _text(given: Any, field: str) -> str:
    if isinstance(given, list) and all(isinstance(line, str) for line in given):
        return "".join(f"{line}\n" for line in given)
    if not isinstance(given, str):
        raise BadTests(f"{field}: a text is wanted")
    return given
