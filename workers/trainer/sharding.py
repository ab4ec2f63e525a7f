"""Weights of which every rank holds a shard (FSDP2, torch's `fully_shard`), and their assembly.

The layers that a model declares as its blocks are gathered one at a time for a pass; the rest, with
embeddings and head, is gathered as one more part. Names used from torch 2.13: `fully_shard`,
`FSDPModule` (`.reshard`), `DTensor` (`.full_tensor`, `.to_local`), `distribute_tensor`; from
transformers 5.19: `PreTrainedModel._no_split_modules`.
"""

from typing import Any

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

Tensors = dict[str, torch.Tensor]


class CannotShard(ValueError):
    """Raised for a model that does not declare which of its modules are its layers."""


def shard(model: torch.nn.Module, whole: torch.nn.Module, size: int) -> None:
    """Keep only this rank's shard of every parameter. `whole` is the policy without its wrapper."""
    blocks = find_layers(whole)
    device = next(model.parameters()).device.type
    mesh = init_device_mesh(device, (size,))
    for block in blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    # Otherwise accelerate would wrap it once more. The stub knows tensors and modules alone.
    model._is_accelerate_prepared = True  # type: ignore[assignment]


def find_layers(whole: torch.nn.Module) -> list[torch.nn.Module]:
    """Return the layers that the model declares. Raises CannotShard if it declares none."""
    names = set(getattr(whole, "_no_split_modules", None) or ())
    blocks = [module for module in whole.modules() if type(module).__name__ in names]
    if not blocks:
        raise CannotShard(
            f"trainer.sharding: fsdp2 does not support {type(whole).__name__}, which does not "
            "declare its layers; use ddp"
        )
    return blocks


def reshard(model: torch.nn.Module) -> None:
    """Free the parameters that forward passes gathered, so that only shards are left."""
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.reshard()


def local_shard(parameter: torch.Tensor) -> torch.Tensor:
    """Return this rank's shard of a parameter; it shares the parameter's storage."""
    return parameter.to_local() if isinstance(parameter, DTensor) else parameter.data


def part_like(parameter: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    """Return the shard of a whole tensor that corresponds to the shard of a parameter."""
    if not isinstance(parameter, DTensor):
        return tensor
    device = parameter.device
    return distribute_tensor(tensor.to(device), parameter.device_mesh, parameter.placements)


def gathered(tensor: torch.Tensor) -> torch.Tensor:
    """Assemble a tensor from its shards, in every rank. All ranks call it at the same moment."""
    tensor = tensor.detach()
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def whole_state(model: torch.nn.Module, keep: bool) -> Tensors:
    """Return all tensors of a model, assembled one by one.

    Ranks with `keep` false take part in the assembly and return nothing.
    """
    reshard(model)
    state = {}
    assembled: dict[int, torch.Tensor] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        if id(tensor) not in assembled:  # a tied head has two names, but must stay one tensor
            full = gathered(tensor)
            assembled[id(tensor)] = full.cpu() if keep else full.new_empty(0)
        if keep:
            state[name] = assembled[id(tensor)]
    return state


def whole_optimizer(state: dict[str, Any], keep: bool) -> dict[str, Any]:
    """Return the state of an optimizer as if it held whole parameters."""
    whole = {}
    for number, moments in state["state"].items():
        full = {name: gathered(value) for name, value in moments.items()}
        if keep:
            whole[number] = {name: value.cpu() for name, value in full.items()}
    return {**state, "state": whole}


def part_of_optimizer(state: dict[str, Any], parameters: list[torch.Tensor]) -> dict[str, Any]:
    """Return this rank's shard of a state from `whole_optimizer`."""
    parts = {}
    for number, moments in state["state"].items():
        parameter = parameters[number]
        parts[number] = {
            name: part_like(parameter, value) if value.shape == parameter.shape else value
            for name, value in moments.items()
        }
    return {**state, "state": parts}
