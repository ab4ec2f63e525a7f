"""Rows in the layouts of data sets and tools: what all kinds share; no field is lost silently."""

import copy
import json
from pathlib import Path

import pytest

from apps.tasksets.layouts import (
    BY_NAME,
    DEMONSTRATIONS,
    LAYOUTS,
    PREFERENCES,
    TASKS,
    THUMBS,
    NotThisLayout,
)
from tests.tasksets.layout_rows import (
    ANSWER,
    ASK,
    ASKED,
    BAD,
    GOOD,
    PAIRS,
    POOR,
    PROMPT,
    SHOWN,
    SYSTEM,
    USER,
    said,
    taken,
    why,
)

# -- what stands beside a question -----------------------------------------------------------------


def prompt_of(**more: object) -> list[dict]:
    return taken({"prompt": ASK, "chosen": GOOD, "rejected": POOR, **more}, PREFERENCES)[1][0][
        "prompt"
    ]


@pytest.mark.parametrize("name", ["system", "system_prompt", "system_message"])
def test_system_text_comes_before_the_question(name):
    assert prompt_of(**{name: "Be kind."}) == [SYSTEM, USER]


def test_earlier_turns_come_before_the_question():
    turns = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]
    assert prompt_of(history=[["Hi", "Hello."]], system="Be kind.") == [SYSTEM, *turns, USER]
    assert prompt_of(history=json.dumps([["Hi", "Hello."]])) == [*turns, USER]


def test_tools_are_described_in_the_system_text():
    [system, _] = prompt_of(tools=json.dumps([{"name": "weather"}]), system="Be kind.")
    assert (
        system["content"].startswith("Be kind.\n\n") and '{"name": "weather"}' in system["content"]
    )


def test_pictures_of_a_column_replace_their_placeholders_in_the_text():
    row = {"question": "<image>Who is this?", "answer": "Bob", "images": ["one.jpg"]}
    [task] = taken(row, TASKS)[1]
    shown = {"type": "image", "path": "one.jpg"}
    assert task["prompt"][0]["content"] == [shown, {"type": "text", "text": "Who is this?"}]
    row = {
        "question": "Who is this?",
        "answer": "Bob",
        "image": {"bytes": "data:image/png;base64,AA", "path": None},
    }
    first = taken(row, TASKS)[1][0]["prompt"][0]["content"][0]
    assert first == {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        (
            {"images": ["a", "b"], "question": "<image>Who?"},
            "contains 2 images, but the messages have 1 placeholders",
        ),
        ({"videos": ["a"]}, "audio or video"),
        ({"images": ["a"], "image": "b"}, "keep one of the two columns"),
        ({"history": [["only one"]]}, "history: must be a list of"),
        ({"tools": "no list"}, "tools: must be a list of functions"),
        ({"system": 7}, "system: must be text"),
    ],
)
def test_field_that_cannot_be_added_to_the_prompt_refuses_the_row(more, reason):
    assert reason in why({"question": ASK, "answer": GOOD, **more}, TASKS)


def test_context_of_an_instruction_is_added_to_the_question():
    row = {
        "instruction": "Sum it up.",
        "context": "A long story.",
        "response": GOOD,
        "category": "summary",
    }
    _, [shown], dropped = taken(row, DEMONSTRATIONS)
    assert shown["prompt"] == [{"role": "user", "content": "Sum it up.\n\nA long story."}]
    assert dropped == {"category"}


def test_every_unused_field_is_listed_as_dropped():
    row = {"instruction": ASK, "input": "", "output": GOOD, "id": 7, "source": "x", "nothing": None}
    assert taken(row, DEMONSTRATIONS)[2] == {"id", "source"}
    row = {"messages": [{**USER, "name": "ann"}, ANSWER]}
    assert taken(row, DEMONSTRATIONS)[2] == {"messages[].name"}
    row = {"question": ASK, "prompt": "Something else?", "answer": GOOD}
    assert taken(row, DEMONSTRATIONS)[2] == {"question"}


# -- messages --------------------------------------------------------------------------------------

CALL = {"type": "function", "function": {"name": "add", "arguments": '{"a": 2}'}}
WRITTEN = '<tool_call>\n{"name": "add", "arguments": {"a": 2}}\n</tool_call>'


def shown(*messages: dict) -> tuple[list[dict], str]:
    [row] = taken({"messages": list(messages)}, DEMONSTRATIONS)[1]
    return row["prompt"], row["answer"]


def test_tool_calls_and_tool_responses_are_kept_in_the_text():
    prompt, answer = shown(
        {"role": "developer", "content": "Be kind."},
        USER,
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "content": "4", "tool_call_id": "1"},
        {"role": "tool", "content": "5", "tool_call_id": "2"},
        {"role": "assistant", "content": GOOD, "reasoning_content": "Hm."},
    )
    answered = "<tool_response>\n4\n</tool_response>\n<tool_response>\n5\n</tool_response>"
    assert prompt == [
        SYSTEM,
        USER,
        {"role": "assistant", "content": WRITTEN},
        {"role": "user", "content": answered},
    ]
    assert answer == f"<think>\nHm.\n</think>\n{GOOD}"


@pytest.mark.parametrize(
    "row",
    [
        {"conversation": [{"human": ASK, "assistant": GOOD}]},
        {"conversation": [{"system": "", "input": ASK, "output": GOOD}]},
        {"items": [said("human", ASK), said("gpt", GOOD)]},
        {"dialogue": [USER, ANSWER]},
    ],
)
def test_conversation_is_read_under_alternative_names_and_as_pairs(row):
    _, rows, _ = taken(row, DEMONSTRATIONS)
    assert rows == [{"prompt": PROMPT, "answer": GOOD}]


def test_conversation_may_end_with_a_tool_call():
    assert shown(USER, {"role": "assistant", "content": "", "tool_calls": [CALL]})[1] == WRITTEN


def test_sharegpt_tool_roles_are_mapped_to_user_and_assistant():
    row = {
        "conversations": [
            said("human", ASK),
            said("function_call", "{}"),
            said("observation", "4"),
            said("gpt", GOOD),
        ]
    }
    [shown] = taken(row, DEMONSTRATIONS)[1]
    assert [message["role"] for message in shown["prompt"]] == ["user", "assistant", "user"]


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ({"role": "critic", "content": "x"}, "not 'critic'"),
        ({"role": "user", "content": 7}, "the content must be text"),
        (
            {"role": "user", "content": [{"type": "input_audio"}]},
            "parts must be text or images, not 'input_audio'",
        ),
        (
            {"role": "assistant", "content": "", "tool_calls": [{}]},
            "must have the name of a function",
        ),
    ],
)
def test_message_that_cannot_be_kept_is_reported_with_its_position(message, reason):
    found = why({"messages": [USER, message, ANSWER]}, DEMONSTRATIONS)
    assert reason in found and "messages[1]" in found


# -- annotation tools ------------------------------------------------------------------------------


def test_annotators_text_is_a_demonstration_and_preferred_to_the_original():
    row = {
        "data": {"prompt": ASK, "response": POOR},
        "annotations": [
            {
                "completed_by": 3,
                "result": [{"type": "textarea", "from_name": "better", "value": {"text": [GOOD]}}],
            },
            {"completed_by": 4, "was_cancelled": True, "result": []},
        ],
    }
    [shown] = taken(row, DEMONSTRATIONS)[1]
    assert (shown["answer"], shown["author"]) == (GOOD, "annotator-3")
    _, [preferred], dropped = taken(row, PREFERENCES)
    assert (preferred["chosen"], preferred["rejected"]) == (GOOD, POOR)
    assert "annotations that were cancelled" in dropped


def test_each_annotators_verdict_is_a_separate_thumb():
    said_by = [
        {"value": value, "user_id": user} for value, user in (("good", "u-1"), ("bad", "u-2"))
    ]
    row = {"fields": {"prompt": ASK, "response": GOOD}, "responses": {"verdict": said_by}}
    assert [(one["author"], one["label"]) for one in taken(row, THUMBS)[1]] == [
        ("u-1", True),
        ("u-2", False),
    ]
    assert why(row, DEMONSTRATIONS)


def test_annotators_ranking_becomes_a_pair():
    row = {
        "data": {"prompt": ASK, "answers": [{"id": "a", "body": POOR}, {"id": "b", "body": GOOD}]},
        "annotations": [
            {
                "completed_by": 1,
                "result": [
                    {"from_name": "r", "type": "ranker", "value": {"ranker": {"_": ["b", "a"]}}}
                ],
            }
        ],
    }
    _, (read,), _ = taken(row, PREFERENCES)
    assert (read["chosen"], read["rejected"], read["author"]) == (GOOD, POOR, "annotator-1")


def test_argilla_columns_are_read_and_discarded_responses_are_omitted():
    row = {
        "prompt": ASK,
        "response": GOOD,
        "q.responses": ["yes", "no"],
        "q.responses.users": ["a", "b"],
        "q.responses.status": ["submitted", "discarded"],
    }
    assert [(one["author"], one["label"]) for one in taken(row, THUMBS)[1]] == [("a", True)]


# -- the registry ----------------------------------------------------------------------------------


def test_every_layout_has_a_unique_name_and_a_title():
    assert len(BY_NAME) == len(LAYOUTS)
    assert all(layout.title and layout.reads for layout in LAYOUTS)


def test_documentation_lists_every_layout():
    handbook = (Path(__file__).resolve().parents[2] / "docs" / "tasksets.md").read_text()
    assert [layout.name for layout in LAYOUTS if f"| `{layout.name}` | " not in handbook] == []


@pytest.mark.parametrize("kind", [TASKS, DEMONSTRATIONS, PREFERENCES, THUMBS])
@pytest.mark.parametrize("value", [None, 7, "text", [], {}, [[]], [{}], {"a": {}}], ids=repr)
def test_fields_of_any_type_are_read_or_refused(kind, value):
    names = {name for row in (*PAIRS.values(), *SHOWN.values(), *BAD.values()) for name in row}
    for row in [
        *PAIRS.values(),
        *SHOWN.values(),
        *BAD.values(),
        *(one for one, _ in ASKED.values()),
    ]:
        for name in sorted(names):
            try:
                taken({**row, name: value}, kind)
            except NotThisLayout:
                continue


RANKED = {
    "data": {"prompt": ASK, "answers": [{"id": "a", "body": POOR}, {"id": "b", "body": GOOD}]},
    "annotations": [
        {
            "completed_by": 1,
            "result": [
                {"from_name": "r", "type": "ranker", "value": {"ranker": {"_": ["b", "a"]}}},
                {"from_name": "t", "type": "textarea", "value": {"text": [GOOD]}},
                {"from_name": "c", "type": "choices", "value": {"choices": ["good"]}},
            ],
        }
    ],
}
NESTED = [
    RANKED,
    {
        "fields": {"prompt": ASK, "response1": GOOD, "response2": POOR},
        "responses": [
            {"user_id": "u", "values": {"r": {"value": [{"value": "response1", "rank": 1}]}}}
        ],
    },
    {
        "prompt": {
            "text": ASK,
            "role": "prompter",
            "replies": [{"text": GOOD, "role": "assistant", "rank": 0, "replies": []}],
        }
    },
    {
        "question": {"stem": ASK, "choices": [{"text": GOOD, "label": "A"}, {"text": POOR}]},
        "answerKey": "A",
    },
    {"ctx": ASK, "endings": [GOOD, POOR], "label": "0"},
]


def places(value: object, before: tuple = ()) -> list[tuple]:
    """Return the way to each part of a row."""
    parts = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    return [way for key, part in parts for way in ((*before, key), *places(part, (*before, key)))]


def with_part(row: dict, way: tuple, part: object) -> dict:
    changed = copy.deepcopy(row)
    inner = changed
    for key in way[:-1]:
        inner = inner[key]
    inner[way[-1]] = part
    return changed


@pytest.mark.parametrize("kind", [TASKS, DEMONSTRATIONS, PREFERENCES, THUMBS])
def test_parts_of_any_type_within_a_row_are_read_or_refused(kind):
    examples = [*NESTED, *PAIRS.values(), *BAD.values(), *(one for one, _ in ASKED.values())]
    for row in examples:
        for way in places(row):
            for part in (None, 7, "text", [[]], [None], {"a": {}}):
                try:
                    taken(with_part(row, way, part), kind)
                except NotThisLayout:
                    continue


def test_tags_of_tools_that_a_file_has_already_are_not_written_twice():
    response = "<tool_response>\n{}\n</tool_response>"
    turns = [said("human", ASK), said("gpt", POOR), said("tool", response), said("gpt", GOOD)]
    _, [row], _ = taken({"conversations": turns}, DEMONSTRATIONS)
    assert row["prompt"][-1] == {"role": "user", "content": response}
