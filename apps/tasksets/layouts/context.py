"""Fields beside the question that become part of the prompt: system texts, turns, tools, images."""

import json
from collections.abc import Iterator

from apps.tasksets.layouts.contract import NotThisLayout, Row, RowReading, is_objects
from apps.tasksets.layouts.conversations import (
    Message,
    decoded,
    read_conversation,
    read_picture_part,
)

SYSTEM = ("system", "system_prompt", "system_message")
TOOLS = ("tools", "functions")
PICTURES = ("images", "image", "pictures")
NOT_SHOWN = ("videos", "video", "audios", "audio")
MARK = "<image>"
COLUMNS = (*SYSTEM, "history", *TOOLS, *PICTURES)


def with_context(
    messages: list[Message], row: Row, used: frozenset[str], taking: RowReading
) -> list[Message]:
    """Return the prompt with what the row's columns of these names add to it. Raises NotThisLayout.

    `used`: columns that the layout reads itself, or that are mapped to something else.
    """
    unused = {
        name: value for name, value in row.items() if name not in used and not _is_empty(value)
    }
    for name in NOT_SHOWN:
        if name in unused:
            raise NotThisLayout(
                f"{name}: contains audio or video; only text and images are supported"
            )
    messages = _with_history(messages, unused, taking)
    messages = _with_system(messages, unused)
    messages = _with_tools(messages, unused)
    return _with_pictures(messages, unused)


def taken_from(row: Row, used: frozenset[str]) -> frozenset[str]:
    """Return the columns of a row that `with_context` takes."""
    return frozenset(name for name in COLUMNS if name in row and name not in used)


def _is_empty(value: object) -> bool:
    return (
        value is None
        or value == ""
        or value == []
        or (isinstance(value, str) and value.strip() in ("", "[]"))
    )


def _with_system(messages: list[Message], unused: Row) -> list[Message]:
    for name in SYSTEM:
        if name not in unused:
            continue
        if not isinstance(unused[name], str):
            raise NotThisLayout(f"{name}: must be text or omitted")
        if messages[0]["role"] == "system":
            if messages[0]["content"] == unused[name]:
                return messages
            raise NotThisLayout(f"{name}: differs from the system message in the messages")
        return [{"role": "system", "content": unused[name]}, *messages]
    return messages


def _with_history(messages: list[Message], unused: Row, taking: RowReading) -> list[Message]:
    """Put earlier turns, [[question, answer], …] or messages, before the question."""
    if "history" not in unused:
        return messages
    history = decoded(unused["history"])
    if is_objects(history):
        turns = read_conversation(history, "history", taking)
    elif isinstance(history, list) and all(_is_turn(turn) for turn in history):
        turns = [
            {"role": role, "content": text}
            for turn in history
            for role, text in zip(("user", "assistant"), turn, strict=True)
        ]
    else:
        raise NotThisLayout("history: must be a list of [question, answer] pairs or of messages")
    start = 1 if messages[0]["role"] == "system" else 0
    return [*messages[:start], *turns, *messages[start:]]


def _is_turn(turn: object) -> bool:
    return isinstance(turn, list) and len(turn) == 2 and all(isinstance(text, str) for text in turn)


def _with_tools(messages: list[Message], unused: Row) -> list[Message]:
    """Tell in the system text which functions there are, as chat templates for tools do."""
    name = next((name for name in TOOLS if name in unused), "")
    if not name:
        return messages
    tools = decoded(unused[name])
    if not is_objects(tools):
        raise NotThisLayout(f"{name}: must be a list of functions, each an object")
    tool_lines = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools)
    instructions = (
        f"You can call these functions:\n<tools>\n{tool_lines}\n</tools>\n"
        'A call is <tool_call>{"name": …, "arguments": {…}}</tool_call>.'
    )
    if messages[0]["role"] == "system":
        first = {"role": "system", "content": f"{messages[0]['content']}\n\n{instructions}"}
        return [first, *messages[1:]]
    return [{"role": "system", "content": instructions}, *messages]


# -- pictures --------------------------------------------------------------------------------------


def _with_pictures(messages: list[Message], unused: Row) -> list[Message]:
    """Put the pictures of a column where the user's messages have `<image>` or an empty part;
    without these, first."""
    columns = [name for name in PICTURES if name in unused]
    if len(columns) > 1:
        raise NotThisLayout(
            f"{columns[1]}: {columns[0]} also contains images; keep one of the two columns"
        )
    places = sum(_places(message) for message in messages)
    if not columns:
        if any(_is_unfilled(part) for message in messages for part in _parts(message)):
            raise NotThisLayout(
                "a message refers to an image that is neither in the message nor in a column "
                "named images"
            )
        return messages
    value = unused[columns[0]]
    pictures = [
        read_picture_part(picture) for picture in (value if isinstance(value, list) else [value])
    ]
    if not places:
        at = next((n for n, message in enumerate(messages) if message["role"] == "user"), None)
        if at is None:
            raise NotThisLayout(
                f"{columns[0]}: there is no user message that could contain the images"
            )
        first = {"role": "user", "content": [*pictures, *_parts(messages[at])]}
        return [*messages[:at], first, *messages[at + 1 :]]
    if places != len(pictures):
        raise NotThisLayout(
            f"{columns[0]}: contains {len(pictures)} images, but the messages have {places} "
            "placeholders"
        )
    unused_pictures = iter(pictures)
    return [_fill_places(message, unused_pictures) for message in messages]


def _places(message: Message) -> int:
    return sum(
        _is_unfilled(part) if part["type"] != "text" else part["text"].count(MARK)
        for part in _parts(message)
    )


def _parts(message: Message) -> list[Row]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _is_unfilled(part: Row) -> bool:
    return part == {"type": "image"}


def _fill_places(message: Message, pictures: Iterator[Row]) -> Message:
    if not _places(message):
        return message
    if message["role"] != "user":
        raise NotThisLayout("only messages of the user can contain images")
    parts = []
    for part in _parts(message):
        if _is_unfilled(part):
            parts.append(next(pictures))
        elif part["type"] != "text":
            parts.append(part)
        else:
            first, *later_texts = part["text"].split(MARK)
            parts += [{"type": "text", "text": first}] if first else []
            for text in later_texts:
                parts.append(next(pictures))
                parts += [{"type": "text", "text": text}] if text else []
    return {"role": "user", "content": parts}
