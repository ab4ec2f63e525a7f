"""Real GGUF files of tiny models, written as llama.cpp's converter writes them."""

from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType, GGUFWriter
from transformers import (
    AutoModelForCausalLM,
    Gemma3TextConfig,
    LlamaConfig,
    PreTrainedConfig,
    PreTrainedModel,
    Qwen2Config,
    Qwen3Config,
)
from transformers.convert_slow_tokenizer import bytes_to_unicode

from workers.policies.tokenizing import CHAT_TEMPLATE

CONTROL = 3
NORMAL = 1
SPECIAL = ("<|pad|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>")
PAD = 0
END = 1
MERGES = (("t", "h"), ("th", "e"), ("Ġ", "the"))
TOKENS = (*SPECIAL, *bytes_to_unicode().values(), "th", "the", "Ġthe")
KINDS = {
    "F32": GGMLQuantizationType.F32,
    "F16": GGMLQuantizationType.F16,
    "Q8_0": GGMLQuantizationType.Q8_0,
}
SHAPE = {
    "vocab_size": len(TOKENS),
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "eos_token_id": END,
    "pad_token_id": PAD,
    "bos_token_id": None,
}


@dataclass(frozen=True)
class Made:
    """A file and the model with exactly the weights of the file."""

    path: Path
    model: PreTrainedModel


def config_of(architecture: str, tied: bool = True) -> PreTrainedConfig:
    if architecture == "llama":
        return LlamaConfig(**SHAPE, head_dim=16, tie_word_embeddings=tied)
    if architecture == "qwen2":
        return Qwen2Config(**SHAPE, tie_word_embeddings=tied)
    if architecture == "qwen3":
        return Qwen3Config(**SHAPE, head_dim=32, tie_word_embeddings=tied)
    if architecture == "gemma3":
        scaled = {"head_dim": 32, "query_pre_attn_scalar": 32, "sliding_window": 64}
        return Gemma3TextConfig(**SHAPE, **scaled, tie_word_embeddings=tied)
    raise LookupError(architecture)


def write_gguf(path: Path, architecture: str, kind: str, tied: bool = True, **changes) -> Made:
    """Write a random model; `changes` replace parts of the file, or omit them if None.

    Valid changes are `tensors` (name → array, added), `without` (names), `template`, `metadata`.
    """
    torch.manual_seed(3)
    config = config_of(architecture, tied)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    writer = GGUFWriter(path, architecture)
    _write_metadata(writer, config, architecture, changes)
    names = gguf.get_tensor_name_map(
        next(key for key, value in gguf.MODEL_ARCH_NAMES.items() if value == architecture),
        config.num_hidden_layers,
    )
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) / 8)
            found = names.get_name(name, try_suffixes=(".weight", ".bias"))
            if found not in changes.get("without", ()):
                _write_tensor(writer, found, parameter, KINDS[kind], config, architecture)
    for name, array in changes.get("tensors", {}).items():
        writer.add_tensor(name, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return Made(path, model)


def _write_metadata(
    writer: GGUFWriter, config: PreTrainedConfig, architecture: str, changes: dict
) -> None:
    writer.add_name("tiny")
    writer.add_license("apache-2.0")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    if architecture in ("qwen3", "gemma3"):
        writer.add_key_length(config.head_dim)
    if architecture == "gemma3":
        writer.add_sliding_window(config.sliding_window)
        writer.add_rope_freq_base(config.rope_parameters["full_attention"]["rope_theta"])
    else:
        writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    if architecture == "llama":
        writer.add_rope_dimension_count(config.head_dim)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(list(TOKENS))
    writer.add_token_types([CONTROL if token in SPECIAL else NORMAL for token in TOKENS])
    writer.add_token_merges([" ".join(pair) for pair in MERGES])
    writer.add_eos_token_id(END)
    writer.add_pad_token_id(PAD)
    if template := changes.get("template", CHAT_TEMPLATE):
        writer.add_chat_template(template)
    for key, value in changes.get("metadata", {}).items():
        add = {str: writer.add_string, float: writer.add_float32, int: writer.add_uint32}
        add[type(value)](key, value)


def _write_tensor(
    writer: GGUFWriter,
    name: str,
    parameter: torch.nn.Parameter,
    kind: GGMLQuantizationType,
    config: PreTrainedConfig,
    architecture: str,
) -> None:
    """Write the parameter in this kind of quantization, and set it to the quantized values."""
    if parameter.dim() == 1:
        offset = 1 if architecture == "gemma3" and "norm" in name else 0
        writer.add_tensor(name, parameter.numpy() + np.float32(offset))
        return
    packed = gguf.quantize(parameter.numpy(), kind)
    parameter.copy_(torch.from_numpy(np.array(gguf.dequantize(packed, kind))))
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    part = name.split(".")[-2]
    if architecture == "llama" and part in heads:
        packed = _permuted(packed, heads[part])
    writer.add_tensor(name, packed, raw_dtype=kind)


def _permuted(rows: np.ndarray, heads: int) -> np.ndarray:
    """Order the rows of a Llama's queries and keys like llama.cpp (convert_hf_to_gguf.py)."""
    halves = rows.reshape(heads, 2, rows.shape[0] // heads // 2, *rows.shape[1:])
    return np.ascontiguousarray(halves.swapaxes(1, 2).reshape(rows.shape))
