"""Our own columns, and the files that exports write, which come in again in any project.

An export names tasks by their number in the run's taskset. That number means nothing elsewhere, so
the prompt is taken; with a taskset it finds its task there.
"""

from apps.tasksets.layouts.answers import good_steps, shown_in, stepwise
from apps.tasksets.layouts.comparisons import pairs_for, read_margin
from apps.tasksets.layouts.contract import (
    DEMONSTRATIONS,
    PREFERENCES,
    TASKS,
    THUMBS,
    Layout,
    NotGood,
    NotThisLayout,
    Row,
    RowReading,
    is_finite_number,
    pass_over,
)
from apps.tasksets.layouts.conversations import (
    decoded,
    is_conversation,
    is_message,
    read_answer,
)
from apps.tasksets.layouts.quality import is_good

EXPORTED = frozenset({"run", "taskset", "task"})
GOOD = 0.75
BAD = 0.25  # of what people's word says, from 0 to 1


def _is_export(row: Row, *names: str) -> bool:
    return row.keys() >= EXPORTED and all(name in row for name in names)


def _author(row: Row, name: str = "author") -> Row:
    author = {"author": row[name]} if isinstance(row.get(name), str) else {}
    return author | ({"is_simulated": True} if row.get("is_simulated") is True else {})


def _require_standing(row: Row) -> None:
    if row.get("is_withdrawn") is True:
        raise NotThisLayout("is_withdrawn: is true, so this rating was undone")
    if row.get("is_current") is False:
        raise NotThisLayout("is_current: is false, so this rating was replaced")


# -- pairs, demonstrations, labels of turns --------------------------------------------------------


def _pair(row: Row, taking: RowReading) -> Row:
    sides = {side: read_answer(row[side], side, taking) for side in ("chosen", "rejected")}
    return {"prompt": row["prompt"], **sides, **read_margin(row), **_author(row)}


def _demonstration(row: Row, taking: RowReading) -> Row:
    return {**shown_in(row, taking), **_author(row)}


def _turn_labels(row: Row, taking: RowReading) -> Row:
    pass_over(row, "marks")
    return {**stepwise(row, taking), **_asked(row), **_author(row)}


def _good_turns(row: Row, taking: RowReading) -> Row:
    pass_over(row, "marks")
    return {**good_steps(row, taking), **_asked(row), **_author(row)}


def _asked(row: Row) -> Row:
    """Return the prompt with its roles, which `prompt` is the text of."""
    messages = row.get("prompt_messages")
    return {} if messages is None else {"prompt": messages}


# -- votes -----------------------------------------------------------------------------------------


def _is_votes(row: Row) -> bool:
    return _is_export(row, "prompt", "form", "answer", "texts", "values", "rater")


def _valued_answers(row: Row) -> list[tuple[str, float]]:
    _require_standing(row)
    texts = row["texts"]
    values = row["values"]
    if not isinstance(texts, list) or not isinstance(values, list) or len(texts) != len(values):
        raise NotThisLayout("values: must be a list with a number or null for each item of texts")
    return [
        (text, value)
        for text, value in zip(texts, values, strict=True)
        if is_finite_number(value) and text
    ]


def _rewritten(row: Row) -> str:
    answer = decoded(row["answer"])
    text = answer.get("text") if isinstance(answer, dict) and row["form"] == "rewrite" else None
    return text if isinstance(text, str) else ""


def _voted_pairs(row: Row, taking: RowReading) -> list[Row]:
    worths = _valued_answers(row)
    if (text := _rewritten(row)) and row["texts"] and text != row["texts"][0]:
        return [
            {
                "prompt": row["prompt"],
                "chosen": text,
                "rejected": row["texts"][0],
                **_author(row, "rater"),
            }
        ]
    return [pair | _author(row, "rater") for pair in pairs_for(row["prompt"], worths, "values")]


def _voted_thumb(row: Row, taking: RowReading) -> Row:
    worths = _valued_answers(row)
    if len(worths) != 1 or BAD < worths[0][1] < GOOD:
        raise NotThisLayout("values: does not rate a single answer as good or bad")
    text, value = worths[0]
    return {
        "prompt": row["prompt"],
        "completion": text,
        "label": value >= GOOD,
        **_author(row, "rater"),
    }


def _voted_demonstration(row: Row, taking: RowReading) -> Row:
    """Take what a person wrote.

    An answer that one vote calls good another vote of the file may call bad.
    """
    _require_standing(row)
    text = _rewritten(row)
    if not text:
        raise NotGood(f"form: is {row['form']!r}; only rewrites contain an answer")
    return {"prompt": row["prompt"], "answer": text, **_author(row, "rater")}


# -- groups ----------------------------------------------------------------------------------------


def _is_groups(row: Row) -> bool:
    return _is_export(row, "prompt", "completions", "people", "rewards")


def _read_judged(row: Row, taking: RowReading) -> list[tuple[str, float]]:
    """Return the answers that people judged.

    Judgements of machines and of the simulated rater are ignored.
    """
    completions = row["completions"]
    people = row["people"]
    if not isinstance(completions, list) or not isinstance(people, list):
        raise NotThisLayout("completions, people: must be lists of answers and of people's ratings")
    texts = [
        read_answer(completion, f"completions[{number}]", taking)
        for number, completion in enumerate(completions)
    ]
    return [
        (text, value)
        for text, value in zip(texts, people, strict=False)
        if is_finite_number(value) and text
    ]


def _group_pairs(row: Row, taking: RowReading) -> list[Row]:
    return pairs_for(row["prompt"], _read_judged(row, taking), "people")


def _group_best(row: Row, taking: RowReading) -> Row:
    best, value = max(_read_judged(row, taking), key=lambda judged: judged[1], default=("", 0.0))
    if value < GOOD:
        raise NotGood("people: no answer of the group is rated as good, so none is a demonstration")
    return {"prompt": row["prompt"], "answer": best}


# -- our columns -----------------------------------------------------------------------------------


def _is_about(row: Row) -> bool:
    return row.get("prompt") is not None or type(row.get("task")) is int


def _column_reader(*names: str):
    """Return what reads rows in our own columns; what they hold is checked where all rows are."""

    def read(row: Row, taking: RowReading) -> Row:
        fields = {name: row[name] for name in ("prompt", "task", "author", *names) if name in row}
        if isinstance(fields.get("label"), str | int | float):  # as cells of CSV, and as 1 and 0
            verdict = is_good(fields["label"])
            fields["label"] = fields["label"] if verdict is None else verdict
        return fields | (read_margin(row) if "chosen" in names else {})

    return read


def _own_task(row: Row, taking: RowReading) -> Row:
    names = ("prompt", "answer", "follow_ups", "domain", "meta")
    task = {name: row[name] for name in names if name in row}
    answer = decoded(task.get("answer"))
    if is_conversation(answer) or is_message(answer):
        task["answer"] = read_answer(answer, "answer", taking)
    return task


EXPORTS = (
    Layout(
        "exported-votes",
        "rftweb export of votes",
        _is_votes,
        {PREFERENCES: _voted_pairs, THUMBS: _voted_thumb, DEMONSTRATIONS: _voted_demonstration},
        judges_itself=True,
    ),
    Layout(
        "exported-groups",
        "rftweb export of groups",
        _is_groups,
        {PREFERENCES: _group_pairs, DEMONSTRATIONS: _group_best},
    ),
    Layout(
        "exported-pairs",
        "rftweb export of pairs",
        lambda row: _is_export(row, "prompt", "chosen", "rejected"),
        {PREFERENCES: _pair},
    ),
    Layout(
        "exported-demonstrations",
        "rftweb export of demonstrations",
        lambda row: _is_export(row, "messages", "author"),
        {DEMONSTRATIONS: _demonstration},
    ),
    Layout(
        "exported-turn-labels",
        "rftweb export of turn labels",
        lambda row: _is_export(row, "completions", "labels"),
        {THUMBS: _turn_labels, DEMONSTRATIONS: _good_turns},
    ),
)
OWN = (
    Layout(
        "own-demonstrations",
        "rftweb: prompt or task, and answer",
        lambda row: _is_about(row) and "answer" in row,
        {DEMONSTRATIONS: _column_reader("answer")},
    ),
    Layout(
        "own-preferences",
        "rftweb: prompt or task, chosen and rejected (TRL)",
        lambda row: _is_about(row) and "chosen" in row and "rejected" in row,
        {PREFERENCES: _column_reader("chosen", "rejected")},
    ),
    Layout(
        "own-thumbs",
        "rftweb: prompt or task, completion and label (TRL KTO)",
        lambda row: _is_about(row) and "completion" in row and "label" in row,
        {THUMBS: _column_reader("completion", "label")},
    ),
    Layout(
        "own-tasks",
        "rftweb: prompt and answer",
        lambda row: row.get("prompt") is not None and "answer" in row,
        {TASKS: _own_task},
    ),
)
