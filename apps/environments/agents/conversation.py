"""Messages of a call against what its episode has recorded: the earlier ones must be the same, and what follows is new.

What the policy said is never read back: a call must repeat it, and its tokens are those that were sampled.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from apps.accounts import strict_json
from apps.environments.agents import tools
from apps.environments.agents.refusals import Refused, unsupported, wrong
from apps.environments.models import EpisodeTurn
from apps.environments.observations import MOST_MESSAGES, messages
from apps.tasksets.messages import BadContent, Content, holds_picture, read_content
from apps.tasksets.pictures import Encoded

ASSISTANT = "assistant"
UNSEEN = "is not supported: the policy would not see it"
ROLES = {"system": "system", "developer": "system", "user": "user", "tool": "tool", ASSISTANT: ASSISTANT}
KNOWN = {"role", "content", "tool_calls", "tool_call_id", "name"}
# What clients send back with an answer that they repeat. The policy's own words count, not these.
OF_ANSWERS = {
    "annotations", "audio", "function_call", "id", "provider_specific_fields", "reasoning", "reasoning_content",
    "reasoning_details", "refusal", "thinking_blocks",
}  # fmt: skip
EXAMPLE = (
    "an answer that is shown as an example has no tool calls, and others speak after it. "
    "To go on with a conversation, name its episode in every call: by the header "
    "X-Rftweb-Episode, or by the API key <key>.<name>"
)
NAME = re.compile(r"[^\s<|\\/>]{1,64}")
LARGEST_EXACT = 2**53


@dataclass(frozen=True)
class Said:
    """A message. `calls`: the assistant's, as (id, name, arguments as JSON in one spelling); `answers`: the id a tool answers.

    `extra`: a field of an assistant's message that is unread where the policy said it, and refused elsewhere.
    """

    role: str
    content: Content
    calls: tuple[tuple[str, str, str], ...] = ()
    answers: str = ""
    extra: str = ""


# -- what is sent ---------------------------------------------------------------------------------------------------


def spoken(sent: object, taken: dict[str, Encoded] | None = None) -> tuple[Said, ...]:
    """The messages of a call; their pictures are added to `taken`, None: the policy sees none. Raises Refused with the place."""
    if not isinstance(sent, list) or not 0 < len(sent) <= MOST_MESSAGES * 8:
        raise wrong("messages", f"must be a list of 1 to {MOST_MESSAGES * 8} messages")
    return tuple(_message(f"messages[{place}]", message, taken) for place, message in enumerate(sent))


def _message(path: str, message: object, taken: dict[str, Encoded] | None) -> Said:
    if not isinstance(message, dict) or not isinstance(message.get("role"), str) or message["role"] not in ROLES:
        raise wrong(path, f"must have a `role`, one of {', '.join(ROLES)}")
    role = ROLES[message["role"]]
    beside = [name for name, value in message.items() if name not in KNOWN and value not in (None, [], {}, "")]
    extra = beside[0][:60] if beside else ""
    if extra and not (role == ASSISTANT and OF_ANSWERS.issuperset(beside)):
        raise unsupported(f"{path}.{extra}", UNSEEN)
    calls = _calls(path, message.get("tool_calls") or []) if role == ASSISTANT else ()
    content = message.get("content")
    if content is None and not calls:
        raise wrong(f"{path}.content", "must be a text")
    answers = message.get("tool_call_id") or ""
    if (role == "tool") != bool(answers) or not isinstance(answers, str):
        raise wrong(f"{path}.tool_call_id", "goes with the role tool, and must name the call that is answered")
    speaker = _speaker(path, role, message.get("name"))
    if taken is not None and holds_picture(content):
        if speaker:
            raise unsupported(f"{path}.name", "goes with a text alone: write the name into one of the parts")
        return Said(role, _shown(f"{path}.content", role, content, taken), calls, answers)
    return Said(role, speaker + _text(f"{path}.content", content), calls, answers, extra)


def _speaker(path: str, role: str, name: object) -> str:
    """What a `name` puts before the words: chat templates show none. Of an answer or a tool it tells nothing new."""
    if name is None or name == "":
        return ""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise wrong(f"{path}.name", "must be 1 to 64 characters without blanks, <, |, \\, / and >")
    return f"{name}: " if role in ("user", "system") else ""


def _shown(path: str, role: str, content: object, taken: dict[str, Encoded]) -> Content:
    """What a message with pictures says, as it is kept."""
    if role != "user":
        raise unsupported(path, "shows a picture, which only the user may")
    try:
        return read_content(content, taken)
    except BadContent as error:
        raise wrong(f"{path}{error.where}", error.why) from None


def _text(path: str, content: object) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise wrong(path, "must be a text, or a list of parts")
    for place, part in enumerate(content):
        if not isinstance(part, dict) or part.get("type") != "text":
            raise unsupported(f"{path}[{place}]", "must be of type text: this policy reads text alone")
        if not isinstance(part.get("text"), str):
            raise wrong(f"{path}[{place}].text", "must be a text")
    return "".join(part["text"] for part in content)


def _calls(path: str, calls: object) -> tuple[tuple[str, str, str], ...]:
    found = []
    for place, call in enumerate(calls if isinstance(calls, list) else [calls]):
        try:
            found.append((call["id"], call["function"]["name"], _spelt(strict_json.decode(call["function"]["arguments"]))))
        except (TypeError, KeyError, ValueError):
            raise wrong(
                f"{path}.tool_calls[{place}]", "must be a call as it was answered: id, function.name, function.arguments"
            ) from None
    return tuple(found)


def _spelt(arguments: object) -> str:
    """The same for the same values: clients in languages with one kind of number write 1 as 1.0, and the other way round."""
    return json.dumps(_plain(arguments), sort_keys=True)


def _plain(value: object) -> object:
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < LARGEST_EXACT:
        return int(value)
    return value


# -- what is recorded -----------------------------------------------------------------------------------------------


def reply(turn: EpisodeTurn, offered: Sequence[dict]) -> tuple[str, list[dict]]:
    """The policy's action as a text and the calls of the tools offered: [{id, name, arguments}]."""
    whole = turn.wishes.get("prefix", "") + turn.action
    if not offered or turn.wishes.get("no_calls"):
        return whole, []
    text, calls = tools.read(whole, offered)
    if turn.wishes.get("one_call"):
        calls = calls[:1]
    return text, [{"id": f"call_{turn.episode_id}_{turn.number}_{place}", **call} for place, call in enumerate(calls)]


def recorded(turns: Sequence[EpisodeTurn]) -> list[Said]:
    """The conversation of an episode so far."""
    said, offered = [], turns[0].tools if turns else []
    for turn in turns:
        said += [Said(message["role"], message["content"]) for message in messages(turn.observation)]
        if turn.answered_at:
            text, calls = reply(turn, offered)
            said.append(Said(ASSISTANT, text, tuple((call["id"], call["name"], _spelt(call["arguments"])) for call in calls)))
    return said


@dataclass(frozen=True)
class New:
    """What a call adds: the observation `number`, of these messages; without any, it asks again for the answer to that one."""

    number: int
    messages: tuple[Said, ...]


def news(turns: Sequence[EpisodeTurn], sent: Sequence[Said], offered: Sequence[dict]) -> New:
    """What is new in a call. Raises Refused naming the first message that differs from what was recorded."""
    before = recorded(turns)
    for place, (old, message) in enumerate(zip(before, sent, strict=False)):
        if not _is_same(old, message):
            raise _differs(place, "differs from what the episode has recorded; repeat what was said as it was answered")
    if turns and offered and list(offered) != turns[0].tools:
        why = "tools: must be those of the episode's first call, or left out where none may be called"
        raise Refused(422, "conversation_differs", why, "tools")
    answered = not turns or turns[-1].answered_at is not None
    if turns and len(sent) == len(before) - answered:
        return New(turns[-1].number, ())  # said again, after a lost answer
    if len(sent) <= len(before):
        raise _differs(len(sent), "is missing: the episode has heard more than this; send all of it, and what is new")
    if not answered:
        raise Refused(409, "turn_in_progress", "messages: the last call of this episode is not answered yet", "messages")
    rest = sent[len(before) :]
    _require_new(rest, len(before), before)
    return New(len(turns), tuple(rest))


def _is_same(old: Said, new: Said) -> bool:
    """Blanks around what was said do not matter: many agents strip them."""
    return (old.role, _bare(old.content), old.calls) == (new.role, _bare(new.content), new.calls)


def _bare(content: Content) -> Content:
    return content.strip() if isinstance(content, str) else content


def _require_new(rest: Sequence[Said], start: int, before: Sequence[Said]) -> None:
    """Before the policy has said anything its answers may be shown to it: the prompt's, nothing that it is trained on."""
    asked = {call[0] for message in before[-1:] for call in message.calls}
    answered: dict[str, int] = {}
    for place, message in enumerate(rest, start):
        if message.extra:
            raise unsupported(f"messages[{place}].{message.extra}", UNSEEN)
        if message.role == ASSISTANT and before:
            raise _differs(place, "the policy has not said this; show examples in the episode's first call")
        if message.role == ASSISTANT and (message.calls or place == start + len(rest) - 1):
            raise _differs(place, EXAMPLE)
        if message.answers and message.answers not in asked:
            raise wrong(f"messages[{place}].tool_call_id", "names no call of the policy's last answer in this episode")
        if message.answers in answered:
            first = answered[message.answers]
            raise wrong(f"messages[{place}].tool_call_id", f"was answered by messages[{first}] already: a call has one answer")
        if message.answers:
            answered[message.answers] = place


def _differs(place: int, why: str) -> Refused:
    return Refused(422, "conversation_differs", f"messages[{place}]: {why}", f"messages[{place}]")
