"""Layout of Math-Shepherd: steps that end with a tag, and the same with + or - in its place."""

import re

from apps.tasksets.layouts.contract import (
    DEMONSTRATIONS,
    TASKS,
    THUMBS,
    Layout,
    NotGood,
    NotThisLayout,
    Row,
    RowReading,
)

TAG = "ки"
STEP = re.compile(r"(?:^|\s)(?=Step 1:)")
VERDICT = re.compile(r" ([+-])[ \t]*(?=\n|$)")


def _is_tagged(row: Row) -> bool:
    texts = (row.get("input"), row.get("label"))
    return all(isinstance(text, str) for text in texts) and f" {TAG}" in str(texts[0])


def _read_judged(row: Row, taking: RowReading) -> Row:
    """Take the whole answer, which is good if each of its steps is."""
    text = row["input"]
    verdicts = VERDICT.findall(row["label"])
    steps = text.count(f" {TAG}")
    if len(verdicts) != steps:
        raise NotThisLayout(
            f"label: must have + or - at the end of each step; it has {len(verdicts)} for "
            f"{steps} steps"
        )
    question, *answer = STEP.split(text.replace(f" {TAG}", ""), maxsplit=1)
    if not answer or not question.strip():
        raise NotThisLayout("input: must be a question, then its answer from 'Step 1:' on")
    stripped = "\n".join(line.strip() for line in answer[0].splitlines() if line.strip())
    return {"prompt": question.strip(), "completion": stripped, "label": "-" not in verdicts}


def _read_demonstration(row: Row, taking: RowReading) -> Row:
    judged = _read_judged(row, taking)
    if not judged["label"]:
        raise NotGood("label: a step is labelled -, so it is not a demonstration")
    return {"prompt": judged["prompt"], "answer": judged["completion"]}


def _task(row: Row, taking: RowReading) -> Row:
    raise NotThisLayout(
        "label: says which steps are right, not what the answer is; import the file as thumbs or "
        "demonstrations"
    )


LAYOUTS = (
    Layout(
        "math-shepherd",
        "Math-Shepherd: input with steps that end with ки, and label with + or - for each",
        _is_tagged,
        {THUMBS: _read_judged, DEMONSTRATIONS: _read_demonstration, TASKS: _task},
        judges_itself=True,
    ),
)
