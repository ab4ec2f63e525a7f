"""What a policy says when an engine serves it: from weights that were written, read and rounded.

Names relied on in peft 0.21: `LoraLayer` with `base_layer` and `get_delta_weight`, and
`PeftModel.disable_adapter`.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext

import torch
from peft import PeftModel
from peft.tuners.lora import LoraLayer

from apps.policies.manifest import Manifest, Probe
from workers.precision import DTYPES
from workers.vision.eyes import Eyes
from workers.vision.merging import text_of

FILE_DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
}
LEARNED = "default"  # what peft calls the adapter that is trained


@torch.no_grad()
def served_logprobs(
    model: torch.nn.Module, like: Manifest, probe: Probe, precision: str, eyes: Eyes | None
) -> list[float]:
    """Logprobs at the probe, computed in `precision` from the weights as an engine would hold them.

    `like`: the manifest of the base, whose dtypes the files have. The model is left as it is.
    """
    whole = model.get_base_model() if isinstance(model, PeftModel) else model
    was_training = model.training
    model.eval()
    try:
        # The class's own forward pass: that of the instance may compute in another precision.
        autocast = torch.autocast(whole.device.type, enabled=False)
        with _rounded(model, like, DTYPES[precision]), autocast:
            ids = torch.tensor([probe.token_ids], device=whole.device)
            text = text_of(whole, eyes, ids, [probe.pictures])
            logits = type(whole).forward(whole, **text, use_cache=False).logits[0, :-1].float()
    finally:
        model.train(was_training)
    return torch.log_softmax(logits, -1).gather(1, ids[0, 1:, None])[:, 0].tolist()


@contextmanager
def _rounded(model: torch.nn.Module, like: Manifest, dtype: torch.dtype) -> Iterator[None]:
    """Within, the modules hold other parameters: rounded ones, adapters added; then their own."""
    files = _file_dtypes(like)
    adapted = isinstance(model, PeftModel)
    held = [
        (module, name, parameter, path)
        for path, module in model.named_modules()
        for name, parameter in module._parameters.items()
        if parameter is not None
    ]
    merged = _merged(model)
    made: dict[int, torch.nn.Parameter] = {}  # names that share a parameter go on sharing it
    try:
        for module, name, parameter, path in held:
            if id(parameter) not in made:
                value = merged.get(id(parameter), parameter.detach())
                if not adapted:  # of adapters the base is as it was read
                    value = value.to(files.get(f"{path}.{name}", files[""]))
                made[id(parameter)] = torch.nn.Parameter(value.to(dtype), requires_grad=False)
            module._parameters[name] = made[id(parameter)]
        with model.disable_adapter() if adapted else nullcontext():
            yield
    finally:
        for module, name, parameter, _ in held:
            module._parameters[name] = parameter


def _file_dtypes(like: Manifest) -> dict[str, torch.dtype]:
    """By tensor, and under "" what most of them have: some classes name their parts otherwise."""
    named = {
        name: FILE_DTYPES[spec.dtype]
        for name, spec in like.tensors.items()
        if spec.dtype in FILE_DTYPES
    }
    dtypes = list(named.values())
    return {**named, "": max(set(dtypes), key=dtypes.count, default=torch.float32)}


def _merged(model: torch.nn.Module) -> dict[int, torch.Tensor]:
    """Weights with their adapters added in float32, by the id of the parameter they stand for."""
    layers: Sequence[LoraLayer] = [each for each in model.modules() if isinstance(each, LoraLayer)]
    return {
        id(layer.base_layer.weight): layer.base_layer.weight.float()
        + layer.get_delta_weight(LEARNED).float()
        for layer in layers
    }
