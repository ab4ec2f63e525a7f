"""Decoding of token ids to pieces of text from a tokenizer.json, without any model library.

Covers the three usual vocabularies: byte level (GPT-2, Qwen, Llama 3), "▁" (SentencePiece) and
whole words.
"""

import codecs
import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

MAX_TOOL_FILE_BYTES = 64 * 2**20
CLOSING = ".,!?;:'’)"


@dataclass(frozen=True)
class Vocabulary:
    """The text of each token id. `kind` says how pieces join: bytes, metaspace, words or plain."""

    pieces: dict[int, str]
    special: frozenset[int]
    kind: str


def load_vocabulary(folder: str) -> Vocabulary | None:
    """Return the vocabulary of the policy in this folder; None without a local tokenizer.json."""
    path = Path(folder) / "tokenizer.json"
    try:
        stat = path.stat()
    except OSError:
        return None
    return _read(str(path), stat.st_mtime_ns) if stat.st_size <= MAX_TOOL_FILE_BYTES else None


def texts(vocabulary: Vocabulary, ids: Iterable[int]) -> list[str]:
    """Return one piece of text per id; joined they are the whole text.

    A character made of several tokens comes with its last one.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    pieces: list[str] = []
    for token in ids:
        piece = vocabulary.pieces.get(token, f"<{token}>")
        if token in vocabulary.special or vocabulary.kind == "plain":
            pieces.append(piece)
        elif vocabulary.kind == "bytes":
            pieces.append(decoder.decode(_bytes_of(piece)))
        elif vocabulary.kind == "metaspace":
            pieces.append(piece.replace("▁", " "))
        else:
            pieces.append(_spaced_word(piece, is_first=not pieces))
    return pieces


def _spaced_word(piece: str, is_first: bool) -> str:
    if piece.startswith("##"):
        return piece[2:]
    return piece if is_first or piece in CLOSING else f" {piece}"


@lru_cache(maxsize=8)
def _read(path: str, _modified: int) -> Vocabulary:
    document = json.loads(Path(path).read_text(encoding="utf-8"))
    vocab = document["model"]["vocab"]
    pairs = (
        vocab.items()
        if isinstance(vocab, dict)
        else ((entry[0], n) for n, entry in enumerate(vocab))
    )
    pieces = {number: piece for piece, number in pairs}
    added = document.get("added_tokens", [])
    pieces.update({token["id"]: token["content"] for token in added})
    return Vocabulary(
        pieces, frozenset(token["id"] for token in added), _kind(document.get("decoder") or {})
    )


def _kind(decoder: dict) -> str:
    kinds = {step.get("type") for step in (decoder, *decoder.get("decoders", []))}
    if "ByteLevel" in kinds:
        return "bytes"
    if kinds & {"Metaspace", "Replace", "ByteFallback"}:
        return "metaspace"
    return "words" if "WordPiece" in kinds else "plain"


@lru_cache(maxsize=1)
def _byte_of_character() -> dict[str, int]:
    """Return GPT-2's mapping of characters to bytes.

    Printable bytes stand for themselves, the others from U+0100 on.
    """
    printable = [
        *range(ord("!"), ord("~") + 1),
        *range(ord("¡"), ord("¬") + 1),
        *range(ord("®"), ord("ÿ") + 1),
    ]
    hidden = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {
        chr(256 + n): byte for n, byte in enumerate(hidden)
    }


def _bytes_of(piece: str) -> bytes:
    table = _byte_of_character()
    return bytes(table[character] for character in piece if character in table)
