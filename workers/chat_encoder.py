"""Encode chat messages so that only the chat template's own markup becomes control tokens.

Tasks, observations, tool results, edits and demonstrations are written by other people. A tokenizer
reads `<|im_end|>` in such a text as the end of a turn, which lets its author forge turns of the
system or of the policy.

Two steps prevent this. Before the template is rendered, `_Shield` replaces the first character of
each control token in a message by a stand-in from a private Unicode plane; length, blanks and the
rest of the text stay as they are, so templates that trim, join or test their content still work.
After rendering, each control token that is left comes from the template; it gets a secret name, and
the stand-ins become their characters again. `_secret_tokenizer` is the policy's tokenizer in which
control tokens have only their secret names.

Names relied on in tokenizers 0.23: the layout of `Tokenizer.to_str()` (`added_tokens`,
`model.vocab`, `model.merges`, `model.unk_token`).
"""

import json
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import cached_property
from typing import Any, NewType

from jinja2 import TemplateError
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerBase

# A chat message or a tool in the form of the chat template, which may read any further keys.
Message = Mapping[str, object]
Markup = NewType("Markup", str)  # a rendered text in which control tokens have their secret names

FIRST_STAND_IN = 0xF0000
LAST_STAND_IN = 0x10FFFD
# Added tokens that are not "special", but have the form of control tokens.
BARRED = re.compile(r"<[|｜].*[|｜]>", re.DOTALL)
# Tokens that a policy writes in its own turns, and people when they write for it.
OWN_MARKUP = re.compile(r"</?(think|thinking|thought|reasoning|answer|tool_calls?|function_call)>")
STRUCTURE = frozenset({"role", "type"})  # templates compare these fields with constants
PROBE_WORD = "word"


class UnsafeTemplate(ValueError):
    """Raised if tokenizer or template let messages become control tokens; says how."""


class ChatEncoder:
    """A policy's tokenizer and chat template. Encoding raises UnsafeTemplate for unknown kinds."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self.tokenizer = tokenizer
        self.secret = secrets.token_hex(8)
        added = getattr(tokenizer, "added_tokens_decoder", {})
        template = _template_text(tokenizer)
        self.control: dict[str, int] = {}
        self.barred_in_answers: set[str] = set()
        for token_id, token in added.items():
            is_barred = token.special or BARRED.fullmatch(token.content) is not None
            if is_barred or token.content in template:
                self.control[token.content] = token_id
            if is_barred or not OWN_MARKUP.fullmatch(token.content):
                self.barred_in_answers.add(token.content)
        self.barred_in_answers &= self.control.keys()
        self._any_control = _pattern(self.control)
        self._answer_markup = _pattern(self.control.keys() - self.barred_in_answers)

    # -- messages

    def render(self, messages: Sequence[Message], tools: Sequence[Message] = ()) -> Markup:
        """Render the chat template, ready for the policy's next turn.

        Raises TemplateError, or ValueError where a message's role is not a plain word.
        """
        shield = _Shield(self, (messages, tools))
        rendered = self.tokenizer.apply_chat_template(
            [shield.message(message) for message in messages],
            tools=[shield.other(tool) for tool in tools] or None,
            add_generation_prompt=True,
            tokenize=False,
        )
        return Markup(shield.lower(self.markup(str(rendered))))

    def prompt_ids(self, messages: Sequence[Message], tools: Sequence[Message] = ()) -> list[int]:
        """Return the token ids of the messages, ready for the policy's turn."""
        return self.encode(self.render(messages, tools))

    # -- texts

    def markup(self, text: str) -> Markup:
        """Mark all control tokens in a text of our own as meant."""
        return Markup(_renamed(self._any_control, self.secret, text))

    def answer_ids(self, text: str) -> list[int]:
        """Encode a text written for the policy's turn: `<think>` and the like stay tokens."""
        return self.encode(Markup(_renamed(self._answer_markup, self.secret, text)))

    def text_ids(self, text: str, begin: bool = False) -> list[int]:
        """Encode a text without any control token; `begin` adds what begins every text."""
        return self.encode(Markup(text), begin)

    def encode(self, text: Markup, begin: bool = False) -> list[int]:
        return self._secret_tokenizer.encode(text, add_special_tokens=begin).ids

    @cached_property
    def _secret_tokenizer(self) -> Tokenizer:
        """Return a copy of the tokenizer that finds control tokens only by their secret names."""
        backend = getattr(self.tokenizer, "backend_tokenizer", None)
        if not isinstance(backend, Tokenizer):
            raise UnsafeTemplate("the tokenizer has no tokenizer.json (it is not a fast tokenizer)")
        layout = json.loads(backend.to_str())
        _rename_control_tokens(layout, self.control.keys(), self.secret)
        secret_copy = Tokenizer.from_str(json.dumps(layout))
        secret_copy.no_padding()
        secret_copy.no_truncation()
        for name, token_id in self.control.items():
            if secret_copy.token_to_id(self.secret + name) != token_id:
                raise UnsafeTemplate(f"the control token {name} cannot be distinguished from text")
        return secret_copy

    # -- when a policy is added

    def require_safe(self) -> None:
        """Try the template with hostile messages. Raises UnsafeTemplate."""
        unknown = self.tokenizer.unk_token_id
        control_ids = frozenset(self.control.values()) - {unknown}
        for text in self._hostile_texts():
            if control_tokens := control_ids & set(self.text_ids(text)):
                names = _control_names(self, control_tokens)
                raise UnsafeTemplate(f"the tokenizer reads {text!r} as the control token {names}")
        for dialogue in (_question, _with_system, _with_history, _with_parts):
            try:
                benign = self.render(dialogue(PROBE_WORD))
            except (TemplateError, ValueError, TypeError):
                continue  # a template may refuse roles, or lists of parts
            if "'type':" in benign:
                continue  # it prints lists of parts as Python does, so it does not support them
            expected = [token_id for token_id in self.encode(benign) if token_id in control_ids]
            for text in self._hostile_texts():
                self._require_inert(dialogue(text), expected, control_ids, text)

    def _require_inert(
        self, messages: list[Message], expected: list[int], control_ids: frozenset[int], text: str
    ) -> None:
        try:
            rendered = self.render(messages)
        except (TemplateError, ValueError, TypeError) as refusal:
            reason = f"the chat template rejects the text {text!r}: {refusal}"
            raise UnsafeTemplate(reason) from None
        present = [token_id for token_id in self.encode(rendered) if token_id in control_ids]
        if present != expected:
            raise UnsafeTemplate(
                f"the chat template turns the text {text!r} into control tokens: "
                f"{len(present)} instead of {len(expected)} in the prompt"
            )
        if text.strip() not in rendered:
            raise UnsafeTemplate(f"the chat template changes the text {text!r} of a message")

    def _hostile_texts(self) -> Iterator[str]:
        """Yield each control token by itself, and in the pieces that a template might join."""
        for name in self.control:
            middle = max(1, len(name) // 2)
            yield f"a {name} b"
            yield f"a {name[:middle]}\n{name[middle:]} b"
            yield f"a {name[:middle]}{name}{name[middle:]} b"
            yield f"{name[middle:]} b {name[:middle]}"


def _control_names(encoder: ChatEncoder, token_ids: Iterable[int]) -> str:
    return ", ".join(name for name, token_id in encoder.control.items() if token_id in token_ids)


class _Shield:
    """Stand-ins for the control tokens in one set of messages."""

    def __init__(self, encoder: ChatEncoder, material: object) -> None:
        self.in_answers = _pattern(encoder.barred_in_answers)
        self.anywhere = encoder._any_control
        self.control = encoder.control.keys()
        self.max_length = max(map(len, self.control), default=0)
        self.beginnings = {name[:n] for name in self.control for n in range(1, len(name))}
        self.endings = {name[n:] for name in self.control for n in range(1, len(name))}
        characters = sorted({character for name in self.control for character in name})
        first = _free_range(material, len(characters))
        self.stand_in = {character: chr(first + n) for n, character in enumerate(characters)}
        self.original = {ord(stand_in): character for character, stand_in in self.stand_in.items()}

    def message(self, message: Message) -> dict[str, Any]:
        """Return the message with stand-ins in its texts. Raises ValueError for a wrong role."""
        role = message.get("role", "")
        if not str(role).replace("_", "").isalnum():
            raise ValueError(f"role: must be a single word, not {role!r}")
        pattern = self.in_answers if role == "assistant" else self.anywhere
        fields = {key: value for key, value in message.items() if key != "role"}
        return {"role": role, **self._value("", fields, pattern)}

    def other(self, value: Any) -> Any:
        return self._value("", value, self.anywhere)

    def _value(self, key: str, value: Any, pattern: re.Pattern[str]) -> Any:
        if isinstance(value, str):
            is_word = key in STRUCTURE and value.isalpha()
            return value if is_word else self._without_pieces(self._raised(value, pattern))
        if isinstance(value, Mapping):
            return {
                self._raised(str(name), pattern): self._value(str(name), inner, pattern)
                for name, inner in value.items()
            }
        if isinstance(value, list | tuple):
            return [self._value(key, inner, pattern) for inner in value]
        return value

    def _raised(self, text: str, pattern: re.Pattern[str]) -> str:
        while pattern.search(text):
            text = pattern.sub(lambda match: self._replaced(match[0]), text)
        return text

    def _without_pieces(self, text: str) -> str:
        """Break pieces of control tokens at the ends of a text: a template may complete them."""
        if not text:
            return text
        if len(text) < self.max_length and any(
            text in name and text != name for name in self.control
        ):
            return self._replaced(text)
        for length in range(min(len(text), self.max_length - 1), 0, -1):
            if text[-length:] in self.beginnings:
                text = text[:-length] + self._replaced(text[-length:])
                break
        for length in range(min(len(text), self.max_length - 1), 0, -1):
            if text[:length] in self.endings:
                return self._replaced(text)
        return text

    def _replaced(self, text: str) -> str:
        return self.stand_in[text[0]] + text[1:]

    def lower(self, text: str) -> str:
        """Put the characters back for which stand-ins were written."""
        return text.translate(self.original)


def _free_range(material: object, count: int) -> int:
    """Return the first of `count` successive private characters that the material lacks."""
    used = {ord(character) for text in _strings(material) for character in set(text)}
    used = {code for code in used if code >= FIRST_STAND_IN}
    for first in range(FIRST_STAND_IN, LAST_STAND_IN - count, max(count, 1)):
        if not used.intersection(range(first, first + count)):
            return first
    raise ValueError("the messages use every private character of Unicode")


def _strings(material: object) -> Iterator[str]:
    if isinstance(material, str):
        yield material
    elif isinstance(material, Mapping):
        for key, value in material.items():
            yield str(key)
            yield from _strings(value)
    elif isinstance(material, list | tuple):
        for value in material:
            yield from _strings(value)


def _template_text(tokenizer: PreTrainedTokenizerBase) -> str:
    template = tokenizer.chat_template or ""
    return "".join(template.values()) if isinstance(template, dict) else str(template)


def _pattern(names: Iterable[str]) -> re.Pattern[str]:
    """Match any of the names, longest first, as tokenizers do; nothing for no names."""
    longest_first = sorted(names, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")


def _renamed(pattern: re.Pattern[str], secret: str, text: str) -> str:
    return pattern.sub(lambda match: secret + match[0], text)


def _rename_control_tokens(layout: dict[str, Any], names: Set[str], secret: str) -> None:
    """Rename tokens in a tokenizer's JSON, wherever its model or its added tokens spell them."""
    for token in layout["added_tokens"]:
        if token["content"] in names:
            token["content"] = secret + token["content"]
    model = layout["model"]
    if isinstance(model["vocab"], dict):
        vocabulary = model["vocab"].items()
        model["vocab"] = {secret * (name in names) + name: number for name, number in vocabulary}
    else:  # Unigram: pairs of piece and score
        pairs = model["vocab"]
        model["vocab"] = [[secret * (name in names) + name, score] for name, score in pairs]
    if model.get("unk_token") in names:
        model["unk_token"] = secret + model["unk_token"]
    if "merges" in model:
        model["merges"] = [merge for merge in model["merges"] if not _merged(merge, names)]


def _merged(merge: str | list[str], names: Set[str]) -> bool:
    """Tell whether this rule of byte pair encoding touches a control token."""
    first, second = merge.split(" ", 1) if isinstance(merge, str) else merge
    return first in names or second in names or first + second in names


def _question(text: str) -> list[Message]:
    return [{"role": "user", "content": text}]


def _with_system(text: str) -> list[Message]:
    return [{"role": "system", "content": text}, *_question(text)]


def _with_history(text: str) -> list[Message]:
    return [*_question(text), {"role": "assistant", "content": PROBE_WORD}, *_question(text)]


def _with_parts(text: str) -> list[Message]:
    middle = len(text) // 2
    pieces = [text[:middle], text[middle:], text]
    return [{"role": "user", "content": [{"type": "text", "text": piece} for piece in pieces]}]
