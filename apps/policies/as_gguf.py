"""Whether a policy can be exported as a GGUF file, by its config.json and tokenizer.json alone.

llama.cpp, which reads such files, has its own names for architectures and for ways of splitting
text. A policy without such names is refused here, with a sentence. Names: llama.cpp's
`src/llama-arch.cpp` and `src/llama-vocab.cpp`.
"""

import functools
from pathlib import Path
from typing import Any

from apps.accounts import strict_json
from apps.policies.folder import CONFIG_LIMIT

KINDS = {
    "gguf-f16": "F16",
    "gguf-q8_0": "Q8_0",
}  # the requested form, and GGUF's name of its number format
BYTES_PER_NUMBER = {
    "gguf-f16": 2.0,
    "gguf-q8_0": 34 / 32,
}  # Q8_0: blocks of 32 bytes with a scale of two
# By the model type of transformers' configurations.
ARCHITECTURES = {
    "llama": "llama",
    "mistral": "llama",
    "qwen2": "qwen2",
    "qwen3": "qwen3",
    "gemma": "gemma",
    "gemma2": "gemma2",
    "gemma3_text": "gemma3",
    "phi3": "phi3",
}
TOKENIZER_LIMIT = 256 << 20  # bytes of a tokenizer.json
BLANK = "▁"  # how SentencePiece writes a space

# Expressions that tokenizer.json files of these models hold, as they hold them.
_ENGLISH = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_CASED = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+%(end)s"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*%(end)s"
)
_BLANKS = r"\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = _ENGLISH + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + _BLANKS
LLAMA3 = _ENGLISH + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + _BLANKS
TEKKEN = _CASED % {"end": ""} + r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + _BLANKS
GPT4O = _CASED % {"end": _ENGLISH + "?"} + r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + _BLANKS
# How a text is split before its bytes are merged, whether whole words are looked up before merges,
# and llama.cpp's name of it.
PRE_TOKENIZERS: dict[tuple[tuple[tuple[str, object], ...], bool], str] = {
    ((("bytes", True),), False): "gpt-2",
    ((("digits", True), ("bytes", True)), False): "smollm",
    ((("split", QWEN2), ("bytes", False)), False): "qwen2",
    ((("split", LLAMA3), ("bytes", False)), True): "llama-bpe",
    ((("split", LLAMA3), ("bytes", False)), False): "smaug-bpe",
    ((("split", TEKKEN), ("bytes", False)), True): "tekken",
    ((("split", GPT4O), ("bytes", False)), False): "gpt-4o",
}


class NotAsGguf(ValueError):
    """The policy cannot be written as a GGUF file; the message says why."""


def explain_no_gguf(folder: Path) -> str:
    """Return why the policy in a sealed folder cannot be a GGUF file; empty if it may be one."""
    try:
        return _why_not(folder)
    except (OSError, strict_json.NotStrictJson) as error:
        return f"{folder.name} cannot be read: {type(error).__name__}"


@functools.lru_cache(maxsize=256)  # the contents of a sealed folder never change
def _why_not(folder: Path) -> str:
    try:
        architecture(strict_json.read_json_file(folder / "config.json", CONFIG_LIMIT))
        if (folder / "tokenizer.json").exists():
            tokenizer_kind(strict_json.read_json_file(folder / "tokenizer.json", TOKENIZER_LIMIT))
    except NotAsGguf as why:
        return str(why)
    return ""


def architecture(config: dict[str, Any]) -> str:
    """Return llama.cpp's name for the model's architecture. Raise NotAsGguf."""
    model_type = config.get("model_type")
    if model_type not in ARCHITECTURES:
        supported = ", ".join(sorted(ARCHITECTURES))
        raise NotAsGguf(
            f"the model type {model_type!r} cannot be exported as GGUF; supported types are "
            f"{supported}"
        )
    return ARCHITECTURES[model_type]


def tokenizer_kind(document: dict[str, Any]) -> tuple[str, str]:
    """Return GGUF's names of the tokenizer's model and pre-tokenizer. Raise NotAsGguf.

    ("gpt2", the pre-tokenizer) is byte-level BPE; ("llama", "default") is SentencePiece's BPE with
    bytes for unknown characters.
    """
    model = document["model"]
    if model.get("type") != "BPE":
        raise NotAsGguf(f"GGUF does not support tokenizers of the type {model.get('type')}")
    for name in ("dropout", "continuing_subword_prefix", "end_of_word_suffix"):
        if model.get(name):
            raise NotAsGguf(f"GGUF does not support the tokenizer's {name}")
    if model.get("byte_fallback"):
        return "llama", "default"
    return "gpt2", _pre_tokenizer(document)


def _pre_tokenizer(document: dict[str, Any]) -> str:
    normalizer = (document.get("normalizer") or {}).get("type")
    if normalizer not in (None, "NFC"):  # NFC does not change what people type
        raise NotAsGguf(f"GGUF does not support the tokenizer's normalizer {normalizer}")
    steps = tuple(_step(part) for part in _steps(document.get("pre_tokenizer")))
    name = PRE_TOKENIZERS.get((steps, bool(document["model"].get("ignore_merges"))))
    if name is None:
        names = (
            " and ".join(str(value) for _, value in steps if isinstance(value, str))
            or "nothing known"
        )
        raise NotAsGguf(f"GGUF does not support how the tokenizer splits text: by {names}")
    return name


def _steps(node: dict[str, Any] | None) -> list[dict[str, Any]]:
    if node is None:
        return []
    if node["type"] == "Sequence":
        return [step for part in node["pretokenizers"] for step in _steps(part)]
    return [node]


def _step(node: dict[str, Any]) -> tuple[str, object]:
    """Return a pre-tokenizer step in the terms of the table; an unknown one keeps its own name."""
    kind = node["type"]
    if kind == "ByteLevel" and not node.get("add_prefix_space"):
        return "bytes", node.get("use_regex", True)
    if kind == "Digits":
        return "digits", node["individual_digits"]
    if kind == "Split" and node["behavior"] == "Isolated" and not node.get("invert"):
        return "split", node["pattern"].get("Regex", "a plain string")
    return kind, "its " + kind
