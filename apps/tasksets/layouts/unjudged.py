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
from apps.tasksets.layouts.conversations import decoded

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


def _is_instructions(row: Row) -> bool:
    """Tell whether the row lists instructions for a program to check: IFEval, Tulu's RLVR mix."""
    if isinstance(decoded(row.get("instruction_id_list")), list):
        return True
    truth = decoded(row.get("ground_truth"))
    truth = truth[0] if isinstance(truth, list) and truth else truth
    truth = decoded(truth)
    return isinstance(truth, dict) and bool({"func_name", "instruction_id"} & truth.keys())


def _refusing(why: str) -> Callable[[Row, RowReading], Row]:
    def refuse(row: Row, taking: RowReading) -> Row:
        raise NotThisLayout(why)

    return refuse


LAYOUTS = (
    Layout(
        "repository-repairs",
        "SWE-bench, SWE-Gym, R2E: repairs of a repository; refused",
        _is_repair,
        {
            TASKS: _refusing(
                "problem_statement: a task of this kind is solved in a repository and judged by "
                "its tests, which no scorer has; let an environment give the rewards"
            )
        },
    ),
    Layout(
        "checked-instructions",
        "IFEval: instructions that a program checks; refused",
        _is_instructions,
        {
            TASKS: _refusing(
                "instruction_id_list or ground_truth.func_name: names checks of instructions, "
                "which no scorer makes; use a judge with a rubric, or an environment"
            )
        },
    ),
)
