"""A weight version in memory, read and proved before it serves.

Every version is read into a module of its own: weights in service are never touched, so a version that is refused
leaves nothing to undo, and transformers itself ties what is tied and maps checkpoint names.

Names relied on in transformers: `from_pretrained(output_loading_info=True)`, `PreTrainedModel` (`base_model`,
`config.get_text_config()`), `utils.logging.disable_progress_bar`; in a configuration: `vocab_size`,
`num_hidden_layers`, `max_position_embeddings`, `layer_types`, `sliding_window`, and `rope_parameters` and
`ignore_keys_at_rope_validation`, one of which knows `mrope_section` where positions have more than one dimension.
"""

import inspect
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, PreTrainedConfig, PreTrainedModel
from transformers.utils import logging

from apps.policies.manifest import Manifest, Shown, read_manifest
from workers import adapters, precision
from workers.vision import loading
from workers.vision.eyes import Eyes
from workers.vision.merging import text_of

SERVED_LAYERS = {"full_attention", "sliding_attention"}


@dataclass(frozen=True)
class LivePolicy:
    """A module ready to generate; `context` is the longest sequence it is served at, prompt and reply together.

    `eyes`: its processor of pictures, None for a policy of text alone.
    """

    module: PreTrainedModel
    version: int
    fingerprint: str
    context: int
    eyes: Eyes | None = None

    @classmethod
    def read(
        cls, folder: Path, version: int, device: torch.device, wanted: str = precision.AUTO
    ) -> "LivePolicy":
        """Load a sealed folder, to compute in `wanted`.

        Raises DamagedWeights, OSError, or ValueError for a model this engine cannot serve, and
        UnsupportedPrecision.
        """
        manifest = read_manifest(folder)
        base = adapters.base_of(folder)
        served = _dtype(read_manifest(base or folder), device, wanted)
        # An adapter is added in float32, so that rounding comes once, as it does where whole weights are published.
        module = _load(base or folder, torch.float32 if base else served)
        if base:
            adapters.merge(module, folder)
        _require_served(module)
        _round(module, served)
        module = module.to(device).eval()
        eyes = Eyes.of(base or folder)
        return cls(module, version, manifest.fingerprint, _context(module), eyes)

    def require_same_model(self, other: "LivePolicy") -> None:
        """Raises ValueError unless the other's parameters have the same names and shapes."""
        if shapes(self.module) != shapes(other.module):
            raise ValueError(f"version {other.version} is another model than version {self.version}")

    @property
    def layers(self) -> int:
        return self.module.config.get_text_config().num_hidden_layers

    @property
    def vocabulary(self) -> int:
        return self.module.config.get_text_config().vocab_size

    @property
    def precision(self) -> str:
        """In which it computes, such as "float32"."""
        return str(self.module.dtype).removeprefix("torch.")

    @property
    def device(self) -> torch.device:
        return self.module.device

    def text(self, ids: torch.Tensor, shown: Sequence[Sequence[Shown]]) -> dict[str, torch.Tensor]:
        """What the module takes for `ids` (B, T) with the pictures `shown` in each row."""
        return text_of(self.module, self.eyes, ids, shown)

    def probe_logprobs(self, token_ids: tuple[int, ...], pictures: tuple[Shown, ...] = ()) -> list[float]:
        """Logprob at temperature 1 of each token given those before it; one fewer than tokens."""
        ids = torch.tensor([token_ids], device=self.device)
        logits = self.module(**self.text(ids, [pictures]), use_cache=False).logits[0, :-1].float()
        return torch.log_softmax(logits, -1).gather(1, ids[0, 1:, None])[:, 0].tolist()


def _load(folder: Path, dtype: torch.dtype) -> PreTrainedModel:
    logging.disable_progress_bar()
    _require_plain_positions(loading.config_of(folder))
    module, info = loading.read(folder, dtype=dtype, attn_implementation="sdpa", output_loading_info=True)
    if wrong := {kind: names for kind, names in info.items() if names}:  # transformers itself only warns
        raise ValueError(f"{folder.name} does not fill its own model: {wrong}")
    return module


def _round(module: PreTrainedModel, dtype: torch.dtype) -> None:
    """Weights alone: frequencies of rotary positions, which are buffers, stay float32.

    Rounded to 16 bits they would turn far tokens by wrong angles.
    """
    for parameter in module.parameters():
        parameter.data = parameter.data.to(dtype)


def shapes(module: PreTrainedModel) -> dict[str, torch.Size]:
    """Shape by parameter name."""
    return {name: parameter.shape for name, parameter in module.named_parameters()}


def _dtype(manifest: Manifest, device: torch.device, wanted: str) -> torch.dtype:
    parameters = sum(math.prod(spec.shape) for spec in manifest.tensors.values())
    return precision.choose("engine", wanted, parameters, device).dtype


def _require_plain_positions(config: PreTrainedConfig) -> None:
    """Before anything is read; a text model by itself has one dimension anyway. Raises ValueError."""
    text = config.get_text_config()
    known = set(getattr(text, "rope_parameters", None) or {}) | set(getattr(text, "ignore_keys_at_rope_validation", None) or ())
    if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING and "mrope_section" in known:
        raise ValueError(
            f"{config.model_type} counts positions in more than one dimension (M-RoPE), which the transformers engine does not: "
            "serve it with vllm"
        )
    loading.require_read(config, "serve it with vllm")


def _require_served(module: PreTrainedModel) -> None:
    """Slots hold plain attention layers at given positions; anything else would be silently wrong."""
    layers = set(getattr(module.config.get_text_config(), "layer_types", None) or ["full_attention"])
    if layers - SERVED_LAYERS:
        raise ValueError(f"{type(module).__name__} has layers of kind {sorted(layers - SERVED_LAYERS)}: serve it with vllm")
    if "position_ids" not in inspect.signature(module.forward).parameters:
        raise ValueError(f"{type(module).__name__} takes no position_ids: serve it with vllm")


def _context(module: PreTrainedModel) -> int:
    """The longest sequence; a sliding window bounds it too, since within it sliding attention is full attention."""
    config = module.config.get_text_config()
    slides = "sliding_attention" in (getattr(config, "layer_types", None) or [])
    return min(config.max_position_embeddings, config.sliding_window) if slides else config.max_position_embeddings
