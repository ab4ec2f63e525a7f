"""A weight version in memory, read and checked before it serves.

Every version is read into a module of its own. The weights in service are never touched, so a
refused version leaves nothing to undo, and transformers itself handles tied weights and the names
in checkpoints.

Names used from transformers: `from_pretrained(output_loading_info=True)`, `PreTrainedModel`
(`base_model`, `config.get_text_config()`), `utils.logging.disable_progress_bar`; in a
configuration: `vocab_size`, `num_hidden_layers`, `max_position_embeddings`, `layer_types`,
`sliding_window`, `use_sliding_window`, and `rope_parameters` (`rope_type`,
`original_max_position_embeddings`) and `ignore_keys_at_rope_validation`, one of which has
`mrope_section` if positions have more than one dimension.
"""

import inspect
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch
from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, PreTrainedConfig, PreTrainedModel
from transformers.utils import logging

from apps.policies.manifest import Manifest, ShownPicture, read_manifest
from workers import adapters, precision
from workers.engines.grouped_attention import use_grouped_attention
from workers.fast_linear import use_fast_linear
from workers.vision import loading
from workers.vision.image_processor import ImageProcessor
from workers.vision.merging import build_text_inputs

SERVED_LAYERS = {"full_attention", "sliding_attention"}


@dataclass(frozen=True)
class LivePolicy:
    """Module that is ready to generate.

    `context` is the length of the longest sequence, prompt and reply together. `image_processor`
    prepares pictures, and is None for a policy that reads text only.
    """

    module: PreTrainedModel
    version: int
    fingerprint: str
    context: int
    image_processor: ImageProcessor | None = None

    @classmethod
    def read(
        cls,
        folder: Path,
        version: int,
        device: torch.device,
        wanted_precision: str = precision.AUTO,
    ) -> "LivePolicy":
        """Load a sealed folder, to compute in the precision `wanted_precision`.

        Raises DamagedWeights, OSError, ValueError for a model that this engine cannot serve, and
        UnsupportedPrecision.
        """
        manifest = read_manifest(folder)
        base = adapters.find_adapter_base(folder)
        served = _dtype(read_manifest(base or folder), device, wanted_precision)
        # An adapter is merged in float32, so that its weights are rounded once, like published
        # whole weights.
        module = _load(base or folder, torch.float32 if base else served)
        if base:
            adapters.merge(module, folder)
        _require_served(module)
        _round(module, served)
        # The `to` of transformers is wrapped in a way that hides its types; it calls this one.
        torch.nn.Module.to(module, device)
        module.eval()
        use_grouped_attention(module)
        use_fast_linear(module)
        image_processor = ImageProcessor.of(base or folder)
        return cls(module, version, manifest.fingerprint, _context(module), image_processor)

    def require_same_model(self, other: "LivePolicy") -> None:
        """Raise ValueError unless the parameters of both have the same names and shapes."""
        if shapes(self.module) != shapes(other.module):
            raise ValueError(
                f"version {other.version} is a different model than version {self.version}"
            )

    @property
    def layers(self) -> int:
        layers: int = self.module.config.get_text_config().num_hidden_layers
        return layers

    @cached_property
    def vocabulary(self) -> int:
        size: int = self.module.config.get_text_config().vocab_size
        return size

    @property
    def precision(self) -> str:
        """Return the precision in which the model computes, such as "float32"."""
        return str(self.module.dtype).removeprefix("torch.")

    @property
    def device(self) -> torch.device:
        return self.module.device

    def text(
        self, ids: torch.Tensor, pictures: Sequence[Sequence[ShownPicture]]
    ) -> dict[str, torch.Tensor]:
        """Return the module's inputs for `ids` (B, T), with the `pictures` of each row."""
        return build_text_inputs(self.module, self.image_processor, ids, pictures)

    def probe_logprobs(
        self, token_ids: tuple[int, ...], pictures: tuple[ShownPicture, ...] = ()
    ) -> list[float]:
        """Return the logprob, at temperature 1, of each token but the first."""
        ids = torch.tensor([token_ids], device=self.device)
        output = self.module(**self.text(ids, [pictures]), use_cache=False)
        logprobs = torch.log_softmax(output.logits[0, :-1].float(), -1)  # (T - 1, V)
        return logprobs.gather(1, ids[0, 1:, None])[:, 0].tolist()


def _load(folder: Path, dtype: torch.dtype) -> PreTrainedModel:
    logging.disable_progress_bar()
    _require_plain_positions(loading.load_vision_config(folder))
    module: PreTrainedModel
    module, info = loading.load_vision_model(
        folder, dtype=dtype, attn_implementation="sdpa", output_loading_info=True
    )
    if wrong := {
        kind: names for kind, names in info.items() if names
    }:  # transformers itself only warns
        raise ValueError(f"the weights in {folder.name} do not match the model: {wrong}")
    return module


def _round(module: PreTrainedModel, dtype: torch.dtype) -> None:
    """Round the weights to `dtype`, but not the buffers.

    Buffers hold the frequencies of rotary positions. Rounded to 16 bits, they would rotate distant
    tokens by wrong angles.
    """
    for parameter in module.parameters():
        parameter.data = parameter.data.to(dtype)


def shapes(module: PreTrainedModel) -> dict[str, torch.Size]:
    """Return the shapes by parameter name."""
    return {name: parameter.shape for name, parameter in module.named_parameters()}


def _dtype(manifest: Manifest, device: torch.device, wanted_precision: str) -> torch.dtype:
    parameters = sum(math.prod(spec.shape) for spec in manifest.tensors.values())
    return precision.choose("engine", wanted_precision, parameters, device).dtype


def _require_plain_positions(config: PreTrainedConfig) -> None:
    """Raise ValueError for a model that counts positions in several dimensions.

    It is called before any weights are read. A text-only model has one dimension in any case.
    """
    text = config.get_text_config()
    rope_keys = set(getattr(text, "rope_parameters", None) or {}) | set(
        getattr(text, "ignore_keys_at_rope_validation", None) or ()
    )
    if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING and "mrope_section" in rope_keys:
        raise ValueError(
            f"{config.model_type} uses multi-dimensional positions (M-RoPE), which the "
            "transformers engine does not support: use vllm"
        )
    loading.require_read(config, "serve it with vllm")


def _require_served(module: PreTrainedModel) -> None:
    """Raise ValueError for layers or positions that the engine's slots cannot hold.

    Anything but plain attention layers at given positions would give wrong results without an
    error.
    """
    layers = set(
        getattr(module.config.get_text_config(), "layer_types", None) or ["full_attention"]
    )
    if layers - SERVED_LAYERS:
        raise ValueError(
            f"{type(module).__name__} has unsupported layers "
            f"{sorted(layers - SERVED_LAYERS)}: use vllm"
        )
    if "position_ids" not in inspect.signature(module.forward).parameters:
        raise ValueError(f"{type(module).__name__} does not accept position_ids: use vllm")


def _context(module: PreTrainedModel) -> int:
    """Return the length of the longest sequence.

    A sliding window limits it too: as long as a sequence fits into the window, sliding attention is
    full attention. So does LongRoPE, which rotates all tokens of a longer sequence by other angles,
    those in the cache included.
    """
    config = module.config.get_text_config()
    limits: list[int] = [config.max_position_embeddings]
    if _slides(config):
        limits.append(config.sliding_window)
    rope = getattr(config, "rope_parameters", None) or {}
    if rope.get("rope_type") == "longrope":
        limits.append(rope["original_max_position_embeddings"])
    return min(limits)


def _slides(config: PreTrainedConfig) -> bool:
    """Tell whether any layer attends through a sliding window.

    Configurations without `layer_types` (Mistral, Phi-3) have a window for all layers or for none.
    """
    layers = getattr(config, "layer_types", None)
    if layers:
        return "sliding_attention" in layers
    is_used = getattr(config, "use_sliding_window", True)
    return bool(is_used and getattr(config, "sliding_window", None))
