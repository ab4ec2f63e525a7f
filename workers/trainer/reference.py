"""The reference model: other weights put into the policy's own module for a pass without gradient.

There is no second module. The storage of parameters is exchanged, the pass is made, and the storage
is put back. So base, chosen version and moving average need memory only for the parameters that
differ, and all of them compute with the same code. If ranks hold shards of the weights, each rank
exchanges its shards by value, because torch gathers from the storage that it knows.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

import torch
from peft import PeftModel
from safetensors.torch import load_file, save_file
from torch.distributed.tensor import DTensor

from workers import adapters
from workers.trainer import forward, sharding
from workers.trainer.forward import NO_PICTURES, Gallery
from workers.trainer.spec import ReferenceModel
from workers.vision import loading

STATE = "reference.safetensors"
LEARNED = "default"
ADAPTED = ".lora_"  # name of the trained adapter in peft, which marks its parameters
Tensors = dict[str, torch.Tensor]


class Reference:
    """Reference model; `lent` are its parameters that differ from the policy's, by name.

    `adapters_off` disables peft's adapters.
    """

    def __init__(self, plan: ReferenceModel, lent: Tensors, adapters_off: bool = False) -> None:
        self.plan = plan
        self.lent = lent
        self.adapters_off = adapters_off
        self.raise_if_interrupted: Callable[[], None] = lambda: (
            None
        )  # called before each pass; may raise

    @torch.no_grad()
    def logprobs(
        self,
        model: torch.nn.Module,
        batch: Tensors,
        rows: int,
        autocast: Callable[[], AbstractContextManager[None]] = nullcontext,
        gallery: Gallery = NO_PICTURES,
    ) -> torch.Tensor:
        """Return logprobs (B, C) under the reference, in passes of `rows` rows.

        Afterwards the model has its own weights again.
        """
        was_training = model.training
        model.eval()
        try:
            with self._without_adapters(model), exchanged(model, self.lent), autocast():
                parts = forward.split_batch(batch, rows)
                return torch.cat([self._score(model, part, gallery) for part in parts])
        finally:
            model.train(was_training)

    def _score(self, model: torch.nn.Module, part: Tensors, gallery: Gallery) -> torch.Tensor:
        self.raise_if_interrupted()
        return forward.score(model, part, gallery)[0].float()

    def _without_adapters(self, model: torch.nn.Module) -> AbstractContextManager[None]:
        if not self.adapters_off:
            return nullcontext()
        assert isinstance(model, PeftModel)
        return model.disable_adapter()

    @torch.no_grad()
    def follow(self, model: torch.nn.Module, step: int) -> None:
        """Move a moving average towards the policy. `step` counts the steps made.

        References of other kinds do not change.
        """
        if self.plan.kind != "average" or step % self.plan.every:
            return
        sharding.reshard(model)
        for name, parameter in _trained(model):
            self.lent[name].lerp_(parameter.detach(), 1 - self.plan.decay)

    @torch.no_grad()
    def shard(self, model: torch.nn.Module) -> None:
        """Keep only this rank's shards of the reference's parameters."""
        for name, parameter in model.named_parameters():
            if name in self.lent:
                self.lent[name] = sharding.part_like(parameter, self.lent[name])

    def save(self, folder: Path, is_writer: bool = True) -> None:
        """Save the moving average, which a resumed trainer cannot recompute.

        All ranks take part, and one of them writes. Other kinds of reference are not saved.
        """
        if self.plan.kind != "average":
            return
        whole = {name: sharding.gathered(tensor) for name, tensor in self.lent.items()}
        if is_writer:
            save_file({name: tensor.contiguous() for name, tensor in whole.items()}, folder / STATE)

    def restore(self, folder: Path) -> None:
        """Load the moving average from a checkpoint. Raises OSError if it is missing."""
        if self.plan.kind == "average":
            for name, tensor in load_file(folder / STATE).items():
                self.lent[name].copy_(tensor)


def build_reference(plan: ReferenceModel, model: torch.nn.Module, has_adapters: bool) -> Reference:
    """Return the reference of a model that still has its first weights.

    Raises ValueError for weights of another model.
    """
    if plan.kind == "base":
        return Reference(plan, {} if has_adapters else _copied(model), adapters_off=has_adapters)
    if plan.kind == "average":
        return Reference(plan, _copied(model))
    assert plan.folder is not None  # of a version or a policy
    is_adapter = adapters.find_adapter_base(plan.folder) is not None
    if is_adapter and not has_adapters:
        raise ValueError(
            f"reference: {plan.folder.name} contains adapters, but the run trains full weights"
        )
    read = _adapters_in if is_adapter else _weights_in
    return Reference(plan, read(plan.folder, model), adapters_off=has_adapters and not is_adapter)


@contextmanager
def exchanged(model: torch.nn.Module, lent: Tensors) -> Iterator[None]:
    """Replace the values of the named parameters while the block runs, then restore them.

    Afterwards the parameters have their own storage again.
    """
    sharding.reshard(model)
    parameters = {name: parameter for name, parameter in model.named_parameters() if name in lent}
    if any(isinstance(parameter, DTensor) for parameter in parameters.values()):
        _swap(parameters, lent)
        try:
            yield
        finally:
            sharding.reshard(model)
            _swap(parameters, lent)
        return
    original = {name: parameter.data for name, parameter in parameters.items()}
    try:
        for name, parameter in parameters.items():
            parameter.data = lent[name]
        yield
    finally:
        for name, parameter in parameters.items():
            parameter.data = original[name]


@torch.no_grad()
def _swap(parameters: dict[str, torch.nn.Parameter], lent: Tensors) -> None:
    """Exchange the values of this rank's shards, one parameter at a time."""
    for name, parameter in parameters.items():
        shard = sharding.local_shard(parameter)
        lent_shard = sharding.local_shard(lent[name])
        shard_copy = shard.clone()
        shard.copy_(lent_shard)
        lent_shard.copy_(shard_copy)


def _weights_in(folder: Path, model: torch.nn.Module) -> Tensors:
    """Return the parameters of a folder with whole weights, named as in a model with adapters."""
    whole = loading.load_vision_model(folder, dtype="float32")
    tensors = {name: parameter.detach() for name, parameter in whole.named_parameters()}
    places = {
        _plain(name): (name, parameter)
        for name, parameter in model.named_parameters()
        if ADAPTED not in name
    }
    return _place_tensors(tensors, places, folder)


def _adapters_in(folder: Path, model: torch.nn.Module) -> Tensors:
    """Return the parameters of a folder with adapters.

    Peft's module inserts the adapter's name before the last part of a parameter's name.
    """
    tensors = {
        f"{name.removesuffix('.weight')}.{LEARNED}.weight": tensor
        for name, tensor in adapters.read_adapter(folder).items()
    }
    return _place_tensors(
        tensors, {name: (name, parameter) for name, parameter in _trained(model)}, folder
    )


def _plain(name: str) -> str:
    return name.removeprefix(adapters.PREFIX).replace(".base_layer.", ".")


def _place_tensors(
    tensors: Tensors, places: dict[str, tuple[str, torch.nn.Parameter]], folder: Path
) -> Tensors:
    """Return the tensors by the names of the parameters that they replace, on their device."""
    shapes = {name: tensor.shape for name, tensor in tensors.items()}
    if shapes != {name: parameter.shape for name, (_, parameter) in places.items()}:
        raise ValueError(
            f"reference: the parameters of {folder.name} differ from those of the run's policy"
        )
    return {places[name][0]: tensor.to(places[name][1].device) for name, tensor in tensors.items()}


def _trained(model: torch.nn.Module) -> list[tuple[str, torch.nn.Parameter]]:
    return [
        (name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad
    ]


def _copied(model: torch.nn.Module) -> Tensors:
    return {name: parameter.detach().clone() for name, parameter in _trained(model)}
