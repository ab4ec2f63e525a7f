"""Layers of a policy that can get a low-rank adapter, by the names of its tensors."""

from collections.abc import Iterable
from pathlib import Path

from apps.policies.damage import DamagedWeights
from apps.policies.manifest import read_manifest
from apps.policies.tensor_file import TensorSpec

WEIGHT = ".weight"
EMBEDDINGS = frozenset({"wte", "wpe"})  # others have `embed` in their names


def adaptable_layers(folder: Path | str) -> list[str] | None:
    """Return names such as `model.layers.0.self_attn.q_proj`; None for unreadable weights."""
    try:
        return _linear(read_manifest(folder).tensors.items())
    except (DamagedWeights, OSError):
        return None  # loading the weights reports what is wrong


def missing_targets(targets: Iterable[str], layers: Iterable[str]) -> list[str]:
    """Return the targets that no layer matches, by whole name or by its end, as in peft."""
    layer_names = list(layers)
    return [
        target for target in targets if not any(_is_meant(target, layer) for layer in layer_names)
    ]


def short_names(layers: Iterable[str]) -> list[str]:
    """Return the last parts of the names, each once, in order."""
    return sorted({layer.rpartition(".")[2] for layer in layers})


def _is_meant(target: str, layer: str) -> bool:
    return layer == target or layer.endswith(f".{target}")


def _linear(tensors: Iterable[tuple[str, TensorSpec]]) -> list[str]:
    matrices = (name for name, spec in tensors if name.endswith(WEIGHT) and len(spec.shape) == 2)
    layers = (name.removesuffix(WEIGHT) for name in matrices)
    return sorted(layer for layer in layers if not _is_embedding(layer.rpartition(".")[2]))


def _is_embedding(name: str) -> bool:
    return name in EMBEDDINGS or "embed" in name
