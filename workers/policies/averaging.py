"""Average two sets of weights.

Long to short by merging (Kimi k1.5, arXiv 2501.12599, section 2.4): half of a long-thinking policy,
half of a short one, without training. Tensor by tensor, so no more than one of each is in memory.
"""

import os
import shutil
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file

from apps.policies.folder import INDEX, SINGLE
from apps.policies.manifest import (
    DamagedWeights,
    Manifest,
    Probe,
    require_like,
    seal_folder,
    verify_folder,
)
from workers import weights
from workers.policies.sampling import probe_logprobs
from workers.vision import loading
from workers.vision.image_processor import ImageProcessor


class NotAlike(ValueError):
    """Raised for two models that cannot be averaged; the message says how they differ."""


def average_weights(first: Path, second: Path, final: Path, share: float = 0.5) -> Manifest:
    """Average two policies, and seal the mean as version 0 of a new policy.

    The weights are share · first + (1 − share) · second; configuration and tokenizer are the
    first's. Computed in float32 and stored in the first's dtypes. Raises DamagedWeights, NotAlike,
    FileExistsError.
    """
    if not 0 <= share <= 1:
        raise NotAlike(f"share must be from 0 to 1, not {share}")
    like = verify_folder(first)
    second_manifest = verify_folder(second)
    for folder, manifest in ((first, like), (second, second_manifest)):
        if manifest.base is not None:  # a mean of both factors is no mean of their product
            raise NotAlike(
                f"{folder.name} is an adapter: merge it into full weights with `manage.py "
                "policy add` first"
            )
    require_alike(like, second_manifest)
    unfinished = final.with_name(f"{final.name}.{os.getpid()}.tmp")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    try:
        for name in like.files:
            if name == INDEX or not name.endswith(weights.WEIGHT_FILES):
                shutil.copyfile(first / name, unfinished / name)
        for shard in (name for name in like.files if name.endswith(".safetensors")):
            save_file(
                _averaged(first / shard, second, share),
                unfinished / shard,
                metadata={"format": "pt"},
            )
        return seal_folder(unfinished, final, 0, None, _probe(unfinished, like.probe))
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def require_alike(first: Manifest, second: Manifest) -> None:
    """Raise NotAlike unless both have the same tensors and tokenizer.

    An average over other tokens means nothing.
    """
    try:
        require_like(second.tensors, first.tensors)
    except DamagedWeights as difference:
        raise NotAlike(f"the two models have different architectures: {difference}") from None
    for name in ("tokenizer.json", "tokenizer.model", "vocab.json"):
        if first.files.get(name) != second.files.get(name):
            raise NotAlike(f"the two models have different tokenizers: {name} differs")


def _averaged(shard: Path, second: Path, share: float) -> dict[str, torch.Tensor]:
    """Return the shard's tensors, averaged with the second folder's of the same names."""
    places = _places(second)
    averaged = {}
    with safe_open(shard, "pt") as first_file:
        for name in first_file.keys():  # noqa: SIM118 - no mapping
            tensor = first_file.get_tensor(name)
            with safe_open(places[name], "pt") as two:
                second_tensor = two.get_tensor(name)
            averaged[name] = (
                (share * tensor.float() + (1 - share) * second_tensor.float()).to(tensor.dtype)
                if tensor.is_floating_point()
                else tensor
            )
    return averaged


def _places(folder: Path) -> dict[str, Path]:
    shards = (
        [folder / SINGLE] if (folder / SINGLE).exists() else sorted(folder.glob("*.safetensors"))
    )
    places: dict[str, Path] = {}
    for shard in shards:
        with safe_open(shard, "pt") as stream:
            places |= dict.fromkeys(stream.keys(), shard)
    return places


def _probe(folder: Path, like: Probe) -> Probe:
    model = loading.load_vision_model(folder, dtype="float32").eval()
    logprobs = probe_logprobs(model, like.token_ids, ImageProcessor.of(folder), like.pictures)
    return Probe(like.token_ids, tuple(logprobs), like.pictures)
