"""The reference model: other weights lent to the policy's own module for a pass without gradient.

No second module is kept: a parameter's storage is exchanged, the pass is made, the storage goes back. So base, chosen
version and moving average cost one copy of what differs, and all of them compute by the very same code.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers import PreTrainedModel

from workers import adapters
from workers.trainer import forward
from workers.trainer.forward import NO_PICTURES, Gallery
from workers.trainer.spec import ReferenceModel
from workers.vision import loading

STATE = "reference.safetensors"
LEARNED, ADAPTED = "default", ".lora_"  # what peft calls the adapter that is trained, and marks its parameters by
Tensors = dict[str, torch.Tensor]


class Reference:
    """`lent` are the parameters that differ from the policy's, by name; `adapters_off` leaves out what peft adds."""

    def __init__(self, plan: ReferenceModel, lent: Tensors, adapters_off: bool = False) -> None:
        self.plan, self.lent, self.adapters_off = plan, lent, adapters_off
        self.heed: Callable[[], None] = lambda: None  # called before each pass; may raise

    @torch.no_grad()
    def logprobs(
        self, model: PreTrainedModel, batch: Tensors, rows: int, autocast=nullcontext, gallery: Gallery = NO_PICTURES
    ) -> torch.Tensor:
        """(B, C) under the reference, in passes of `rows` rows; the model is as it was afterwards."""
        was_training = model.training
        model.eval()
        try:
            with self._without_adapters(model), exchanged(model, self.lent), autocast():
                parts = forward.split(batch, rows)
                return torch.cat([self._score(model, part, gallery) for part in parts])
        finally:
            model.train(was_training)

    def _score(self, model: PreTrainedModel, part: Tensors, gallery: Gallery) -> torch.Tensor:
        self.heed()
        return forward.score(model, part, gallery)[0].float()

    def _without_adapters(self, model: PreTrainedModel):
        return model.disable_adapter() if self.adapters_off else nullcontext()

    @torch.no_grad()
    def follow(self, model: torch.nn.Module, step: int) -> None:
        """Move the average towards the policy; `step` counts the updates made. Other references stand still."""
        if self.plan.kind != "average" or step % self.plan.every:
            return
        for name, parameter in _trained(model):
            self.lent[name].lerp_(parameter.detach(), 1 - self.plan.decay)

    def save(self, folder: Path) -> None:
        """What a resumed trainer could not know: the average."""
        if self.plan.kind == "average":
            save_file({name: tensor.contiguous() for name, tensor in self.lent.items()}, folder / STATE)

    def restore(self, folder: Path) -> None:
        """Take the average up from a checkpoint. Raises OSError when it is not there."""
        if self.plan.kind == "average":
            for name, tensor in load_file(folder / STATE).items():
                self.lent[name].copy_(tensor)


def build(plan: ReferenceModel, model: PreTrainedModel, has_adapters: bool) -> Reference:
    """The reference of a model that still has its first weights. Raises ValueError for weights of another model."""
    if plan.kind == "base":
        return Reference(plan, {} if has_adapters else _copied(model), adapters_off=has_adapters)
    if plan.kind == "average":
        return Reference(plan, _copied(model))
    is_adapter = adapters.base_of(plan.folder) is not None
    if is_adapter and not has_adapters:
        raise ValueError(f"reference: {plan.folder.name} holds adapters, and the run trains whole weights")
    read = _adapters_in if is_adapter else _weights_in
    return Reference(plan, read(plan.folder, model), adapters_off=has_adapters and not is_adapter)


@contextmanager
def exchanged(model: torch.nn.Module, lent: Tensors) -> Iterator[None]:
    """Within, the named parameters hold other values; afterwards their own, the same storage."""
    own = {name: parameter for name, parameter in model.named_parameters() if name in lent}
    kept = {name: parameter.data for name, parameter in own.items()}
    try:
        for name, parameter in own.items():
            parameter.data = lent[name]
        yield
    finally:
        for name, parameter in own.items():
            parameter.data = kept[name]


def _weights_in(folder: Path, model: PreTrainedModel) -> Tensors:
    """The parameters of a folder with whole weights, by the names they have in a model that may carry adapters."""
    whole = loading.read(folder, dtype="float32")
    tensors = {name: parameter.detach() for name, parameter in whole.named_parameters()}
    places = {_plain(name): (name, parameter) for name, parameter in model.named_parameters() if ADAPTED not in name}
    return _placed(tensors, places, folder)


def _adapters_in(folder: Path, model: PreTrainedModel) -> Tensors:
    """The parameters of a folder with adapters; peft's module puts the adapter's name before the last part."""
    tensors = {f"{name.removesuffix('.weight')}.{LEARNED}.weight": tensor for name, tensor in adapters.read(folder).items()}
    return _placed(tensors, {name: (name, parameter) for name, parameter in _trained(model)}, folder)


def _plain(name: str) -> str:
    return name.removeprefix(adapters.PREFIX).replace(".base_layer.", ".")


def _placed(tensors: Tensors, places: dict[str, tuple[str, torch.nn.Parameter]], folder: Path) -> Tensors:
    """The tensors by the names of the parameters whose place they take, on those parameters' device."""
    found = {name: tensor.shape for name, tensor in tensors.items()}
    if found != {name: parameter.shape for name, (_, parameter) in places.items()}:
        raise ValueError(f"reference: {folder.name} holds other parameters than the run's policy")
    return {places[name][0]: tensor.to(places[name][1].device) for name, tensor in tensors.items()}


def _trained(model: torch.nn.Module) -> list[tuple[str, torch.nn.Parameter]]:
    return [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]


def _copied(model: torch.nn.Module) -> Tensors:
    return {name: parameter.detach().clone() for name, parameter in _trained(model)}
