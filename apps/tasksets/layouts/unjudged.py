"""Layouts of tasks that no scorer can judge: their rows are refused, and it is said why."""

from collections.abc import Callable

from apps.tasksets.layouts.contract import (
    TASKS,
    Layout,
    NotThisLayout,
    Row,
    RowReading,
    first_text,
)

OF_REPOSITORIES = (
    "FAIL_TO_PASS",
    "fail_to_pass",
    "patch",
    "test_patch",
    "docker_image",
    "base_commit",
)


def _is_repair(row: Row) -> bool:
    return isinstance(row.get("problem_statement"), str) and bool(first_text(row, OF_REPOSITORIES))


def _is_ds1000(row: Row) -> bool:
    return isinstance(row.get("prompt"), str) and isinstance(row.get("code_context"), str)


def _refuse_with(why: str) -> Callable[[Row, RowReading], Row]:
    def refuse(row: Row, taking: RowReading) -> Row:
        raise NotThisLayout(why)

    return refuse


LAYOUTS = (
    Layout(
        "repository-repairs",
        "SWE-bench, SWE-Gym, R2E: repairs of a repository; refused",
        _is_repair,
        {
            TASKS: _refuse_with(
                "problem_statement: a task of this kind is solved in a repository and judged by "
                "its tests, which no scorer has; let an environment give the rewards"
            )
        },
    ),
    Layout(
        "ds-1000",
        "DS-1000: code_context that runs the reply as a part of itself; refused",
        _is_ds1000,
        {
            TASKS: _refuse_with(
                "code_context: runs the reply within the test, with libraries such as pandas and "
                "torch; the scorer `code` keeps tests and replies apart. Let an environment give "
                "the rewards"
            )
        },
    ),
)
