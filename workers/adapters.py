"""Weight versions that are low-rank adapters over a base, merged into whole weights.

Such a folder holds `adapter_model.safetensors` under peft's names and an `adapter_config.json` that
peft reads too; the manifest names its base by fingerprint. Engines serve merged weights, W + (alpha
/ rank) · B · A: requests in flight then continue with a new version, which an adapter chosen per
request could not do.

Tensor names relied on (peft 0.21): `base_model.model.<module>.lora_A.weight` (rank, in) and
`…lora_B.weight` (out, rank).
"""

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from apps.policies.damage import Damage
from apps.policies.folder import ADAPTER, ADAPTER_CONFIG, MANIFEST
from apps.policies.manifest import DamagedWeights, read_manifest

PREFIX = "base_model.model."
DOWN = ".lora_A.weight"
UP = ".lora_B.weight"


def read_adapter(folder: Path) -> dict[str, torch.Tensor]:
    """Return the tensors of an adapter's folder, under peft's names."""
    return load_file(folder / ADAPTER)


def find_adapter_base(folder: Path) -> Path | None:
    """Return the sealed folder that an adapter changes; None for whole weights.

    Raises DamagedWeights when that folder holds other weights now.
    """
    manifest = read_manifest(folder)
    if manifest.base is None:
        return None
    base = _fetched_base(folder) or Path(_config(folder)["base_model_name_or_path"])
    fingerprint = read_manifest(base).fingerprint
    if fingerprint != manifest.base:
        raise DamagedWeights(
            Damage.CHECKSUM,
            ADAPTER_CONFIG,
            f"the base must be {manifest.base}, but {base.name} has {fingerprint}",
        )
    return base


def _fetched_base(folder: Path) -> Path | None:
    """Return the base's folder on a machine that fetches weights; None elsewhere.

    The path in the adapter's manifest is the publisher's.
    """
    link = Path(f"{folder}.base")
    return link.resolve() if link.is_symlink() else None


def factors(folder: Path) -> dict[str, tuple[float, torch.Tensor, torch.Tensor]]:
    """Return, by weight name: alpha / rank, B (out, rank) and A (rank, in) in float32.

    Their product is added to the base's weight.
    """
    config = _config(folder)
    tensors = read_adapter(folder)
    scale = config["lora_alpha"] / config["r"]
    modules = [name.removesuffix(DOWN) for name in tensors if name.endswith(DOWN)]
    return {
        f"{module.removeprefix(PREFIX)}.weight": (
            scale,
            tensors[module + UP].float(),
            tensors[module + DOWN].float(),
        )
        for module in modules
    }


def deltas(folder: Path) -> dict[str, torch.Tensor]:
    """Return what is added to each base weight, by name: (alpha / rank) · B · A, (out, in).

    Computed in float32.
    """
    return {name: scale * (up @ down) for name, (scale, up, down) in factors(folder).items()}


@torch.no_grad()
def merge(model: torch.nn.Module, folder: Path) -> None:
    """Add an adapter to the base's weights in place.

    Raises DamagedWeights when the model has no such weight.
    """
    _add(dict(model.named_parameters()), deltas(folder))


@contextmanager
def merge_whole_weights(folder: Path) -> Iterator[Path]:
    """Yield a folder with whole weights, for engines that load nothing else.

    It is the folder itself, or a temporary merged copy.
    """
    base = find_adapter_base(folder)
    if base is None:
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix=f"{folder.name}-merged-") as merged:
        _write_merged(base, deltas(folder), Path(merged))
        yield Path(merged)


def _write_merged(base: Path, added: dict[str, torch.Tensor], merged: Path) -> None:
    placed: set[str] = set()
    for path in base.iterdir():
        if path.name == MANIFEST:  # the manifest does not describe the copy
            continue
        if path.suffix != ".safetensors":
            shutil.copyfile(path, merged / path.name)
            continue
        tensors = load_file(path)
        file_deltas = {name: delta for name, delta in added.items() if name in tensors}
        _add(tensors, file_deltas)
        save_file(tensors, merged / path.name, metadata={"format": "pt"})
        placed |= file_deltas.keys()
    _require_all(added.keys() - placed)


def _add(tensors: dict[str, torch.Tensor], added: dict[str, torch.Tensor]) -> None:
    """Add the deltas to the tensors in float32, whatever the stored dtype."""
    _require_all(added.keys() - tensors.keys())
    for name, delta in added.items():
        tensors[name].copy_(tensors[name].float() + delta.to(tensors[name].device))


def _require_all(missing: set[str]) -> None:
    for name in sorted(missing):
        raise DamagedWeights(
            Damage.MISSING_TENSOR,
            name,
            ("the adapter changes this tensor, but the base does not have it"),
        )


def _config(folder: Path) -> dict[str, Any]:
    config: dict[str, Any] = json.loads((folder / ADAPTER_CONFIG).read_bytes())
    return config
