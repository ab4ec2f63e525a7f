"""Logprobs of a policy as an engine serves it: computed from weights written, read and rounded.

Names relied on in peft 0.21: `LoraLayer` with `base_layer` and `get_delta_weight`, and
`PeftModel.disable_adapter`.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import torch
from peft import PeftModel
from peft.tuners.lora import LoraLayer

from apps.policies.manifest import Manifest, Probe
from workers.precision import DTYPES
from workers.vision.image_processor import ImageProcessor
from workers.vision.merging import build_text_inputs

FILE_DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
}
LEARNED = "default"  # peft's name of the trained adapter


@torch.no_grad()
def served_logprobs(
    model: torch.nn.Module,
    like: Manifest,
    probe: Probe,
    precision: str,
    image_processor: ImageProcessor | None,
) -> list[float]:
    """Return logprobs at the probe, computed in `precision` from weights as an engine holds them.

    `like` is the manifest of the base, whose dtypes the files have. The model is left unchanged.
    """
    whole = model.get_base_model() if isinstance(model, PeftModel) else model
    device = next(whole.parameters()).device
    was_training = model.training
    model.eval()
    try:
        # The class's own forward pass: the instance's may compute in another precision.
        autocast = torch.autocast(device.type, enabled=False)
        with _rounded(model, like, DTYPES[precision]), autocast:
            ids = torch.tensor([probe.token_ids], device=device)
            text = build_text_inputs(whole, image_processor, ids, [probe.pictures])
            logits = type(whole).forward(whole, **text, use_cache=False).logits[0, :-1].float()
    finally:
        model.train(was_training)
    return torch.log_softmax(logits, -1).gather(1, ids[0, 1:, None])[:, 0].tolist()


@contextmanager
def _rounded(model: torch.nn.Module, like: Manifest, dtype: torch.dtype) -> Iterator[None]:
    """Replace the modules' parameters by merged, rounded ones within the block."""
    files = _file_dtypes(like)
    adapted = model if isinstance(model, PeftModel) else None
    originals = [
        (module, name, parameter, path)
        for path, module in model.named_modules()
        for name, parameter in module._parameters.items()
        if parameter is not None
    ]
    merged = _merged(model)
    replacements: dict[int, torch.nn.Parameter] = {}  # names that share a parameter keep sharing it
    try:
        for module, name, parameter, path in originals:
            if id(parameter) not in replacements:
                value = merged.get(id(parameter), parameter.detach())
                if adapted is None:  # with adapters the base is unchanged
                    value = value.to(files.get(f"{path}.{name}", files[""]))
                replacements[id(parameter)] = torch.nn.Parameter(
                    value.to(dtype), requires_grad=False
                )
            module._parameters[name] = replacements[id(parameter)]
        with adapted.disable_adapter() if adapted is not None else nullcontext():
            yield
    finally:
        for module, name, parameter, _ in originals:
            module._parameters[name] = parameter


def _file_dtypes(like: Manifest) -> dict[str, torch.dtype]:
    """Return the dtype of each tensor, and under "" the most common one.

    Some model classes name their parameters differently from the file.
    """
    dtype_by_name = {
        name: FILE_DTYPES[spec.dtype]
        for name, spec in like.tensors.items()
        if spec.dtype in FILE_DTYPES
    }
    dtypes = list(dtype_by_name.values())
    return {**dtype_by_name, "": max(set(dtypes), key=dtypes.count, default=torch.float32)}


def _merged(model: torch.nn.Module) -> dict[int, torch.Tensor]:
    """Return weights with their adapters added in float32, by the id of the original parameter."""
    merged: dict[int, torch.Tensor] = {}
    for layer in model.modules():
        if isinstance(layer, LoraLayer):
            weight = layer.get_base_layer().weight
            delta = layer.get_delta_weight
            assert isinstance(weight, torch.Tensor) and callable(delta)
            merged[id(weight)] = weight.float() + delta(LEARNED).float()
    return merged
