"""Compare a call's messages with its episode: earlier ones must be equal, the others are new.

The policy's own messages are never read back. A call must repeat them, but the tokens that count
are those that were sampled.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from apps.accounts import strict_json
from apps.environments.agents import tools
from apps.environments.agents.refusals import Refused, refuse_field, unsupported
from apps.environments.models import EpisodeTurn
from apps.environments.observations import MAX_MESSAGES, messages
from apps.tasksets.messages import BadContent, Content, holds_picture, read_content
from apps.tasksets.pictures import EncodedPicture

ASSISTANT = "assistant"
UNSEEN = "is not supported: the policy would not see it"
ROLES = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "tool": "tool",
    ASSISTANT: ASSISTANT,
}
KNOWN = {"role", "content", "tool_calls", "tool_call_id", "name"}
# Fields that clients send back in a repeated answer. Only the recorded answer counts.
OF_ANSWERS = {
    "annotations",
    "audio",
    "function_call",
    "id",
    "provider_specific_fields",
    "reasoning",
    "reasoning_content",
    "reasoning_details",
    "refusal",
    "thinking_blocks",
}
EXAMPLE = (
    "an example of a reply cannot have tool calls and cannot be the last message. To continue a "
    "conversation, name its episode in every call: by the header X-Rftweb-Episode, or by the API "
    "key <key>.<name>"
)
NAME = re.compile(r"[^\s<|\\/>]{1,64}")
MAX_EXACT_INTEGER = 2**53


@dataclass(frozen=True)
class ChatMessage:
    """A message.

    `calls` are the assistant's tool calls, as (id, name, arguments as canonical JSON); `answers` is
    the id of the call that a tool message answers. `extra` names a field of an assistant's message
    that is ignored if the policy wrote the message, and refused otherwise.
    """

    role: str
    content: Content
    calls: tuple[tuple[str, str, str], ...] = ()
    answers: str = ""
    extra: str = ""


# -- requests


def parse_messages(
    document: object, pictures: dict[str, EncodedPicture] | None = None
) -> tuple[ChatMessage, ...]:
    """Parse the messages of a call; add their pictures to `pictures` (None: the policy sees none).

    Raises Refused with the place.
    """
    if not isinstance(document, list) or not 0 < len(document) <= MAX_MESSAGES * 8:
        raise refuse_field("messages", f"must be a list of 1 to {MAX_MESSAGES * 8} messages")
    return tuple(
        _message(f"messages[{place}]", message, pictures) for place, message in enumerate(document)
    )


def _message(path: str, message: object, pictures: dict[str, EncodedPicture] | None) -> ChatMessage:
    if (
        not isinstance(message, dict)
        or not isinstance(message.get("role"), str)
        or message["role"] not in ROLES
    ):
        raise refuse_field(path, f"must have a `role`, one of {', '.join(ROLES)}")
    role = ROLES[message["role"]]
    beside = [
        name
        for name, value in message.items()
        if name not in KNOWN and value not in (None, [], {}, "")
    ]
    extra = beside[0][:60] if beside else ""
    if extra and not (role == ASSISTANT and OF_ANSWERS.issuperset(beside)):
        raise unsupported(f"{path}.{extra}", UNSEEN)
    calls = _calls(path, message.get("tool_calls") or []) if role == ASSISTANT else ()
    content = message.get("content")
    if content is None and not calls:
        raise refuse_field(f"{path}.content", "must be a text")
    answers = message.get("tool_call_id") or ""
    if (role == "tool") != bool(answers) or not isinstance(answers, str):
        raise refuse_field(
            f"{path}.tool_call_id",
            "requires the role tool and must name the call that it answers",
        )
    speaker = _speaker(path, role, message.get("name"))
    if pictures is not None and holds_picture(content):
        if speaker:
            raise unsupported(
                f"{path}.name", "requires plain text; write the name into one of the parts"
            )
        return ChatMessage(
            role, _stored_content(f"{path}.content", role, content, pictures), calls, answers
        )
    return ChatMessage(role, speaker + _text(f"{path}.content", content), calls, answers, extra)


def _speaker(path: str, role: str, name: object) -> str:
    """Return the text that shows a `name` before the content, since chat templates show no names.

    For an answer or a tool it is empty.
    """
    if name is None or name == "":
        return ""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise refuse_field(
            f"{path}.name", "must be 1 to 64 characters without blanks, <, |, \\, / and >"
        )
    return f"{name}: " if role in ("user", "system") else ""


def _stored_content(
    path: str, role: str, content: object, pictures: dict[str, EncodedPicture]
) -> Content:
    """Return the content of a message with pictures, in stored form."""
    if role != "user":
        raise unsupported(path, "contains a picture, which only the role user can")
    try:
        return read_content(content, pictures)
    except BadContent as error:
        raise refuse_field(f"{path}{error.where}", error.why) from None


def _text(path: str, content: object) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise refuse_field(path, "must be a text, or a list of parts")
    for place, part in enumerate(content):
        if not isinstance(part, dict) or part.get("type") != "text":
            raise unsupported(
                f"{path}[{place}]", "must be of type text: this policy reads only text"
            )
        if not isinstance(part.get("text"), str):
            raise refuse_field(f"{path}[{place}].text", "must be a text")
    return "".join(part["text"] for part in content)


def _calls(path: str, calls: object) -> tuple[tuple[str, str, str], ...]:
    parsed = []
    for place, call in enumerate(calls if isinstance(calls, list) else [calls]):
        try:
            parsed.append(
                (
                    call["id"],
                    call["function"]["name"],
                    _canonical_arguments(strict_json.decode_json(call["function"]["arguments"])),
                )
            )
        except (TypeError, KeyError, ValueError):
            raise refuse_field(
                f"{path}.tool_calls[{place}]",
                "must equal the call in the reply: id, function.name, function.arguments",
            ) from None
    return tuple(parsed)


def _canonical_arguments(arguments: object) -> str:
    """Return the arguments as canonical JSON: equal values have equal text.

    Clients in languages with only one number type write 1 as 1.0, or 1.0 as 1.
    """
    return json.dumps(_plain(arguments), sort_keys=True)


def _plain(value: object) -> object:
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < MAX_EXACT_INTEGER:
        return int(value)
    return value


# -- records


def reply(turn: EpisodeTurn, offered: Sequence[dict]) -> tuple[str, list[dict]]:
    """Split the action into text and calls of the offered tools: [{id, name, arguments}]."""
    whole = turn.wishes.get("prefix", "") + turn.action
    if not offered or turn.wishes.get("no_calls"):
        return whole, []
    text, calls = tools.split_tool_calls(whole, offered)
    if turn.wishes.get("one_call"):
        calls = calls[:1]
    return text, [
        {"id": f"call_{turn.episode_id}_{turn.number}_{place}", **call}
        for place, call in enumerate(calls)
    ]


def recorded(turns: Sequence[EpisodeTurn]) -> list[ChatMessage]:
    """Return the conversation of an episode so far."""
    conversation = []
    offered = turns[0].tools if turns else []
    for turn in turns:
        conversation += [
            ChatMessage(message["role"], message["content"])
            for message in messages(turn.observation)
        ]
        if turn.answered_at:
            text, calls = reply(turn, offered)
            conversation.append(
                ChatMessage(
                    ASSISTANT,
                    text,
                    tuple(
                        (call["id"], call["name"], _canonical_arguments(call["arguments"]))
                        for call in calls
                    ),
                )
            )
    return conversation


@dataclass(frozen=True)
class NewMessages:
    """The new messages of a call: observation `number`.

    A call without new messages requests the answer to that observation again.
    """

    number: int
    messages: tuple[ChatMessage, ...]


def news(
    turns: Sequence[EpisodeTurn], sent_messages: Sequence[ChatMessage], offered: Sequence[dict]
) -> NewMessages:
    """Return what is new in a call.

    Raises Refused naming the first message that differs from what was recorded.
    """
    before = recorded(turns)
    for place, (old, message) in enumerate(zip(before, sent_messages, strict=False)):
        if not _is_same(old, message):
            raise _differs(
                place,
                "differs from what the episode has recorded; repeat each reply as you received it",
            )
    if turns and offered and list(offered) != turns[0].tools:
        why = (
            "tools: must equal those of the episode's first call, or be left out if no calls are "
            "allowed"
        )
        raise Refused(422, "conversation_differs", why, "tools")
    answered = not turns or turns[-1].answered_at is not None
    if turns and len(sent_messages) == len(before) - answered:
        return NewMessages(turns[-1].number, ())  # a repeat after a lost answer
    if len(sent_messages) <= len(before):
        raise _differs(
            len(sent_messages),
            "is missing: the episode has more messages; send all of them and the new ones",
        )
    if not answered:
        raise Refused(
            409,
            "turn_in_progress",
            "messages: the last call of this episode has no reply yet",
            "messages",
        )
    new_messages = sent_messages[len(before) :]
    _require_new(new_messages, len(before), before)
    return NewMessages(len(turns), tuple(new_messages))


def _is_same(old: ChatMessage, new: ChatMessage) -> bool:
    """Tell whether two messages are equal apart from outer whitespace, which many agents strip."""
    return (old.role, _bare(old.content), old.calls) == (new.role, _bare(new.content), new.calls)


def _bare(content: Content) -> Content:
    return content.strip() if isinstance(content, str) else content


def _require_new(
    new_messages: Sequence[ChatMessage], start: int, before: Sequence[ChatMessage]
) -> None:
    """Raise Refused for assistant messages among the new ones after the policy's first answer.

    Before that answer they are part of the prompt, and are not trained on.
    """
    call_ids = {call[0] for message in before[-1:] for call in message.calls}
    answered: dict[str, int] = {}
    for place, message in enumerate(new_messages, start):
        if message.extra:
            raise unsupported(f"messages[{place}].{message.extra}", UNSEEN)
        if message.role == ASSISTANT and before:
            raise _differs(
                place, "the policy did not write this; put examples into the episode's first call"
            )
        if message.role == ASSISTANT and (message.calls or place == start + len(new_messages) - 1):
            raise _differs(place, EXAMPLE)
        if message.answers and message.answers not in call_ids:
            raise refuse_field(
                f"messages[{place}].tool_call_id",
                "is not a call in the policy's last reply in this episode",
            )
        if message.answers in answered:
            first = answered[message.answers]
            raise refuse_field(
                f"messages[{place}].tool_call_id",
                f"was already answered by messages[{first}]; a call has one answer",
            )
        if message.answers:
            answered[message.answers] = place


def _differs(place: int, why: str) -> Refused:
    return Refused(422, "conversation_differs", f"messages[{place}]: {why}", f"messages[{place}]")
