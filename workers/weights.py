"""Publication of the weights that a trainer holds as a sealed folder that any engine can load.

Names relied on in transformers 5.19: `core_model_loading.revert_weight_conversion`,
`save_pretrained(save_original_format=)`.
"""

import math
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import torch
from transformers import PreTrainedModel
from transformers.core_model_loading import revert_weight_conversion

from apps.policies.manifest import (
    Manifest,
    Probe,
    ShownPicture,
    read_manifest,
    require_like,
    seal_folder,
)
from apps.policies.tensor_file import read_layout
from workers.policies import sampling
from workers.served_logprobs import FILE_DTYPES as DTYPES
from workers.served_logprobs import served_logprobs
from workers.vision.image_processor import ImageProcessor

WEIGHT_FILES = (".safetensors", ".safetensors.index.json")
NAMES = {dtype: name for name, dtype in DTYPES.items()}


Model = TypeVar("Model", bound=torch.nn.Module)


class NotFinite(Exception):
    """An error for a NaN or infinite weight: such weights are never published."""


def publish_weights(
    model: PreTrainedModel,
    base: Path,
    final: Path,
    version: int,
    parent: int | None,
    precisions: Sequence[str] = (),
) -> Manifest:
    """Write the model beside `final` in the base's format, seal it, rename it to `final`.

    Tensors carry the names and dtypes of the base folder (a tied head is stored once),
    configuration and tokenizer files are the base's own bytes, and the probe repeats the base's
    token ids with this model's logprobs. `precisions` are those in which engines may serve it;
    their logprobs at the probe are written beside. Raises NotFinite, or what `seal_folder` raises;
    no folder takes the name `final` then.
    """
    return published(model, base, final, version, parent, write=write_whole, precisions=precisions)


def published(
    model: Model,
    base: Path,
    final: Path,
    version: int,
    parent: int | None,
    write: Callable[[Model, Path, Path, Manifest], None],
    is_adapter: bool = False,
    probe: Callable[[Model, tuple[int, ...]], list[float]] | None = None,
    precisions: Sequence[str] = (),
) -> Manifest:
    """Do the steps of any publication around `write(model, folder, base, the base's manifest)`.

    `probe(model, token ids)` gives what is written beside the token ids: logprobs, unless the model
    has no such head. Where the base's probe shows pictures, the same pictures are shown again.
    `precisions` are those in which engines may serve it, each with its own logprobs at the probe.
    """
    require_finite(model)
    like = read_manifest(base)
    unfinished = final.with_name(f"{final.name}.{os.getpid()}.tmp")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    try:
        write(model, unfinished, base, like)
        logprobs = probe(model, like.probe.token_ids) if probe else _probed(model, base, like.probe)
        served = {name: _served(model, base, like, name) for name in precisions}
        sealed = Probe(like.probe.token_ids, tuple(logprobs), like.probe.pictures, served)
        return seal_folder(
            unfinished,
            final,
            version,
            parent,
            sealed,
            base=like.fingerprint if is_adapter else None,
        )
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def write_whole(model: PreTrainedModel, folder: Path, base: Path, like: Manifest) -> None:
    write_tensors(model, folder, like)
    for name in like.files:
        if not name.endswith(WEIGHT_FILES):
            shutil.copyfile(base / name, folder / name)


def require_finite(model: torch.nn.Module) -> None:
    """Raise NotFinite naming the first parameter that is not finite."""
    parameters = list(model.named_parameters())
    norms = torch.stack(
        [
            norm.float()
            for norm in torch._foreach_norm([parameter.detach() for _, parameter in parameters])
        ]
    )
    for (name, parameter), norm in zip(parameters, norms.tolist(), strict=True):
        # A norm may overflow where no element does, so it only shows where to check.
        if not math.isfinite(norm) and not bool(parameter.detach().isfinite().all()):
            raise NotFinite(f"{name} is not finite")


def write_tensors(model: PreTrainedModel, folder: Path, like: Manifest) -> None:
    """Save the model's tensors under the names, shapes and dtypes of `like`.

    Raises DamagedWeights if any differs.
    """
    # Names are converted back first: some classes name their parameters differently from the files
    # they were read from.
    tensors = revert_weight_conversion(model, model.state_dict())
    model.save_pretrained(folder, state_dict=_cast(tensors, like), save_original_format=False)
    for path in folder.iterdir():
        if not path.name.endswith(WEIGHT_FILES):
            path.unlink()
    written = {
        placed.name: placed.spec
        for path in folder.glob("*.safetensors")
        for placed in read_layout(path)
    }
    require_like(written, like.tensors)


def _cast(state: dict[str, torch.Tensor], like: Manifest) -> dict[str, torch.Tensor]:
    """Convert each tensor to the dtype it has in `like`.

    Names that share storage keep sharing it.
    """
    dtypes = {
        name: DTYPES[spec.dtype] for name, spec in like.tensors.items() if spec.dtype in DTYPES
    }
    cast = {
        state[name].data_ptr(): state[name].detach().to(dtype)
        for name, dtype in dtypes.items()
        if name in state
    }
    return {name: cast.get(tensor.data_ptr(), tensor.detach()) for name, tensor in state.items()}


def _served(
    model: torch.nn.Module, base: Path, like: Manifest, precision: str
) -> tuple[float, ...]:
    image_processor = ImageProcessor(base) if like.probe.pictures else None
    return tuple(served_logprobs(model, like, like.probe, precision, image_processor))


def _probed(model: torch.nn.Module, base: Path, probe: Probe) -> list[float]:
    image_processor = ImageProcessor(base) if probe.pictures else None
    return probe_logprobs(model, probe.token_ids, image_processor, probe.pictures)


@torch.no_grad()
def probe_logprobs(
    model: torch.nn.Module,
    token_ids: tuple[int, ...],
    image_processor: ImageProcessor | None = None,
    pictures: Sequence[ShownPicture] = (),
) -> list[float]:
    """Return the natural logprob of each token given those before it, at temperature 1.

    There is one fewer than tokens.
    """
    was_training = model.training
    model.eval()
    try:
        return sampling.probe_logprobs(model, token_ids, image_processor, pictures)
    finally:
        model.train(was_training)
