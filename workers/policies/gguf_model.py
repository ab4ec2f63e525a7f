"""A GGUF file as a policy folder: weights in float32, configuration, tokenizer, chat template.

Stored in float32 whatever the file holds. Blocks are unpacked to float32 numbers, and a published
version has the dtypes of its base: in bfloat16 the spacing of numbers around .1 is 5e-4, so some
fifty updates of 1e-5 in one direction would be rounded away, version after version.

Names relied on in transformers 5.19: `GgufConfig`, `from_pretrained(gguf_file=)`,
`modeling_gguf_pytorch_utils` (`GGUF_SUPPORTED_ARCHITECTURES`, `TENSOR_PROCESSORS`,
`get_gguf_hf_weights_map`), `integrations.gguf` (`GGUF_ARCHS`, `GGUF_CONFIG_ARCHS`,
`GGUF_PRE_TOKENIZER_SPLITS`).
"""

import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import numpy as np
import torch
from gguf import dequantize
from gguf.constants import GGMLQuantizationType
from gguf.quants import _type_traits, quant_shape_to_byte_shape
from tokenizers import pre_tokenizers
from transformers import (
    MODEL_FOR_CAUSAL_LM_MAPPING,
    AutoConfig,
    AutoModelForCausalLM,
    GenerationConfig,
    GgufConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
)
from transformers.integrations.gguf import GGUF_ARCHS, GGUF_CONFIG_ARCHS
from transformers.integrations.gguf.gguf_tokenizer_mapping import GGUF_PRE_TOKENIZER_SPLITS
from transformers.modeling_gguf_pytorch_utils import (
    GGUF_SUPPORTED_ARCHITECTURES,
    TENSOR_PROCESSORS,
    TensorProcessor,
    get_gguf_hf_weights_map,
)

from apps.policies.damage import Damage, DamagedWeights
from workers.policies.gguf_header import GgufHeader, GgufTensor, read_header, write_abridged
from workers.policies.progress import Advance, stage

# As files spell them; transformers' table has them with underscores.
RESPELT = {"qwen2moe": "qwen2_moe", "qwen3moe": "qwen3_moe", "gpt-oss": "gpt_oss"}
RESPELT |= {"minimax-m2": "minimax_m2"}
NO_LANGUAGE_MODELS = {"general", "tokenizer", "t5", "umt5", "deci"}
BLOCKS = frozenset(_type_traits)
KINDS = {GGMLQuantizationType.F32, GGMLQuantizationType.F16, *BLOCKS}
WHOLE = "model.gguf"
ABRIDGED = "abridged.gguf"
ALONE: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
CONTEXT_LIMIT = 1 << 24  # tokens
LAYERS_LIMIT = 1_000
EXPERTS_LIMIT = 4_096
ROPE_FACTORS = "rope_freqs.weight"
# What Llama 3.1 and its successors have; files keep the factors that follow from it.
LLAMA3_ROPE = {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
LLAMA3_CONTEXT = 8192
# Gemma's largest scales attention by its width, the others by the size of a head.
GEMMA_WIDE_LAYERS = {"gemma2": 46, "gemma3": 62}
# Pre-tokenizers that are GPT-2's, which transformers takes for names it does not know.
LIKE_GPT2 = frozenset({"gpt-2", "default"})
DIGIT_BY_DIGIT = frozenset({"smollm", "starcoder", "refact", "command-r", "codeshell"})


class UnreadableGguf(ValueError):
    """Raised for a well-formed file that cannot become a policy; the message says why."""


def write_policy(path: Path, folder: Path, name: str) -> GgufHeader:
    """Write what `path` holds as a policy folder. Raises DamagedWeights, UnreadableGguf, OSError.

    The file's own folder is not looked at: libraries would read configurations that lie there.
    """
    header = read_header(path)
    _require_readable(header)
    size = sum(tensor.end - tensor.begin for tensor in header.tensors.values())
    reading = stage(f"{name}: reading {path.name}", size)
    with TemporaryDirectory(dir=folder) as alone, reading as advance:
        os.symlink(path.resolve(), Path(alone) / WHOLE)
        write_abridged(path, header, Path(alone) / ABRIDGED)
        with _one_sentence(path):
            tokenizer = _tokenizer(Path(alone), header)
            model = _model(Path(alone), header, path.name, advance)
    with stage(f"{name}: writing weights"):
        _save(model, folder)
        tokenizer.save_pretrained(folder)
        _write_ends(tokenizer, header, folder)
    return header


def notes_on(header: GgufHeader) -> Iterator[str]:
    """Yield sentences on parts of the file that are not imported unchanged."""
    splits = header.metadata.get("tokenizer.ggml.pre")
    supported = {*GGUF_PRE_TOKENIZER_SPLITS, *LIKE_GPT2, *DIGIT_BY_DIGIT}
    if header.metadata.get("tokenizer.ggml.model") == "gpt2" and splits not in supported:
        yield (
            f"unknown pre-tokenizer {splits!r}: text is split like GPT-2, so some tokens may "
            "differ from the model's training"
        )


@contextmanager
def _one_sentence(path: Path) -> Iterator[None]:
    """Turn what a library raises at an unreadable file into one sentence that names the file."""
    try:
        yield
    except (DamagedWeights, UnreadableGguf, MemoryError):
        raise
    except Exception as error:
        sentence = " ".join(str(error).split())[:300]
        why = f"{path.name} cannot be read by transformers: {type(error).__name__}: {sentence}"
        raise UnreadableGguf(why) from error


# -- before anything is read ----------------------------------------------------------------------


def _require_readable(header: GgufHeader) -> None:
    """Raise UnreadableGguf for a file that the readers here cannot read, or would read wrongly."""
    supported = {*GGUF_SUPPORTED_ARCHITECTURES, *GGUF_ARCHS} - NO_LANGUAGE_MODELS
    architecture = header.architecture
    if RESPELT.get(architecture, architecture) not in supported:
        listed = ", ".join(sorted(supported))
        raise UnreadableGguf(
            f"architecture {architecture[:100]!r} is not supported; supported: {listed}"
        )
    parts = header.metadata.get("split.count", 1)
    if parts not in (0, 1):
        number = header.metadata.get("split.no", 0) + 1
        how = "merge the parts with `llama-gguf-split --merge`"
        raise UnreadableGguf(f"is part {number} of a file split in {parts}; {how}")
    for tensor in header.tensors.values():
        if tensor.kind not in KINDS:
            raise UnreadableGguf(f"{tensor.name} has the unsupported type {tensor.kind.name}")
    limits = (("block_count", LAYERS_LIMIT), ("expert_count", EXPERTS_LIMIT))
    for key, limit in (*limits, ("context_length", CONTEXT_LIMIT)):
        value = header.of_model(key)
        if value is not None and not 0 <= value <= limit:
            raise UnreadableGguf(f"{architecture}.{key} is {value}; the limit is {limit}")
    tokens = header.lengths.get("tokenizer.ggml.tokens", 0)
    for key, value in header.metadata.items():
        is_token = key.startswith("tokenizer.ggml.") and key.endswith("_token_id")
        if is_token and (type(value) is not int or not 0 <= value < tokens):
            raise UnreadableGguf(f"{key} is {value!r}, but there are {tokens} tokens")


# -- model ----------------------------------------------------------------------------------------


def _model(alone: Path, header: GgufHeader, name: str, advance: Advance) -> PreTrainedModel:
    """Return the file's weights in float32, in a model that can be saved."""
    source = WHOLE if header.architecture in GGUF_CONFIG_ARCHS else ABRIDGED
    config = AutoConfig.from_pretrained(alone, gguf_file=source, **ALONE)
    _complete(config, header, alone / WHOLE)
    if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING:
        raise UnreadableGguf(f"{config.model_type} is not a causal language model")
    with torch.device("meta"):
        empty: PreTrainedModel = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    empty.tie_weights()
    if header.architecture in GGUF_ARCHS:
        _require_as_many(empty, header, name)
        weights = _read_by_transformers(alone, config, name)
    else:
        kind: Callable[[dict[str, Any]], TensorProcessor] = TENSOR_PROCESSORS.get(
            header.architecture, TensorProcessor
        )
        processor = kind(config.to_dict())
        names = _known_names(empty, header, processor)
        _require_same_names(empty, header, names, name)
        _require_as_many(empty, header, name)
        weights = _read_tensors(alone / WHOLE, header, processor, names, advance)
    empty.load_state_dict(weights, assign=True, strict=not config.tie_word_embeddings)
    empty.tie_weights()
    for parameter, value in empty.named_parameters():
        if value.is_meta:
            raise DamagedWeights(Damage.MISSING_TENSOR, name, f"{parameter} is missing")
    return empty


def _known_names(
    empty: PreTrainedModel, header: GgufHeader, processor: TensorProcessor
) -> dict[str, str]:
    """Return the model's name of each tensor by the file's."""
    names: dict[str, str] = get_gguf_hf_weights_map(_Outermost(empty), processor)
    if header.tensors.keys() - _beside_the_model(empty, header) <= names.keys():
        return names
    names = get_gguf_hf_weights_map(empty, processor)
    return names


class _Outermost:
    """Model without its submodules: naming tensors by each of them takes seconds."""

    def __init__(self, model: PreTrainedModel) -> None:
        self.config = model.config
        self.state_dict = model.state_dict

    def named_children(self) -> tuple[()]:
        return ()


def _read_by_transformers(alone: Path, config: Any, name: str) -> dict[str, torch.Tensor]:
    """Read the tensors by transformers, for architectures that need more than renamed tensors."""
    loaded = AutoModelForCausalLM.from_pretrained(
        alone,
        config=config,
        dtype=torch.float32,
        quantization_config=GgufConfig(dequantize=True),
        output_loading_info=True,
        gguf_file=WHOLE,
        **ALONE,
    )
    # With `output_loading_info` the method returns a pair, which its annotation leaves out.
    read, info = cast("tuple[PreTrainedModel, dict[str, list[object]]]", loaded)
    for kind in ("missing_keys", "mismatched_keys", "error_msgs"):
        if problems := sorted(map(str, info[kind])):
            raise UnreadableGguf(f"{kind.replace('_', ' ')} in {name}: {problems[0][:200]}")
    return read.state_dict()


def _read_tensors(
    path: Path,
    header: GgufHeader,
    processor: TensorProcessor,
    names: dict[str, str],
    advance: Advance,
) -> dict[str, torch.Tensor]:
    """Unpack one tensor after the other, as `load_gguf_checkpoint` of transformers does it."""
    tensors: dict[str, torch.Tensor] = {}
    for tensor in header.tensors.values():
        processed = processor.process(
            weights=_unpacked(path, tensor),
            name=tensor.name,
            tensor_key_mapping=names,
            parsed_parameters={"tensors": tensors},
        )
        if processed.name in names:
            tensors[names[processed.name]] = torch.from_numpy(np.copy(processed.weights))
        advance(tensor.end - tensor.begin)
    return tensors


def _unpacked(path: Path, tensor: GgufTensor) -> np.ndarray:
    """Return the tensor in float32, in the shape that torch would give it."""
    shape = tuple(reversed(tensor.shape))
    raw = np.fromfile(path, np.uint8, tensor.end - tensor.begin, offset=tensor.begin)
    rows = quant_shape_to_byte_shape(shape, tensor.kind) if tensor.kind in BLOCKS else (-1,)
    return dequantize(raw.reshape(rows), tensor.kind).reshape(shape)


def _require_same_names(
    empty: PreTrainedModel, header: GgufHeader, names: dict[str, str], name: str
) -> None:
    """Raise DamagedWeights where a tensor is missing, or is one that no reader takes."""
    present = header.tensors.keys() - _beside_the_model(empty, header)
    if missing := sorted(_needed(names, empty) - present):
        raise DamagedWeights(Damage.MISSING_TENSOR, name, f"{missing[0]} is missing")
    if unread := sorted(present - names.keys()):
        raise DamagedWeights(Damage.EXTRA_TENSOR, name, f"{unread[0]} is not supported")


def _require_as_many(empty: PreTrainedModel, header: GgufHeader, name: str) -> None:
    """Raise DamagedWeights where the file's tensors do not fill a model of its configuration."""
    beside = _beside_the_model(empty, header)
    numbers = sum(tensor.numbers for key, tensor in header.tensors.items() if key not in beside)
    expected = sum(parameter.numel() for parameter in empty.parameters())
    if numbers != expected:
        detail = f"the tensors have {numbers:,} values, but the configuration requires {expected:,}"
        raise DamagedWeights(Damage.WRONG_SHAPE, name, detail)


def _needed(names: dict[str, str], empty: PreTrainedModel) -> set[str]:
    """Return tensors that a file must hold: those of parameters, a tied head counted once."""
    ours = {name for name, _ in empty.named_parameters()}
    return {gguf_name for gguf_name, name in names.items() if name in ours}


def _beside_the_model(empty: PreTrainedModel, header: GgufHeader) -> set[str]:
    """Return the tensors left out on purpose: a tied head, and layers for further tokens."""
    omitted = {ROPE_FACTORS}
    if empty.config.tie_word_embeddings:
        omitted.add("output.weight")
    if header.of_model("nextn_predict_layers"):
        further = f"blk.{empty.config.num_hidden_layers}."
        omitted |= {name for name in header.tensors if name.startswith(further)}
    return omitted


def _save(model: PreTrainedModel, folder: Path) -> None:
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)  # written with all end tokens


# -- configuration --------------------------------------------------------------------------------


def _complete(config: Any, header: GgufHeader, path: Path) -> None:
    """Set the values of the file that transformers leaves at its defaults."""
    head = header.of_model("attention.key_length")
    if header.architecture == "qwen3" and head:
        config.head_dim = head
    if header.architecture == "phi3" and header.of_model("attention.sliding_window"):
        config.sliding_window = header.of_model("attention.sliding_window")
    if header.architecture in GEMMA_WIDE_LAYERS:
        is_wide = config.num_hidden_layers == GEMMA_WIDE_LAYERS[header.architecture]
        width = config.hidden_size // config.num_attention_heads
        config.query_pre_attn_scalar = width if is_wide else config.head_dim
    _scale_positions(config, header)
    if ROPE_FACTORS in header.tensors:
        _take_factors(config, path, header.tensors[ROPE_FACTORS])


def _scale_positions(config: Any, header: GgufHeader) -> None:
    """Take over how positions are stretched, which transformers does not read."""
    kind = header.of_model("rope.scaling.type")
    factor = header.of_model("rope.scaling.factor")
    if kind in (None, "none") or header.architecture == "gpt-oss":
        return
    if kind not in ("linear", "yarn") or not isinstance(factor, float) or factor <= 0:
        raise UnreadableGguf(f"uses RoPE scaling {kind!r}, which is not supported")
    stretch = {"rope_type": kind, "factor": factor}
    if kind == "yarn":
        original = header.of_model("rope.scaling.original_context_length")
        stretch["original_max_position_embeddings"] = original or config.max_position_embeddings
    _positions(config).update(stretch)


def _positions(config: Any) -> dict[str, Any]:
    """Return the position parameters that a file describes: those of full-attention layers."""
    parameters: dict[str, Any] = config.rope_parameters
    whole: dict[str, Any] = parameters.get("full_attention", parameters)
    return whole


def _take_factors(config: Any, path: Path, tensor: GgufTensor) -> None:
    """Set Llama 3.1's scaling of positions, of which the file only holds the resulting factors."""
    factors = _unpacked(path, tensor).reshape(-1)
    parameters = _positions(config)
    theta = parameters["rope_theta"]
    factor = round(float(factors.max()), 3)
    rope = {"rope_type": "llama3", "factor": factor, **LLAMA3_ROPE}
    rope["original_max_position_embeddings"] = LLAMA3_CONTEXT
    expected = _llama3_factors(theta, config.head_dim, factor)
    if len(expected) != len(factors) or not np.allclose(expected, factors, rtol=1e-3):
        raise UnreadableGguf(f"{ROPE_FACTORS} uses RoPE scaling that is not supported")
    parameters.update(rope)


def _llama3_factors(theta: float, head: int, factor: float) -> np.ndarray:
    """Return what `rope_freqs.weight` holds for Llama 3.1 (llama.cpp's convert_hf_to_gguf.py)."""
    low = LLAMA3_ROPE["low_freq_factor"]
    high = LLAMA3_ROPE["high_freq_factor"]
    lengths = 2 * math.pi * theta ** (np.arange(0, head, 2) / head)  # of waves, in tokens
    smooth = (LLAMA3_CONTEXT / lengths - low) / (high - low)
    between = 1 / ((1 - smooth) / factor + smooth)
    is_short = lengths < LLAMA3_CONTEXT / high
    is_long = lengths > LLAMA3_CONTEXT / low
    return np.where(is_short, 1.0, np.where(is_long, factor, between))


# -- tokenizer ------------------------------------------------------------------------------------


def _tokenizer(alone: Path, header: GgufHeader) -> PreTrainedTokenizerBase:
    tokenizer: PreTrainedTokenizerBase = PreTrainedTokenizerFast.from_pretrained(
        alone, gguf_file=WHOLE, **ALONE
    )
    if header.metadata.get("tokenizer.ggml.pre") in DIGIT_BY_DIGIT:
        _split_digits(tokenizer)
    context = header.of_model("context_length")
    if context:
        tokenizer.model_max_length = context
    return tokenizer


def _split_digits(tokenizer: PreTrainedTokenizerBase) -> None:
    """Split each digit by itself, then as GPT-2 does: transformers only knows the latter."""
    digits = pre_tokenizers.Digits(individual_digits=True)
    bytes_of = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, bytes_of])


def _write_ends(tokenizer: PreTrainedTokenizerBase, header: GgufHeader, folder: Path) -> None:
    """Write all tokens that end a text, a turn or a message to generation_config.json."""
    keys = ("eos_token_id", "eot_token_id", "eom_token_id")
    token_ids = [header.metadata.get(f"tokenizer.ggml.{key}") for key in keys]
    ends = [end for end in dict.fromkeys(token_ids) if type(end) is int and end < len(tokenizer)]
    ids = {"bos_token_id": tokenizer.bos_token_id, "pad_token_id": tokenizer.pad_token_id}
    if ends:
        ids["eos_token_id"] = ends if len(ends) > 1 else ends[0]
    GenerationConfig(**ids).save_pretrained(folder)
