"""The tests of a task as the scorer runs them, read from the task's answer."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from apps.tasksets.check_names import called_in
from apps.tasksets.code_test_values import BadTests
from apps.tasksets.code_tests import normal_form

__all__ = ["BadTests", "Case", "Cases", "read_cases"]


@dataclass(frozen=True)
class Case:
    """One test: `stdin` and its output, `arguments` and their value, or a `check` in Python.

    `expected`: outputs or values, of which any is right. `keywords`: arguments by name, for Python.
    """

    stdin: str = ""
    arguments: tuple = ()
    keywords: Mapping[str, Any] = field(default_factory=dict)
    expected: tuple = ()
    check: str = ""


@dataclass(frozen=True)
class Cases:
    """Tests of a task; `function`: the one that is called.

    It is "" for a whole program, or if checks are about several functions.

    `setup`: runs before each check; `preamble`: stands before the answer and before the checks.
    """

    function: str
    cases: tuple[Case, ...]
    setup: str = ""
    preamble: str = ""

    @property
    def called(self) -> tuple[str, ...]:
        """Return the functions that checks call, where no single one is named."""
        names = [name for case in self.cases if case.check for name in called_in(case.check, set())]
        return tuple(dict.fromkeys(names))

    @property
    def reads_input(self) -> bool:
        """Tell whether any test gives a program input."""
        return any(case.stdin.strip() for case in self.cases)

    @property
    def are_for_python(self) -> bool:
        """Tell whether only Python can be judged by them: checks, and arguments by name."""
        return self.are_checks or any(case.keywords for case in self.cases)

    @property
    def are_checks(self) -> bool:
        """Tell whether the tests are written in Python; all of a task are of one kind."""
        return bool(self.cases[0].check)


def read_cases(answer: Mapping[str, Any]) -> Cases:
    """Return the tests of an answer in any layout that `apps.tasksets.code_tests` knows.

    Raises BadTests.
    """
    normalized = normal_form(answer)
    if normalized is None:
        raise BadTests("tests: must be a list of tests; the task's answer has none")
    rows = normalized.answer["tests"]
    cases = tuple(_case(row) for row in rows)
    code_parts = {name: normalized.answer.get(name, "") for name in ("setup", "preamble")}
    return Cases(normalized.answer.get("function", ""), cases, **code_parts)


def _case(row: Mapping[str, Any]) -> Case:
    if "check" in row:
        return Case(check=row["check"])
    if "stdout" in row:
        return Case(stdin=row["stdin"], expected=(row["stdout"],))
    expected = tuple(row["values"]) if "values" in row else (row["value"],)
    return Case(arguments=tuple(row["args"]), keywords=row.get("kwargs", {}), expected=expected)
