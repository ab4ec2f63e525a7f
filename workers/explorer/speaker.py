"""Between messages and token ids: the policy's own chat template and tokenizer. Ids are the truth, text a rendering."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from jinja2 import TemplateError
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from apps.policies.end_tokens import declared_end_tokens
from apps.policies.manifest import Shown
from apps.tasksets.messages import Content, pictures_of
from workers.chat_encoder import ChatEncoder, Markup
from workers.vision.eyes import Eyes, require_eyes

UNFINISHED_CHARACTER = "\ufffd"
MANY_TOKENS = 1024
ANSWER = "RFTWEBANSWER"  # stands for the policy's answer where a template is read around it
# The characters in which tokenizers of bytes spell their tokens: a printable byte is its own, the others are those from 256 on.
PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
BYTE_OF = {chr(byte): byte for byte in PRINTABLE} | {
    chr(256 + place): byte for place, byte in enumerate(byte for byte in range(256) if byte not in PRINTABLE)
}


class NoDialogue(ValueError):
    """The policy's chat template cannot be continued behind an answer; the message says why."""


class Unspellable(ValueError):
    """The policy's tokens cannot say this text; the message says what they would say."""


@dataclass(frozen=True)
class Spelling:
    """A turn as a person wants it: how many of its tokens stay, with how many characters, and what follows them."""

    kept: int
    keep: int
    token_ids: tuple[int, ...]
    text: str


@dataclass(frozen=True)
class Spelt:
    """Messages in tokens, and the pictures among them."""

    token_ids: tuple[int, ...]
    pictures: tuple[Shown, ...] = ()


class Speaker:
    """A policy's tokenizer, loaded from its sealed folder (no code from the folder runs); `eyes` where the policy sees."""

    def __init__(self, folder: Path) -> None:
        self.eyes = Eyes.of(folder)
        self.tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
        self.encoder = ChatEncoder(self.tokenizer)
        self._declared_ends = declared_end_tokens(folder)

    @cached_property
    def stop_token_ids(self) -> tuple[int, ...]:
        """All tokens that end a reply; first the one with which the chat template ends a turn."""
        ends = dict.fromkeys([self.tokenizer.eos_token_id, *self._declared_ends])
        known = [end for end in ends if end is not None and end < len(self.tokenizer)]
        turn_end = self._turn_end(known)
        return tuple(sorted(known, key=lambda end: end != turn_end))

    def _turn_end(self, ends: Sequence[int]) -> int | None:
        try:
            text = self._behind_answer([{"role": "user", "content": "?"}], [], ANSWER)
        except (TemplateError, NoDialogue):
            return None
        following = self.encoder.encode(text)[:1]
        return following[0] if following and following[0] in ends else None

    @cached_property
    def tokens_around(self) -> int:
        """Tokens of a prompt that says nothing; many where the template refuses such a prompt."""
        try:
            return len(self.prompt_ids([{"role": "user", "content": ""}]))
        except TemplateError:
            return MANY_TOKENS

    def prompt_ids(self, messages: list[dict], tools: Sequence[dict] = ()) -> tuple[int, ...]:
        """The messages, and the tools it may call, by the chat template, ready for the policy's turn."""
        return self.prompt(messages, tools).token_ids

    def prompt(self, messages: list[dict], tools: Sequence[dict] = (), pngs: Mapping[str, bytes] | None = None) -> Spelt:
        """Likewise, with the pictures that the messages show, of which `pngs` has the bytes by name. Raises Unreadable."""
        return Spelt(*self._in_tokens(self._templated(messages, tools), messages, pngs, begins=True))

    def _in_tokens(
        self,
        text: Markup,
        messages: list[dict],
        pngs: Mapping[str, bytes] | None,
        offset: int = 0,
        begins: bool = False,
    ) -> tuple[tuple[int, ...], tuple[Shown, ...]]:
        """A text of the chat template that shows the pictures of these messages."""
        shown = pictures_of(messages)
        if self.eyes is None and not shown:
            return tuple(self.encoder.encode(text)), ()
        bos = self.tokenizer.bos_token
        is_begun = bool(bos) and text.startswith(self.encoder.markup(bos))
        tokenized = self.encoder.encode(text, begin=begins and not is_begun)
        pictures = [(pngs or {})[name] for name in shown]
        return require_eyes(self.eyes).spread(tokenized, pictures, offset)

    def _templated(self, messages: list[dict], tools: Sequence[dict] = ()) -> Markup:
        """The messages as the policy's chat template writes them; templates of policies that see want parts, not texts."""
        said = messages if self.eyes is None else [{**message, "content": _parts(message["content"])} for message in messages]
        return self.encoder.render(said, tools)

    def without_thoughts(self, prompt_ids: Sequence[int]) -> tuple[int, ...]:
        """The prompt with thoughts that end before they begin, where the chat template knows any: the answer comes at once."""
        if "<think>" not in str(self.tokenizer.chat_template):
            return tuple(prompt_ids)
        end = self.tokenizer.decode(list(prompt_ids)[-8:], skip_special_tokens=False).rstrip()
        if end.endswith("</think>"):
            return tuple(prompt_ids)
        ended = "\n\n</think>\n\n" if end.endswith("<think>") else "<think>\n\n</think>\n\n"
        return (*prompt_ids, *self.encoder.encode(self.encoder.markup(ended)))

    def bare_ids(self, text: str) -> tuple[int, ...]:
        """A text without the chat template, as the tokenizer begins texts."""
        return tuple(self.encoder.text_ids(text, begin=True))

    def spelling(self, token_ids: Sequence[int]) -> list[tuple[str, list[int]]]:
        """Each token's text and its bytes, which together are those of the whole text.

        A tokenizer of bytes knows each token's own; of another a character is the last of its tokens'.
        """
        if not self._says_bytes:
            typist = Typist(self)
            return [(text, list(text.encode("utf-8", "replace"))) for text in (typist.push((token,)) for token in token_ids)]
        found = []
        for token, spelt in zip(token_ids, self.tokenizer.convert_ids_to_tokens(list(token_ids)), strict=True):
            special = token in self.tokenizer.added_tokens_decoder
            own = spelt.encode() if special else bytes(BYTE_OF[character] for character in spelt)
            found.append((own.decode("utf-8", "replace"), list(own)))
        return found

    @cached_property
    def _says_bytes(self) -> bool:
        """Whether its tokens are spelt in the 256 characters that stand for bytes."""
        decoder = self.tokenizer.backend_tokenizer.decoder
        return decoder is not None and b'"ByteLevel"' in decoder.__getstate__()

    def text(self, token_ids: list[int]) -> str:
        """Without the tokens that the tokenizer calls special, and without the one that ended the reply."""
        if token_ids and token_ids[-1] in self.stop_token_ids:
            token_ids = token_ids[:-1]
        return self.tokenizer.decode(token_ids, skip_special_tokens=True)

    # -- dialogues --------------------------------------------------------------------------------------------------

    def between(self, messages: list[dict], follow_up: list[dict]) -> tuple[int, ...]:
        """What stands between the stop token of an answer to these messages and the next answer: the template around the
        messages of `follow_up`. The answer itself is never tokenised again. Raises NoDialogue.
        """
        return self.passage(messages, follow_up).token_ids

    def passage(self, messages: list[dict], follow_up: list[dict], pngs: Mapping[str, bytes] | None = None) -> Spelt:
        """Likewise, with the pictures that `follow_up` shows, places counted from its first token. Raises Unreadable as well."""
        answer = ANSWER
        while any(answer in text for message in (*messages, *follow_up) for text in _texts(message["content"])):
            answer += answer
        rest = self._behind_answer(messages, follow_up, answer)
        # The stop token is encoded with what follows, and cut off: nothing then begins in mid-text.
        token_ids, pictures = self._in_tokens(rest, follow_up, pngs, offset=-1)
        if not token_ids or token_ids[0] not in self.stop_token_ids:
            raise NoDialogue(
                "the policy's chat template does not end an answer with a stop token of the policy: "
                + " or ".join(self.tokenizer.convert_ids_to_tokens(list(self.stop_token_ids)))
            )
        return Spelt(token_ids[1:], pictures)

    def _behind_answer(
        self, messages: list[dict], follow_up: list[dict], answer: str
    ) -> Markup:
        """Return what the template writes behind an answer with this text. Raises NoDialogue."""
        whole = self._templated([*messages, {"role": "assistant", "content": answer}, *follow_up])
        _, found, rest = whole.partition(answer)
        if not found:
            raise NoDialogue("the policy's chat template does not write out the answers of a dialogue")
        return Markup(rest.lstrip())

    # -- what people type -------------------------------------------------------------------------------------------

    def spelt(self, token_ids: list[int], text: str) -> Spelling:
        """This text in tokens, keeping those of `token_ids` that say its beginning. Raises Unspellable."""
        lengths, shown = self._lengths(token_ids)
        same = _common(shown, text)
        kept, keep = max(((n, length) for n, length in enumerate(lengths) if length <= same), key=lambda pair: (pair[1], -pair[0]))
        whole = self._encoded(text)
        again = _common(token_ids, whole)
        for stay, rest in ((kept, self._encoded(text[keep:])), (again, whole[again:])):
            said = self.text([*token_ids[:stay], *rest])
            if said == text:
                return Spelling(stay, lengths[stay], tuple(rest), said)
        if said.split() == text.split():  # a tokenizer of words knows no blanks
            return Spelling(again, lengths[again], tuple(whole[again:]), said)
        raise Unspellable(f"the policy has no tokens for this text; the nearest it can say is: {said[:200]}")

    def _encoded(self, text: str) -> list[int]:
        return self.encoder.answer_ids(text)

    def _lengths(self, token_ids: list[int]) -> tuple[list[int], str]:
        """How many characters the first n tokens have finished, for each n from 0; and their text."""
        typist = Typist(self)
        shown, lengths = "", [0]
        for token in token_ids:
            shown += typist.push((token,))
            lengths.append(len(shown))
        return lengths, shown


def _parts(content: Content) -> list[dict]:
    """As a template reads them: pictures without their names."""
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return [{"type": "image"} if part["type"] == "image" else part for part in parts]


def _texts(content: Content) -> Iterable[str]:
    return (part["text"] for part in _parts(content) if part["type"] == "text")


def _common(one, other) -> int:
    """How many items both begin with."""
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


class Typist:
    """Text of a growing sequence, piece by piece; a character split over tokens waits for its last one.

    Each piece is decoded with a few tokens of context before it, so spaces between words come out right and
    the cost stays constant however long the sequence grows.
    """

    def __init__(self, speaker: Speaker) -> None:
        self.speaker, self.ids, self.context, self.shown = speaker, [], 0, 0

    def push(self, token_ids: tuple[int, ...]) -> str:
        """The text that these tokens add."""
        self.ids += token_ids
        before = self.speaker.text(self.ids[self.context : self.shown])
        now = self.speaker.text(self.ids[self.context :])
        if now.endswith(UNFINISHED_CHARACTER):
            return ""
        self.context, self.shown = self.shown, len(self.ids)
        return now[len(before) :]
