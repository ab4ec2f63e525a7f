"""Translation of a model's configuration and tensors to GGUF, by architecture.

What llama.cpp would compute otherwise than transformers does is refused by name: it has constants
where a configuration has fields (the pattern of sliding windows, the scale of attention in Gemma),
and knows no others.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import gguf
import torch
from gguf import MODEL_ARCH, MODEL_TENSOR, GGUFWriter
from transformers import PretrainedConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from apps.policies.as_gguf import NotAsGguf, architecture

SILU = "silu"
GELU = "gelu_pytorch_tanh"
SUFFIXES = (".weight", ".bias")
NOT_WEIGHTS = (".rotary_emb.inv_freq", ".masked_bias")
WHOLE = "full_attention"
SLIDING = "sliding_attention"


@dataclass(frozen=True)
class Architecture:
    """Differences between model architectures in llama.cpp.

    `permutes`: rotary angles turn pairs of neighbours, not halves, so rows of q and k change
    places. `shifts_norms`: norms multiply by 1 + weight, and the file holds the sum. `ropes`: kinds
    of scaled rotary angles. `sliding`: after so many layers one sees all; 0 where windows are not
    known, 1 where each layer sees all.
    """

    arch: MODEL_ARCH
    activation: str = SILU
    permutes: bool = False
    shifts_norms: bool = False
    ropes: frozenset[str] = frozenset({"default"})
    sliding: int = 0


LLAMA = Architecture(
    MODEL_ARCH.LLAMA, permutes=True, ropes=frozenset({"default", "linear", "llama3"})
)
GEMMAS_ROPES = frozenset({"default", "linear"})
BY_NAME = {
    "llama": LLAMA,
    "qwen2": Architecture(MODEL_ARCH.QWEN2, ropes=frozenset({"default", "yarn"})),
    "qwen3": Architecture(MODEL_ARCH.QWEN3, ropes=frozenset({"default", "yarn"})),
    "phi3": Architecture(MODEL_ARCH.PHI3, ropes=frozenset({"default", "longrope"})),
    "gemma": Architecture(MODEL_ARCH.GEMMA, GELU, shifts_norms=True),
    "gemma2": Architecture(MODEL_ARCH.GEMMA2, GELU, shifts_norms=True, sliding=2),
    "gemma3": Architecture(
        MODEL_ARCH.GEMMA3, GELU, shifts_norms=True, ropes=GEMMAS_ROPES, sliding=6
    ),
}
HUGE_GEMMAS = {"gemma2": 46, "gemma3": 62}  # layers of those whose attention has another scale


class Model:
    """Model to be written: its header's numbers, its tensors' names and their conversion."""

    def __init__(self, config: PretrainedConfig) -> None:
        """Read the configuration. Raises NotAsGguf if llama.cpp would compute differently."""
        self.config = config
        self.name = architecture({"model_type": config.model_type})
        self.kind = BY_NAME[self.name]
        self.layers = config.num_hidden_layers
        self.heads = config.num_attention_heads
        self.key_heads = getattr(config, "num_key_value_heads", None) or self.heads
        self.head_size = getattr(config, "head_dim", None) or config.hidden_size // self.heads
        self.names = gguf.get_tensor_name_map(self.kind.arch, self.layers)
        self.rope = self._rope()
        self._require_known()

    @property
    def is_tied(self) -> bool:
        return bool(self.config.tie_word_embeddings)

    # -- what is refused ---------------------------------------------------------------------------

    def _require_known(self) -> None:
        config = self.config
        activation = getattr(config, "hidden_activation", None) or config.hidden_act
        self._require("hidden_act", activation, self.kind.activation)
        self._require("rope_type", self.rope["rope_type"], *self.kind.ropes)
        for name in ("attention_bias", "mlp_bias", "use_bidirectional_attention"):
            self._require(name, bool(getattr(config, name, False)), False)
        if self.name in ("gemma", "gemma2"):
            self._require("tie_word_embeddings", self.is_tied, True)
        if self.kind.sliding:
            self._require_gemma()
        elif getattr(config, "use_sliding_window", False):
            self._require("use_sliding_window", True, False)
        if self.name == "phi3":
            self._require("head_dim", self.head_size, config.hidden_size // self.heads)

    def _require_gemma(self) -> None:
        every = self.kind.sliding
        pattern = [SLIDING if (layer + 1) % every else WHOLE for layer in range(self.layers)]
        self._require("layer_types", list(self.config.layer_types), pattern)
        scale = (
            self.config.hidden_size // self.heads
            if self.layers == HUGE_GEMMAS[self.name]
            else self.head_size
        )
        self._require("query_pre_attn_scalar", self.config.query_pre_attn_scalar, scale)
        if self.name == "gemma3":
            self._require("attn_logit_softcapping", self.config.attn_logit_softcapping, None)

    def _require(self, field: str, value: object, *supported: object) -> None:
        if value not in supported:
            choices = " or ".join(str(choice) for choice in sorted(supported, key=str))
            raise NotAsGguf(
                f"{field} is {value} in the configuration, but GGUF architecture {self.name} "
                f"requires {choices}"
            )

    # -- hyperparameters of the header -------------------------------------------------------------

    def write_hyperparameters(self, writer: GGUFWriter) -> None:
        """Add what the architecture needs to know to the file's header."""
        config = self.config
        writer.add_block_count(self.layers)
        writer.add_context_length(self._context())
        writer.add_embedding_length(config.hidden_size)
        writer.add_feed_forward_length(config.intermediate_size)
        writer.add_head_count(self.heads)
        writer.add_head_count_kv(self.key_heads)
        writer.add_key_length(self.head_size)
        writer.add_value_length(self.head_size)
        writer.add_layer_norm_rms_eps(config.rms_norm_eps)
        writer.add_vocab_size(config.vocab_size)
        writer.add_rope_dimension_count(self._rotated_size())
        writer.add_rope_freq_base(self.rope["rope_theta"])
        self._write_scaling(writer)
        if self.kind.sliding:
            self._write_gemma(writer)
        if self.name == "phi3":
            writer.add_sliding_window(config.sliding_window or 0)

    def _context(self) -> int:
        """Return the most tokens for the file's readers: one window's, if they know no windows."""
        longest: int = self.config.max_position_embeddings
        window: int | None = getattr(self.config, "sliding_window", None)
        if window and not self.kind.sliding and self.config.model_type in ("mistral", "phi3"):
            return min(longest, window)
        return longest

    def _rotated_size(self) -> int:
        """Return how many numbers of a head the rotary embedding rotates."""
        return int(self.head_size * self.rope.get("partial_rotary_factor", 1.0))

    def _write_gemma(self, writer: GGUFWriter) -> None:
        writer.add_sliding_window(self.config.sliding_window)
        if self.config.attn_logit_softcapping:
            writer.add_attn_logit_softcapping(self.config.attn_logit_softcapping)
        if self.config.final_logit_softcapping:
            writer.add_final_logit_softcapping(self.config.final_logit_softcapping)
        if self.name == "gemma3":
            writer.add_rope_freq_base_swa(self.config.rope_parameters[SLIDING]["rope_theta"])

    def _rope(self) -> dict[str, Any]:
        """Return the rotary parameters of layers that see all."""
        parameters: dict[str, Any] = self.config.rope_parameters
        whole: dict[str, Any] = parameters.get(WHOLE, parameters)
        return whole

    def _write_scaling(self, writer: GGUFWriter) -> None:
        kind = self.rope["rope_type"]
        if kind in ("linear", "yarn"):
            writer.add_rope_scaling_type(gguf.RopeScalingType(kind))
            writer.add_rope_scaling_factor(self.rope["factor"])
        if kind == "yarn":
            self._write_yarn(writer)
        if kind == "longrope":
            writer.add_rope_scaling_type(gguf.RopeScalingType.LONGROPE)
            writer.add_rope_scaling_orig_ctx_len(self._first_context())
            writer.add_rope_scaling_attn_factors(self._angles()[1])

    def _write_yarn(self, writer: GGUFWriter) -> None:
        writer.add_rope_scaling_orig_ctx_len(self._first_context())
        self._require("rope_parameters.attention_factor", self.rope.get("attention_factor"), None)
        writer.add_rope_scaling_yarn_beta_fast(self.rope.get("beta_fast") or 32.0)
        writer.add_rope_scaling_yarn_beta_slow(self.rope.get("beta_slow") or 1.0)

    def _first_context(self) -> int:
        """Return the context that it had before its angles were scaled."""
        original_length = self.rope.get("original_max_position_embeddings")
        first: int = (
            original_length
            or getattr(self.config, "original_max_position_embeddings", None)
            or self.config.max_position_embeddings
        )
        return first

    def _angles(self) -> tuple[torch.Tensor, float]:
        """Return the rotary frequencies (head size / 2) and attention factor of transformers."""
        return ROPE_INIT_FUNCTIONS[self.rope["rope_type"]](self.config, torch.device("cpu"))

    # -- tensors -----------------------------------------------------------------------------------

    def extra(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Yield tensors that a checkpoint does not hold: by what each rotary angle is divided."""
        if self.rope["rope_type"] == "llama3":
            yield (
                self._weight_name(MODEL_TENSOR.ROPE_FREQS),
                self._plain_angles() / self._angles()[0],
            )
        if self.rope["rope_type"] == "longrope":
            yield (
                self._weight_name(MODEL_TENSOR.ROPE_FACTORS_LONG),
                torch.tensor(self.rope["long_factor"]),
            )
            yield (
                self._weight_name(MODEL_TENSOR.ROPE_FACTORS_SHORT),
                torch.tensor(self.rope["short_factor"]),
            )

    def _weight_name(self, tensor: MODEL_TENSOR) -> str:
        return gguf.TENSOR_NAMES[tensor] + ".weight"

    def _plain_angles(self) -> torch.Tensor:
        turned = self._rotated_size()
        theta: float = self.rope["rope_theta"]
        shares: torch.Tensor = torch.arange(0, turned, 2, dtype=torch.float32) / turned
        return theta**-shares

    def name_of(self, tensor: str) -> str | None:
        """Return the tensor's name in the file; None where it is not written.

        Raises NotAsGguf for one that has no name there.
        """
        if tensor.endswith(NOT_WEIGHTS) or (tensor == "lm_head.weight" and self.is_tied):
            return None
        name = self.names.get_name(tensor, try_suffixes=SUFFIXES)
        if name is None:
            raise NotAsGguf(f"GGUF architecture {self.name} does not support the tensor {tensor}")
        return name

    def arranged(self, tensor: str, values: torch.Tensor) -> torch.Tensor:
        """Return the tensor's numbers as the file's readers expect them; the same shape."""
        if self.kind.permutes and tensor.endswith("q_proj.weight"):
            return _interleaved(values, self.heads)
        if self.kind.permutes and tensor.endswith("k_proj.weight"):
            return _interleaved(values, self.key_heads)
        if self.kind.shifts_norms and tensor.endswith("norm.weight"):
            return values.float() + 1
        return values


def _interleaved(values: torch.Tensor, heads: int) -> torch.Tensor:
    """Put row i and row i + half of each head beside each other.

    The shape stays (heads × size, in).
    """
    halves = values.reshape(heads, 2, values.shape[0] // heads // 2, *values.shape[1:])
    return halves.swapaxes(1, 2).reshape(values.shape)


def size_label(numbers: int) -> str:
    """Return a number of parameters as model names write it: 135M, 1.5B."""
    exponent = max(0, min(3, int(math.log10(max(numbers, 1)) // 3)))
    scaled = numbers / 1000**exponent
    unit = ("", "K", "M", "B")[exponent]
    return f"{scaled:.0f}{unit}" if scaled >= 10 else f"{scaled:.1f}{unit}"
