"""A weight version in memory, read and proved before it serves.

Every version is read into a module of its own: weights in service are never touched, so a version that is refused
leaves nothing to undo, and transformers itself ties what is tied and maps checkpoint names.

Names relied on in transformers: `AutoModelForCausalLM.from_pretrained(output_loading_info=True)`, `PreTrainedModel`
(`base_model`, `config.get_text_config()`), `utils.logging.disable_progress_bar`; in a configuration: `vocab_size`,
`num_hidden_layers`, `max_position_embeddings`, `layer_types`, `sliding_window`.
"""

import inspect
import math
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel
from transformers.utils import logging

from apps.policies.manifest import Manifest, read_manifest
from workers import adapters

SMALL = 100_000_000  # parameters; on a CPU, fp32 is the faster below, bf16 above
SERVED_LAYERS = {"full_attention", "sliding_attention"}


@dataclass(frozen=True)
class LivePolicy:
    """A module ready to generate; `context` is the longest sequence it is served at, prompt and reply together."""

    module: PreTrainedModel
    version: int
    fingerprint: str
    context: int

    @classmethod
    def read(cls, folder: Path, version: int, device: torch.device) -> "LivePolicy":
        """Load a sealed folder. Raises DamagedWeights, OSError, or ValueError for a model this engine cannot serve."""
        manifest = read_manifest(folder)
        base = adapters.base_of(folder)
        served = _dtype(read_manifest(base or folder), device)
        # An adapter is added in float32, so that rounding comes once, as it does where whole weights are published.
        module = _load(base or folder, torch.float32 if base else served)
        if base:
            adapters.merge(module, folder)
        _require_served(module)
        return cls(module.to(device, served).eval(), version, manifest.fingerprint, _context(module))

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
    def device(self) -> torch.device:
        return self.module.device

    def probe_logprobs(self, token_ids: tuple[int, ...]) -> list[float]:
        """Logprob at temperature 1 of each token given those before it; one fewer than tokens."""
        ids = torch.tensor([token_ids], device=self.device)
        logits = self.module(input_ids=ids, use_cache=False).logits[0, :-1].float()
        return torch.log_softmax(logits, -1).gather(1, ids[0, 1:, None])[:, 0].tolist()


def _load(folder: Path, dtype: torch.dtype) -> PreTrainedModel:
    logging.disable_progress_bar()
    module, info = AutoModelForCausalLM.from_pretrained(
        folder,
        local_files_only=True,
        trust_remote_code=False,
        use_safetensors=True,
        dtype=dtype,
        attn_implementation="sdpa",
        output_loading_info=True,
    )
    if wrong := {kind: names for kind, names in info.items() if names}:  # transformers itself only warns
        raise ValueError(f"{folder.name} does not fill its own model: {wrong}")
    return module


def shapes(module: PreTrainedModel) -> dict[str, torch.Size]:
    """Shape by parameter name."""
    return {name: parameter.shape for name, parameter in module.named_parameters()}


def _dtype(manifest: Manifest, device: torch.device) -> torch.dtype:
    parameters = sum(math.prod(spec.shape) for spec in manifest.tensors.values())
    return torch.float32 if device.type == "cpu" and parameters < SMALL else torch.bfloat16


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
