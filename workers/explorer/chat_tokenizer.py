"""Encode messages and decode tokens by the policy's own chat template and tokenizer.

Token ids are authoritative, text is a rendering of them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from jinja2 import TemplateError
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from apps.policies.end_tokens import declared_end_tokens
from apps.policies.manifest import ShownPicture
from apps.tasksets.messages import Content, list_pictures
from workers.chat_encoder import ChatEncoder, Markup
from workers.vision.image_processor import ImageProcessor, require_image_processor

UNFINISHED_CHARACTER = "\ufffd"
MANY_TOKENS = 1024
ANSWER = "RFTWEBANSWER"  # a placeholder for the policy's answer in a template
# Byte-level tokenizers spell tokens in these characters: a printable byte is its own, the others
# are from 256 on.
PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
BYTE_OF = {chr(byte): byte for byte in PRINTABLE} | {
    chr(256 + place): byte
    for place, byte in enumerate(byte for byte in range(256) if byte not in PRINTABLE)
}


class UnsupportedDialogue(ValueError):
    """Raised for a chat template that cannot continue after an answer; the message says why."""


class UnencodableText(ValueError):
    """Raised for a text that the policy's tokens cannot express.

    The message gives the nearest.
    """


@dataclass(frozen=True)
class EncodedEdit:
    """Edit of a turn: how many of its tokens and characters stay, and what follows them."""

    kept: int
    keep: int
    token_ids: tuple[int, ...]
    text: str


@dataclass(frozen=True)
class EncodedPrompt:
    """Token ids of messages, and the pictures among them."""

    token_ids: tuple[int, ...]
    pictures: tuple[ShownPicture, ...] = ()


class ChatTokenizer:
    """A policy's tokenizer and chat template, loaded from its folder without running its code.

    `image_processor` is its image processor, where the policy reads pictures.
    """

    def __init__(self, folder: Path) -> None:
        self.image_processor = ImageProcessor.of(folder)
        self.tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
        self.encoder = ChatEncoder(self.tokenizer)
        self._declared_ends = declared_end_tokens(folder)

    @cached_property
    def stop_token_ids(self) -> tuple[int, ...]:
        """Return all tokens that end a reply, first the one with which the template ends a turn."""
        ends = dict.fromkeys([self.tokenizer.eos_token_id, *self._declared_ends])
        end_ids = [end for end in ends if end is not None and end < len(self.tokenizer)]
        turn_end = self._turn_end(end_ids)
        return tuple(sorted(end_ids, key=lambda end: end != turn_end))

    def _turn_end(self, ends: Sequence[int]) -> int | None:
        try:
            text = self._after_answer([{"role": "user", "content": "?"}], [], ANSWER)
        except (TemplateError, UnsupportedDialogue):
            return None
        following = self.encoder.encode(text)[:1]
        return following[0] if following and following[0] in ends else None

    @cached_property
    def tokens_around(self) -> int:
        """Return the token count of an empty prompt.

        A large number where the template refuses one.
        """
        try:
            return len(self.prompt_ids([{"role": "user", "content": ""}]))
        except TemplateError:
            return MANY_TOKENS

    def prompt_ids(
        self, messages: list[dict[str, Any]], tools: Sequence[dict[str, Any]] = ()
    ) -> tuple[int, ...]:
        """Encode the messages, and the tools that may be called, ready for the policy's turn."""
        return self.encode_prompt(messages, tools).token_ids

    def encode_prompt(
        self,
        messages: list[dict[str, Any]],
        tools: Sequence[dict[str, Any]] = (),
        pngs: Mapping[str, bytes] | None = None,
    ) -> EncodedPrompt:
        """Encode the messages with their pictures.

        `pngs` has the bytes by name. Raises Unreadable.
        """
        return EncodedPrompt(
            *self._encode(self._render(messages, tools), messages, pngs, begins=True)
        )

    def _encode(
        self,
        text: Markup,
        messages: list[dict[str, Any]],
        pngs: Mapping[str, bytes] | None,
        offset: int = 0,
        begins: bool = False,
    ) -> tuple[tuple[int, ...], tuple[ShownPicture, ...]]:
        """Encode a rendered template that shows the pictures of these messages."""
        names = list_pictures(messages)
        if self.image_processor is None and not names:
            return tuple(self.encoder.encode(text)), ()
        bos = self.tokenizer.bos_token
        is_begun = bool(bos) and text.startswith(self.encoder.markup(bos))
        tokenized = self.encoder.encode(text, begin=begins and not is_begun)
        pictures = [(pngs or {})[name] for name in names]
        return require_image_processor(self.image_processor).expand(tokenized, pictures, offset)

    def _render(
        self, messages: list[dict[str, Any]], tools: Sequence[dict[str, Any]] = ()
    ) -> Markup:
        """Render the messages by the policy's chat template.

        Templates of policies that read pictures expect parts, not texts.
        """
        rendered = (
            messages
            if self.image_processor is None
            else [{**message, "content": _parts(message["content"])} for message in messages]
        )
        return self.encoder.render(rendered, tools)

    def without_thoughts(self, prompt_ids: Sequence[int]) -> tuple[int, ...]:
        """Return the prompt followed by an empty thought, if the template knows thoughts.

        The policy then answers at once.
        """
        if "<think>" not in str(self.tokenizer.chat_template):
            return tuple(prompt_ids)
        end = str(self.tokenizer.decode(list(prompt_ids)[-8:], skip_special_tokens=False)).rstrip()
        if end.endswith("</think>"):
            return tuple(prompt_ids)
        ended = "\n\n</think>\n\n" if end.endswith("<think>") else "<think>\n\n</think>\n\n"
        return (*prompt_ids, *self.encoder.encode(self.encoder.markup(ended)))

    def bare_ids(self, text: str) -> tuple[int, ...]:
        """Encode a text without the chat template, with what begins every text."""
        return tuple(self.encoder.text_ids(text, begin=True))

    def token_texts(self, token_ids: Sequence[int]) -> list[tuple[str, list[int]]]:
        """Return each token's text and bytes, which together are those of the whole text.

        A byte-level tokenizer knows each token's own bytes; with any other, a character belongs to
        the last of its tokens. A model may have more tokens than its tokenizer: these have no text.
        """
        if not self._is_byte_level:
            detokenizer = IncrementalDetokenizer(self)
            return [
                (text, list(text.encode("utf-8", "replace")))
                for text in (detokenizer.push((token,)) for token in token_ids)
            ]
        texts = []
        for token, token_name in zip(
            token_ids, self.tokenizer.convert_ids_to_tokens(list(token_ids)), strict=True
        ):
            special = token in self.tokenizer.added_tokens_decoder
            token_bytes = (
                token_name.encode()
                if special
                else bytes(BYTE_OF[character] for character in token_name or "")
            )
            texts.append((token_bytes.decode("utf-8", "replace"), list(token_bytes)))
        return texts

    @cached_property
    def _is_byte_level(self) -> bool:
        """Tell whether the tokens are spelt in the 256 characters that stand for bytes."""
        decoder = self.tokenizer.backend_tokenizer.decoder
        return decoder is not None and b'"ByteLevel"' in decoder.__getstate__()

    def text(self, token_ids: list[int]) -> str:
        """Decode tokens without special ones and without the stop token at the end."""
        if token_ids and token_ids[-1] in self.stop_token_ids:
            token_ids = token_ids[:-1]
        return str(self.tokenizer.decode(token_ids, skip_special_tokens=True))

    # -- dialogues

    def follow_up_ids(
        self, messages: list[dict[str, Any]], follow_up: list[dict[str, Any]]
    ) -> tuple[int, ...]:
        """Return the tokens between an answer's stop token and the next answer.

        They are the template's markup around the messages of `follow_up`; the answer itself is
        never encoded again. Raises UnsupportedDialogue.
        """
        return self.encode_follow_up(messages, follow_up).token_ids

    def encode_follow_up(
        self,
        messages: list[dict[str, Any]],
        follow_up: list[dict[str, Any]],
        pngs: Mapping[str, bytes] | None = None,
    ) -> EncodedPrompt:
        """Return the tokens between two answers, with the pictures that `follow_up` shows.

        Positions are counted from its first token. Raises UnsupportedDialogue and Unreadable.
        """
        answer = ANSWER
        while any(
            answer in text
            for message in (*messages, *follow_up)
            for text in _texts(message["content"])
        ):
            answer += answer
        follow_up_text = self._after_answer(messages, follow_up, answer)
        # The stop token is encoded with the text after it, then cut off, so that no token begins in
        # mid-text.
        token_ids, pictures = self._encode(follow_up_text, follow_up, pngs, offset=-1)
        if not token_ids or token_ids[0] not in self.stop_token_ids:
            raise UnsupportedDialogue(
                "the policy's chat template does not end an answer with a stop token of the"
                " policy: "
                + " or ".join(self.tokenizer.convert_ids_to_tokens(list(self.stop_token_ids)))
            )
        return EncodedPrompt(token_ids[1:], pictures)

    def _after_answer(
        self, messages: list[dict[str, Any]], follow_up: list[dict[str, Any]], answer: str
    ) -> Markup:
        """Return what the template writes behind an answer with this text.

        Raises UnsupportedDialogue.
        """
        whole = self._render([*messages, {"role": "assistant", "content": answer}, *follow_up])
        _, separator, tail = whole.partition(answer)
        if not separator:
            raise UnsupportedDialogue(
                "the policy's chat template does not render the replies of a dialogue"
            )
        return Markup(tail.lstrip())

    # -- typed text

    def encode_edit(self, token_ids: list[int], text: str) -> EncodedEdit:
        """Encode this text, keeping the tokens of `token_ids` that spell its beginning.

        Raises UnencodableText.
        """
        lengths, current_text = self._lengths(token_ids)
        common_length = _common(current_text, text)
        kept_tokens, keep = max(
            ((n, length) for n, length in enumerate(lengths) if length <= common_length),
            key=lambda pair: (pair[1], -pair[0]),
        )
        whole = self._encode_text(text)
        again = _common(token_ids, whole)
        for stay, new_ids in (
            (kept_tokens, self._encode_text(text[keep:])),
            (again, whole[again:]),
        ):
            edited = self.text([*token_ids[:stay], *new_ids])
            if edited == text:
                return EncodedEdit(stay, lengths[stay], tuple(new_ids), edited)
        if edited.split() == text.split():  # a word-level tokenizer has no whitespace
            return EncodedEdit(again, lengths[again], tuple(whole[again:]), edited)
        raise UnencodableText(
            f"the policy's tokenizer cannot encode this text; the closest text is: {edited[:200]}"
        )

    def _encode_text(self, text: str) -> list[int]:
        return self.encoder.answer_ids(text)

    def _lengths(self, token_ids: list[int]) -> tuple[list[int], str]:
        """Return the length of the text after n tokens, for each n from 0, and the whole text."""
        detokenizer = IncrementalDetokenizer(self)
        current_text = ""
        lengths = [0]
        for token in token_ids:
            current_text += detokenizer.push((token,))
            lengths.append(len(current_text))
        return lengths, current_text


def _parts(content: Content) -> list[dict[str, Any]]:
    """Return a message's content as template parts, pictures without their names."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [{"type": "image"} if part["type"] == "image" else dict(part) for part in content]


def _texts(content: Content) -> Iterable[str]:
    return (part["text"] for part in _parts(content) if part["type"] == "text")


def _common(first: Sequence[object], second: Sequence[object]) -> int:
    """Return how many items both sequences have in common at the beginning."""
    return next(
        (n for n, (a, b) in enumerate(zip(first, second, strict=False)) if a != b),
        min(len(first), len(second)),
    )


class IncrementalDetokenizer:
    """Incremental detokenizer; a character split over tokens waits for its last one.

    Each piece is decoded with a few tokens of context before it, so spaces between words come out
    right and the cost stays constant however long the sequence grows.
    """

    def __init__(self, tokenizer: ChatTokenizer) -> None:
        self.tokenizer = tokenizer
        self.ids: list[int] = []
        self.context = 0
        self.shown = 0

    def push(self, token_ids: tuple[int, ...]) -> str:
        """Return the text that these tokens add."""
        self.ids += token_ids
        before = self.tokenizer.text(self.ids[self.context : self.shown])
        now = self.tokenizer.text(self.ids[self.context :])
        if now.endswith(UNFINISHED_CHARACTER):
            return ""
        self.context, self.shown = self.shown, len(self.ids)
        return now[len(before) :]
