"""Translation of a tokenizer to GGUF: tokens, kinds, merges or scores, and end tokens.

llama.cpp splits and merges by itself, from what stands in the file. Two kinds can be said: byte-
level BPE ("gpt2"), by its merges and the name of its splitting, and SentencePiece's BPE ("llama"),
by one score for each token: the pair with the best score is merged first. Whatever would make it
split otherwise than the tokenizer does is refused.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gguf import GGUFWriter, TokenType
from transformers import PreTrainedTokenizerBase

from apps.policies.as_gguf import BLANK, NotAsGguf, tokenizer_kind
from apps.policies.end_tokens import declared_end_tokens

UNREACHABLE = -1e9  # the score of a token that no merge makes
# Beside eos, GGUF names two more tokens that end a reply.
MORE_ENDS = ("eot", "eom")
# Entries of tokenizer.json by token id.
AddedTokens = dict[int, dict[str, Any]]


@dataclass(frozen=True)
class Vocabulary:
    """All data of a GGUF file about its tokenizer.

    `tokens`, `kinds` and `scores` have an entry for each row of the embedding; `merges` is empty
    where there are scores, `scores` where there are merges. `ends`: tokens that end a reply, the
    tokenizer's own first.
    """

    model: str
    splitting: str
    tokens: list[str]
    kinds: list[TokenType]
    merges: list[str]
    scores: list[float]
    ends: list[int]
    bos: int | None
    pad: int | None
    unknown: int | None
    adds_bos: bool
    adds_eos: bool
    adds_blank: bool
    chat_template: str

    def write(self, writer: GGUFWriter) -> None:
        """Add it to the file's header."""
        writer.add_tokenizer_model(self.model)
        writer.add_tokenizer_pre(self.splitting)
        writer.add_token_list(self.tokens)
        writer.add_token_types(self.kinds)
        if self.model == "gpt2":
            writer.add_token_merges(self.merges)
        else:
            writer.add_token_scores(self.scores)
            writer.add_add_space_prefix(self.adds_blank)
        self._write_special(writer)
        writer.add_chat_template(self.chat_template)

    def _write_special(self, writer: GGUFWriter) -> None:
        writer.add_eos_token_id(self.ends[0])
        for name, token in zip(MORE_ENDS, self.ends[1:], strict=False):
            getattr(writer, f"add_{name}_token_id")(token)
        for name in ("bos", "pad"):
            if (token := getattr(self, name)) is not None:
                getattr(writer, f"add_{name}_token_id")(token)
        if self.unknown is not None:
            writer.add_unk_token_id(self.unknown)
        writer.add_add_bos_token(self.adds_bos)
        if self.adds_eos:
            writer.add_add_eos_token(True)


def read_vocabulary(tokenizer: PreTrainedTokenizerBase, folder: Path, rows: int) -> Vocabulary:
    """Read the tokenizer of the policy in `folder`. Raises NotAsGguf.

    The vocabulary has as many tokens as the embedding has rows.
    """
    document = json.loads(tokenizer.backend_tokenizer.to_str())
    model, splitting = tokenizer_kind(document)
    by_id = {token: text for text, token in tokenizer.get_vocab().items()}
    if (last := max(by_id)) >= rows:
        raise NotAsGguf(f"the tokenizer has a token {last}, but the embedding only {rows} rows")
    added: AddedTokens = {entry["id"]: entry for entry in document["added_tokens"]}
    _require_plain(added.values())
    kinds = [_kind_of(by_id, added, document, token) for token in range(rows)]
    tokens = [_text_of(by_id, added, model, token) for token in range(rows)]
    pairs = [
        tuple(entry.split(" ") if isinstance(entry, str) else entry)
        for entry in document["model"]["merges"]
    ]
    adds_bos, adds_eos = _added_around(tokenizer)
    return Vocabulary(
        model=model,
        splitting=splitting,
        tokens=tokens,
        kinds=kinds,
        merges=[" ".join(pair) for pair in pairs] if model == "gpt2" else [],
        scores=_scores(tokens, kinds, pairs) if model == "llama" else [],
        ends=_end_tokens(tokenizer, folder),
        bos=tokenizer.bos_token_id,
        pad=tokenizer.pad_token_id,
        unknown=tokenizer.unk_token_id,
        adds_bos=adds_bos,
        adds_eos=adds_eos,
        adds_blank=model == "llama" and _adds_blank(document),
        chat_template=_template(tokenizer),
    )


def _require_plain(added: Iterable[dict[str, Any]]) -> None:
    """Refuse added tokens that change the text beside them, because GGUF cannot store that."""
    for token in added:
        for flag in ("lstrip", "rstrip", "single_word"):
            if token.get(flag):
                content = token["content"]
                raise NotAsGguf(f"GGUF does not support {flag}, which the token {content!r} needs")


def _kind_of(
    by_id: dict[int, str], added: AddedTokens, document: dict[str, Any], token: int
) -> TokenType:
    if token not in by_id:
        return TokenType.UNUSED
    text = by_id[token]
    model = document["model"]
    if text == model.get("unk_token") and model.get("byte_fallback"):
        return TokenType.UNKNOWN
    if token in added:
        return TokenType.CONTROL if added[token]["special"] else TokenType.USER_DEFINED
    if model.get("byte_fallback") and _is_byte(text):
        return TokenType.BYTE
    return TokenType.NORMAL


def _is_byte(text: str) -> bool:
    return len(text) == 6 and text.startswith("<0x") and text.endswith(">")


def _text_of(by_id: dict[int, str], added: AddedTokens, model: str, token: int) -> str:
    if token not in by_id:
        return f"[PAD{token}]"
    text = by_id[token]
    if model == "llama" and token in added and not added[token]["special"]:
        return text.replace(BLANK, " ")  # looked for before blanks are written so
    return text


def _scores(tokens: list[str], kinds: list[TokenType], pairs: list[tuple[str, str]]) -> list[float]:
    """Return a score for each token, the higher the earlier it is merged.

    Raises NotAsGguf where merges do not follow from scores: a pair that makes a token, but is no
    merge, or merges into one token that stand at several places of the order.
    """
    ranks: dict[str, int] = {}
    latest = ""
    for rank, (left, right) in enumerate(pairs):
        joined = left + right
        if joined != latest and joined in ranks:
            raise NotAsGguf(
                "GGUF does not support the order of the tokenizer's merges: merges into "
                f"{joined!r} are not consecutive"
            )
        latest = joined
        ranks.setdefault(joined, rank)
    _require_all_pairs(tokens, kinds, set(pairs))
    return [_score(text, kind, ranks) for text, kind in zip(tokens, kinds, strict=True)]


def _score(text: str, kind: TokenType, ranks: dict[str, int]) -> float:
    if kind != TokenType.NORMAL:
        return 0.0
    if text in ranks:
        return -float(ranks[text])
    return 0.0 if len(text) == 1 else UNREACHABLE


def _require_all_pairs(
    tokens: list[str], kinds: list[TokenType], merges: set[tuple[str, str]]
) -> None:
    normal = {text for text, kind in zip(tokens, kinds, strict=True) if kind == TokenType.NORMAL}
    for text in normal:
        for cut in range(1, len(text)):
            left = text[:cut]
            right = text[cut:]
            if left in normal and right in normal and (left, right) not in merges:
                raise NotAsGguf(
                    f"GGUF does not support the tokenizer's merges: {left!r} and {right!r} "
                    "form a token but are not merged"
                )


def _adds_blank(document: dict[str, Any]) -> bool:
    """Tell whether a blank is put before each text, and before what follows a special token.

    A tokenizer that puts one at the very beginning alone ("first") is said to put none: chat
    prompts begin with a special token, and llama.cpp would put one after each. Where a text begins
    with a blank, llama.cpp puts another before it, as SentencePiece does; some tokenizers
    ("always") do not.
    """
    normalizer = document.get("normalizer") or {}
    steps = normalizer.get("normalizers", [normalizer])
    if any(step.get("type") == "Prepend" for step in steps):
        return True
    unknown = [
        step["type"] for step in steps if step and step["type"] not in ("Replace", "Prepend")
    ]
    if unknown:
        raise NotAsGguf(f"GGUF does not support the tokenizer's normalizer {unknown[0]}")
    return (document.get("pre_tokenizer") or {}).get("prepend_scheme") == "always"


def _added_around(tokenizer: PreTrainedTokenizerBase) -> tuple[bool, bool]:
    """Tell whether the tokenizer puts its first token before a text and its end token after it."""
    bare = tokenizer("a", add_special_tokens=False).input_ids
    whole = tokenizer("a").input_ids
    begin = whole[: whole.index(bare[0])]
    end = whole[len(begin) + len(bare) :]
    if begin not in ([], [tokenizer.bos_token_id]) or end not in ([], [tokenizer.eos_token_id]):
        around = tokenizer.convert_ids_to_tokens(begin + end)
        texts = " ".join(around)
        raise NotAsGguf(
            f"GGUF does not support the tokens that the tokenizer adds around text: {texts}"
        )
    return bool(begin), bool(end)


def _end_tokens(tokenizer: PreTrainedTokenizerBase, folder: Path) -> list[int]:
    """Return the end tokens. Raises NotAsGguf if the tokenizer has none."""
    if tokenizer.eos_token_id is None:
        raise NotAsGguf("the tokenizer has no end token")
    return list(dict.fromkeys([tokenizer.eos_token_id, *declared_end_tokens(folder)]))


def _template(tokenizer: PreTrainedTokenizerBase) -> str:
    template = tokenizer.chat_template
    if isinstance(template, dict):
        template = template.get("default")
    if not template:
        raise NotAsGguf("it has no chat template")
    return str(template)
