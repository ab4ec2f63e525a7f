"""Programming tasks with tests that `apps.tasksets.code_tests` reads: MBPP, HumanEval, APPS,
LiveCodeBench and others.
"""

import re
from typing import Any

from apps.tasksets.code_test_values import BadTests
from apps.tasksets.code_tests import normal_form, prompt_column
from apps.tasksets.layouts.contract import TASKS, Layout, NotThisLayout, Row, RowReading
from apps.tasksets.layouts.conversations import read_prompt_messages
from apps.tasksets.layouts.questions import read_meta

MAX_SHOWN_LENGTH = 2_000  # characters of a test that a prompt shows


def _is_program(row: Row) -> bool:
    """Tell whether the row has tests; unreadable ones count, so that the reader reports them."""
    if prompt_column(row) is None or row.get("answer") is not None:
        return False
    try:
        return normal_form(row) is not None
    except BadTests:
        return True


def _program(row: Row, taking: RowReading) -> Row:
    name = prompt_column(row)
    try:
        tests = normal_form(row)
    except BadTests as error:
        raise NotThisLayout(str(error)) from None
    assert name is not None and tests is not None  # the layout matches only rows that have both
    messages = read_prompt_messages(row[name], name, taking)
    messages = _with_formats(messages, row)
    starter = row.get("starter_code")
    code = _code_to_show(
        messages[-1]["content"], tests.answer, starter if isinstance(starter, str) else ""
    )
    if code:
        messages = [
            *messages[:-1],
            {**messages[-1], "content": f"{messages[-1]['content']}\n\n{code}"},
        ]
    meta = read_meta(row, "task_id", "question_id", "difficulty", "source")
    return {"prompt": messages, "answer": tests.answer, "meta": meta}


FORMATS = (("input_format", "Input"), ("output_format", "Output"))


def _with_formats(messages: list[dict[str, Any]], row: Row) -> list[dict[str, Any]]:
    """Add the descriptions of input and output, which Codeforces has in columns of their own."""
    question = messages[-1]["content"]
    formats = [(title, row.get(name)) for name, title in FORMATS]
    parts = [
        f"{title}: {text.strip()}" for title, text in formats if isinstance(text, str) and text
    ]
    if not isinstance(question, str) or not parts:
        return messages
    return [*messages[:-1], {**messages[-1], "content": "\n\n".join([question, *parts])}]


def _code_to_show(question: object, answer: dict[str, Any], starter: str) -> str:
    """Return code to add to a prompt that does not name the function to write.

    It is the code to begin with, the first test, or the name; "" if the prompt is complete.
    """
    if not isinstance(question, str):
        return ""
    if starter.strip() and starter.strip() not in question:
        return f"Begin with:\n```python\n{starter.strip()}\n```"
    function = answer.get("function", "")
    test = answer["tests"][0].get("check", "")
    if not function and test.startswith("assert"):  # of a name that Python has, too, such as sum
        function = test.removeprefix("assert").split("(")[0].strip()
    if not function or _is_named(function, question):
        return ""
    if function in test and len(test) <= MAX_SHOWN_LENGTH:
        return f"It must pass this test:\n```python\n{test}\n```"
    return f"The function is called `{function}`."


def _is_named(function: str, question: str) -> bool:
    """Tell whether the prompt gives the function's name.

    A name of a single plain word must look like code, as `sum(` or `` `sum` ``.
    """
    name = re.escape(function)
    if re.fullmatch(r"[a-z]+", function):
        return (
            re.search(rf"(?<!\w){name}\(|`{name}`|(?:called|named) {name}\b", question) is not None
        )
    return re.search(rf"(?<!\w){name}(?!\w)", question) is not None


SPECIAL = (
    Layout(
        "programs",
        "tests of programs (MBPP, HumanEval, APPS, TACO, LiveCodeBench, AceCode and others)",
        _is_program,
        {TASKS: _program},
    ),
)
