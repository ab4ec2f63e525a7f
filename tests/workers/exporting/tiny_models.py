"""Small random models of each architecture that can be exported as GGUF, with tokenizers trained
here."""

from pathlib import Path

import torch
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)
from transformers import (
    AutoModelForCausalLM,
    Gemma2Config,
    Gemma3TextConfig,
    GemmaConfig,
    LlamaConfig,
    MistralConfig,
    Phi3Config,
    PretrainedConfig,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen3Config,
)

from apps.policies.as_gguf import LLAMA3, QWEN2
from apps.policies.manifest import Probe, seal_folder

TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
CORPUS = [
    (
        "The quick brown fox jumps over the lazy dog; it isn't tired, is it?"
        " They've said 12 or 345 times that we'll see."
    ),
    (
        "Fünf schöne Äpfel, trois idées, десять слов, 日本語のテキスト, naïve café, 3.14159 and"
        " 2024-11-25."
    ),
    "def add(one, two):\n    return one + two\n\n\nprint(add(1, 22))  # a comment\t\twith tabs",
] * 4
TEXTS = [
    "The fox isn't quick.",
    "  two  blanks\n\nand a line\tend ",
    "123456 and 3.14",
    "日本語 слова naïve 🤔👩‍👧 नमस्ते",
    "<|im_start|>user\nThey've HE'LL<|im_end|>\n",
    "!!! ??? ---\n",
]
ROPE3 = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
SIZES = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "bos_token_id": None,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
GEMMAS = {**SIZES, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 256}
WINDOWS = {"query_pre_attn_scalar": 256, "sliding_window": 64}
CONFIGS = {
    "llama": lambda size: LlamaConfig(**SIZES, vocab_size=size),
    "llama3": lambda size: LlamaConfig(
        **SIZES, vocab_size=size, tie_word_embeddings=True, rope_parameters=ROPE3
    ),
    "mistral": lambda size: MistralConfig(**SIZES, vocab_size=size, sliding_window=None),
    "qwen2": lambda size: Qwen2Config(**SIZES, vocab_size=size, tie_word_embeddings=True),
    "qwen3": lambda size: Qwen3Config(
        **SIZES, vocab_size=size, head_dim=128
    ),  # the only size that transformers reads
    "gemma": lambda size: GemmaConfig(**GEMMAS, vocab_size=size),
    "gemma2": lambda size: Gemma2Config(**GEMMAS, **WINDOWS, vocab_size=size),
    "gemma3": lambda size: Gemma3TextConfig(
        **{**GEMMAS, "num_hidden_layers": 7}, **WINDOWS, vocab_size=size
    ),
    "phi3": lambda size: Phi3Config(**SIZES, vocab_size=size, original_max_position_embeddings=256),
}


def byte_level(pre: str = "gpt-2") -> PreTrainedTokenizerFast:
    """Return a byte-level BPE tokenizer that splits texts as llama.cpp's `pre` says."""
    steps = {
        "gpt-2": [pre_tokenizers.ByteLevel(add_prefix_space=False)],
        "smollm": [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ],
        "qwen2": [
            pre_tokenizers.Split(Regex(QWEN2), "isolated"),
            pre_tokenizers.ByteLevel(False, use_regex=False),
        ],
        "llama-bpe": [
            pre_tokenizers.Split(Regex(LLAMA3), "isolated"),
            pre_tokenizers.ByteLevel(False, use_regex=False),
        ],
    }[pre]
    tokenizer = Tokenizer(models.BPE(ignore_merges=pre == "llama-bpe"))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=list(SPECIAL), initial_alphabet=alphabet
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.add_tokens([AddedToken("<note>", normalized=False)])
    return _fast(tokenizer)


def sentencepiece(blank: str = "always") -> PreTrainedTokenizerFast:
    """Return a BPE tokenizer over characters with byte fallback, in which each pair that forms a
    token is a merge, as in SentencePiece.

    `blank`: added "before" each text, "always" unless the text has one, before the "first"
    text only, or "never".
    """
    trained = Tokenizer(models.BPE())
    trained.normalizer = normalizers.Replace(" ", "▁")
    trained.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=300))
    pieces = sorted(trained.get_vocab(), key=trained.get_vocab().get)
    names = [*SPECIAL, "<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), *pieces]
    vocabulary = {piece: number for number, piece in enumerate(names)}
    tokenizer = Tokenizer(
        models.BPE(
            vocabulary, _all_merges(pieces), unk_token="<unk>", fuse_unk=True, byte_fallback=True
        )
    )
    if blank == "never":
        tokenizer.normalizer = normalizers.Replace(" ", "▁")
    elif blank == "before":
        tokenizer.normalizer = normalizers.Sequence(
            [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
        )
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace("▁", prepend_scheme=blank, split=False)
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    tokenizer.decoder = decoders.Sequence(
        steps if blank == "never" else [*steps, decoders.Strip(" ", 1, 0)]
    )
    tokenizer.add_special_tokens([AddedToken(text, normalized=False) for text in SPECIAL])
    return _fast(tokenizer, unk_token="<unk>")


def _all_merges(pieces: list[str]) -> list[tuple[str, str]]:
    known = set(pieces)
    cuts = [(piece[:at], piece[at:]) for piece in pieces for at in range(1, len(piece))]
    return [(left, right) for left, right in cuts if left in known and right in known]


def _fast(tokenizer: Tokenizer, **more: str) -> PreTrainedTokenizerFast:
    end = SPECIAL[2]
    start = SPECIAL[0]
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=end,
        pad_token=start,
        bos_token=SPECIAL[1],
        chat_template=TEMPLATE,
        **more,
    )


def random_model(config: PretrainedConfig) -> torch.nn.Module:
    """Return a model whose weights all differ from their initial values, so that omissions show."""
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config).float().eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            scale = 0.3 if weight.ndim == 1 else 0.15
            noise = scale * torch.randn_like(weight)
            weight.copy_(weight + noise if "norm" in name else noise)
    return model


def sealed(folder: Path, kind: str, tokenizer: PreTrainedTokenizerFast) -> torch.nn.Module:
    """Seal a policy of the kind at `folder`, and return its model."""
    model = random_model(CONFIGS[kind](len(tokenizer) + 3))
    unfinished = folder.with_name(f"{folder.name}.tmp")
    model.save_pretrained(unfinished)
    tokenizer.save_pretrained(unfinished)
    seal_folder(unfinished, folder, version=0, parent=None, probe=Probe((1, 2), (-1.0,)))
    return model
