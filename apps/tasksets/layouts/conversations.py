"""Conversations as OpenAI, ChatML, ShareGPT and transcripts have them: role and content.

Roles are system, user and assistant here. What other forms say beside the text is written into it,
in the way that the chat templates of Hermes and Qwen do: thoughts as <think>, calls of tools as
<tool_call>, and what tools answered as a <tool_response> of the user's.
"""

import json
import re
from typing import Any

from apps.accounts import strict_json
from apps.tasksets.layouts.contract import NotThisLayout, Row, RowReading
from apps.tasksets.python_literals import NotALiteral, read_literal

Message = dict[str, Any]
ROLES = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "human": "user",
    "prompter": "user",
    "assistant": "assistant",
    "gpt": "assistant",
    "model": "assistant",
    "bot": "assistant",
    "chatgpt": "assistant",
    "ai": "assistant",
    "function_call": "assistant",
    "tool": "user",
    "function": "user",
    "observation": "user",
    "ipython": "user",
}
OF_TOOLS = frozenset({"tool", "function", "observation", "ipython"})
ROLE_KEYS = ("role", "from", "speaker")
CONTENT_KEYS = ("content", "value", "text")
THOUGHTS = ("reasoning_content", "reasoning", "thinking")
CALLS = ("tool_calls", "function_call")
# Bookkeeping of a message that its words do not depend on.
READ = frozenset({*ROLE_KEYS, *CONTENT_KEYS, *THOUGHTS, *CALLS, "tool_call_id", "weight"})
PICTURE_PARTS = frozenset({"image", "image_url", "input_image"})
# A prompt that is a transcript, as HH-RLHF and Nectar have it: it ends where the answer begins.
ASKED_IN_TRANSCRIPT = re.compile(r"\n\nHuman:.*\n\nAssistant:\s*", re.DOTALL)
# The beginning of messages as JSON, Python or numpy print them.
PRINTED_MESSAGES = re.compile(
    r"""\s*(?:array\()?\[\s*\{\s*(?P<quote>['"])(?:role|content|from|value)(?P=quote)\s*:\s*['"]"""
)
# Objects that hold a question and its answer, as XTuner and Baize have them.
EXCHANGES = (("human", "assistant"), ("input", "output"), ("user", "assistant"))
TRANSCRIPT = re.compile(r"(?:^|\n\n)(Human|Assistant):[ ]?")


def read_conversation(value: object, column: str, taking: RowReading) -> list[Message]:
    """Return messages of role and content. Raises NotThisLayout."""
    value = decoded(value)
    if isinstance(value, dict):
        value = [value]
    value = _spread_questions(value)
    if not isinstance(value, list) or not value:
        raise NotThisLayout(f"{column}: must be a list of messages that is not empty")
    messages: list[Message] = []
    for number, item in enumerate(value):
        place = f"{column}[{number}]"
        message = _message(item, place, column, taking)
        follows = bool(messages) and _is_tool(item) and _is_tool(value[number - 1])
        if follows:  # several tools that answered one turn
            messages[-1]["content"] += "\n" + message["content"]
        else:
            messages.append(message)
    return messages


def read_prompt_messages(value: object, column: str, taking: RowReading) -> list[Message]:
    """Return a prompt's messages: of a text, of one message, or of several.

    Raises NotThisLayout.
    """
    if isinstance(value, str) and ASKED_IN_TRANSCRIPT.fullmatch(value):
        return until_asked(transcript(value, column), column)
    if isinstance(value, str) and not is_conversation(value):
        _require_no_messages(value, column)
        return [{"role": "user", "content": value}]
    return read_conversation(value, column, taking)


def _require_no_messages(text: str, column: str) -> None:
    """Refuse a text that shows messages in a form that cannot be read, such as one cut short.

    Raises NotThisLayout.
    """
    if PRINTED_MESSAGES.match(text) and isinstance(decoded(text), str):
        raise NotThisLayout(
            f"{column}: shows messages, but in no form that can be read; write them as JSON"
        )


def read_answer(value: object, column: str, taking: RowReading) -> str:
    """Return an answer's text: of a text, or of one message of the assistant's.

    Tables without types have the message as a text, too. Raises NotThisLayout.
    """
    if isinstance(value, str) and not is_conversation(value):
        _require_no_messages(value, column)
        return value
    messages = read_conversation(value, column, taking)
    if len(messages) != 1 or messages[0]["role"] != "assistant":
        raise NotThisLayout(f"{column}: must be text or a single message of the assistant")
    return text_in(messages[0], column)


def split_last_answer(messages: list[Message], column: str) -> tuple[list[Message], str]:
    """Return what was asked, and the assistant's last answer to it. Raises NotThisLayout."""
    if len(messages) < 2 or messages[-1]["role"] != "assistant":
        raise NotThisLayout(f"{column}: must end with an answer of the assistant to a user message")
    return messages[:-1], text_in(messages[-1], column)


def until_asked(messages: list[Message], column: str) -> list[Message]:
    """Return the messages without an empty answer behind them, which transcripts end with."""
    if len(messages) > 1 and messages[-1]["role"] == "assistant" and not messages[-1]["content"]:
        return messages[:-1]
    if messages[-1]["role"] != "user":
        raise NotThisLayout(f"{column}: must end with a message of the user")
    return messages


def text_in(message: Message, column: str) -> str:
    if not isinstance(message["content"], str):
        raise NotThisLayout(f"{column}: an answer must be text, but this one contains images")
    return message["content"]


def transcript(text: str, column: str) -> list[Message]:
    r"""Return the messages of `\n\nHuman: …\n\nAssistant: …`. Raises NotThisLayout."""
    parts = TRANSCRIPT.split(text)
    if parts[0].strip() or len(parts) < 3:
        raise NotThisLayout(
            f"{column}: a transcript must start with 'Human:' and continue with 'Assistant:'"
        )
    turns = zip(parts[1::2], parts[2::2], strict=True)
    return [{"role": ROLES[speaker.lower()], "content": words.strip()} for speaker, words in turns]


def is_conversation(value: object) -> bool:
    """Return whether the value looks like a list of messages."""
    value = _spread_questions(decoded(value))
    return isinstance(value, list) and bool(value) and all(is_message(item) for item in value)


def _spread_questions(value: object) -> object:
    """Return the messages of a list of questions with their answers; any other value as it is."""
    if not isinstance(value, list) or not all(isinstance(exchange, dict) for exchange in value):
        return value
    pair = next(
        (pair for pair in EXCHANGES if all(set(pair) <= exchange.keys() for exchange in value)),
        None,
    )
    if pair is None or not value:
        return value
    messages = []
    for exchange in value:
        if exchange.get("system"):
            messages.append({"role": "system", "content": exchange["system"]})
        messages.append({"role": "user", "content": exchange[pair[0]]})
        messages.append({"role": "assistant", "content": exchange[pair[1]]})
    return messages


def is_message(value: object) -> bool:
    """Return whether the value looks like a message.

    Tables leave out fields that are null, so one of the assistant's may have lost its words.
    """
    if not isinstance(value, dict):
        return False
    is_said = any(key in value for key in (*CONTENT_KEYS, *CALLS))
    has_role = any(isinstance(value.get(key), str) for key in ROLE_KEYS)
    return has_role and (is_said or (len(value) == 1 and _role(value) in ROLES))


def decoded(value: object) -> object:
    """Return the list or object that a text holds as JSON or as Python prints it, as tables
    without types have it; else the value itself."""
    if not isinstance(value, str) or not value.lstrip().startswith(("[", "{", "array([")):
        return value
    try:
        return strict_json.decode_json(value)
    except strict_json.NotStrictJson:
        pass
    try:
        return read_literal(value)
    except NotALiteral:
        return value


# -- one message -----------------------------------------------------------------------------------


def _is_tool(message: object) -> bool:
    return isinstance(message, dict) and _role(message) in OF_TOOLS


def _role(message: Row) -> str:
    role = next((message[key] for key in ROLE_KEYS if message.get(key) is not None), None)
    return role.lower() if isinstance(role, str) else ""


def _message(message: object, place: str, column: str, taking: RowReading) -> Message:
    if not isinstance(message, dict):
        raise NotThisLayout(
            f"{place}: must be a message such as {{'role': 'user', 'content': '…'}}"
        )
    fields = {key: value for key, value in message.items() if value is not None}
    role = _role(fields)
    if role not in ROLES:
        raise NotThisLayout(f"{place}: the role must be one of {', '.join(ROLES)}, not {role!r}")
    taking.dropped.update(f"{column}[].{key}" for key in fields.keys() - READ)
    content = _content(fields, place)
    if role in OF_TOOLS:
        content = _within("tool_response", _plain(content, place))
    elif role == "function_call":
        content = _within("tool_call", _plain(content, place))
    elif ROLES[role] == "assistant":
        content = _with_calls(fields, content, place)
    return {"role": ROLES[role], "content": content}


def _within(tag: str, text: str) -> str:
    """Return the text in this tag, in which some data sets have it already (Hermes)."""
    return text if text.lstrip().startswith(f"<{tag}>") else f"<{tag}>\n{text}\n</{tag}>"


def _content(message: Row, place: str) -> str | list[Row]:
    content = next((message[key] for key in CONTENT_KEYS if key in message), None)
    if content is None and any(key in message for key in CALLS):
        return ""
    if isinstance(content, dict):
        content = [content]
    if isinstance(content, str):
        return content
    if not isinstance(content, list) or not content:
        raise NotThisLayout(f"{place}: the content must be text or a list of parts")
    parts = [_part(part, f"{place}.content[{number}]") for number, part in enumerate(content)]
    if all(part["type"] == "text" for part in parts):
        return "".join(part["text"] for part in parts)
    return parts


def _part(part: object, place: str) -> Row:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if not isinstance(part, dict):
        raise NotThisLayout(f"{place}: must be a part such as {{'type': 'text', 'text': '…'}}")
    part = {key: value for key, value in part.items() if value is not None}
    kind = part.get("type")
    if not isinstance(kind, str):
        raise NotThisLayout(f"{place}: the type of a part must be a text, not {kind!r}")
    if kind in ("text", "input_text", "output_text") and isinstance(part.get("text"), str):
        return {"type": "text", "text": part["text"]}
    if kind == "refusal" and isinstance(part.get("refusal"), str):
        return {"type": "text", "text": part["refusal"]}
    if kind in PICTURE_PARTS:
        return picture_part(part)
    raise NotThisLayout(f"{place}: parts must be text or images, not {kind!r}")


def picture_part(part: Row) -> Row:
    """Return a part that shows a picture, as imports take it; {"type": "image"} alone is to be
    filled from a column."""
    if "picture" in part:  # as a preview has it, whose pictures were read before
        return part
    address = part.get("image_url", part.get("url"))
    if isinstance(address, dict):
        address = address.get("url")
    if isinstance(address, str):
        return {"type": "image_url", "image_url": {"url": address}}
    picture = part.get("image", part.get("path"))
    return {"type": "image"} if picture is None else read_picture_part(picture)


def read_picture_part(picture: object) -> Row:
    """Return the part that shows a picture.

    The picture is an address, a path, or an object with one of these.
    """
    if isinstance(picture, dict):
        if "picture" in picture or picture.get("type") == "image":
            return picture_part(picture)
        fields = {key: value for key, value in picture.items() if value is not None}
        picture = next(
            (
                fields[key]
                for key in ("bytes", "image_url", "url", "image", "path")
                if key in fields
            ),
            None,
        )
    if not isinstance(picture, str) or not picture:
        return {"type": "image", "path": ""}  # refused by name where pictures are read
    if picture.startswith(("data:", "http://", "https://")):
        return {"type": "image_url", "image_url": {"url": picture}}
    return {"type": "image", "path": picture}


def _with_calls(message: Row, content: str | list[Row], place: str) -> str | list[Row]:
    """Return the content with the thoughts before it and the calls of tools behind it."""
    thoughts = next((message[key] for key in THOUGHTS if message.get(key)), "")
    calls = [call for key in CALLS if message.get(key) for call in _as_list(message[key])]
    if not thoughts and not calls:
        return content
    if thoughts and not isinstance(thoughts, str):
        raise NotThisLayout(f"{place}: the reasoning must be text")
    parts = [f"<think>\n{thoughts}\n</think>"] if thoughts else []
    parts += [words] if (words := _plain(content, place)) else []
    parts += [_call(call, place) for call in calls]
    return "\n".join(parts)


def _as_list(value: object) -> list:
    value = decoded(value)
    return value if isinstance(value, list) else [value]


def _call(call: object, place: str) -> str:
    call = call.get("function", call) if isinstance(call, dict) else None
    if not isinstance(call, dict) or not isinstance(call.get("name"), str):
        raise NotThisLayout(
            f"{place}: a tool call must have the name of a function and its arguments"
        )
    arguments = decoded(call.get("arguments", {}))
    call_text = json.dumps({"name": call["name"], "arguments": arguments}, ensure_ascii=False)
    return f"<tool_call>\n{call_text}\n</tool_call>"


def _plain(content: str | list[Row], place: str) -> str:
    if isinstance(content, str):
        return content
    if any(part["type"] != "text" for part in content):
        raise NotThisLayout(f"{place}: only messages of the user can contain images")
    return "".join(part["text"] for part in content)
