"""Float32 linear layers on CPUs that torch's own matrix products run slowly on.

torch multiplies float32 matrices with MKL, which uses the wide vectors (AVX-512) of Intel's own
processors only. oneDNN, which torch brings too, uses those of every x86 processor. On an AMD EPYC
it is 2.2 times as fast in float32, forward and backward: 240 against 110 GFLOP/s of one core. Both
compute in float32; results differ by rounding.

Names relied on in torch 2.13: `torch.ops.mkldnn._linear_pointwise(input, weight, bias, attr,
scalars, algorithm)`, `torch.backends.mkl`, `torch.backends.mkldnn`.
"""

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.autograd.function import once_differentiable

# Multiplications from which oneDNN is faster: a call of it costs ten microseconds more.
LARGE = 2_000_000


@functools.cache
def is_onednn_faster() -> bool:
    """Tell whether this machine is one on which oneDNN multiplies float32 faster than MKL."""
    has_both = torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()
    return has_both and hasattr(torch.ops.mkldnn, "_linear_pointwise") and _is_other_x86()


def _is_other_x86() -> bool:
    """Tell whether the processor has AVX-512 and is not Intel's."""
    if torch.backends.cpu.get_cpu_capability() != "AVX512":
        return False
    try:
        described = Path("/proc/cpuinfo").read_text()
    except OSError:
        return False
    return "GenuineIntel" not in described


def multiply(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return `a @ b.T` (M, N) of float32 matrices (M, K) and (N, K) on a CPU; without gradients."""
    rows, inner = a.shape
    if rows * inner * len(b) < LARGE or not is_onednn_faster():
        return torch.mm(a, b.t())
    product: torch.Tensor = torch.ops.mkldnn._linear_pointwise(a, b, None, "none", [], "")
    return product


class _Multiply(torch.autograd.Function):
    """`multiply` with gradients."""

    if TYPE_CHECKING:  # torch's method has no types

        @classmethod
        def apply(cls, rows: torch.Tensor, weight: torch.Tensor) -> torch.Tensor: ...

    @staticmethod
    def forward(ctx: Any, rows: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(rows, weight)
        return multiply(rows, weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        rows, weight = ctx.saved_tensors
        needs_rows, needs_weight = ctx.needs_input_grad
        return (
            multiply(grad, weight.t()) if needs_rows else None,
            multiply(grad.t(), rows.t()) if needs_weight else None,
        )


class FastLinear(nn.Linear):
    """`torch.nn.Linear` that multiplies in float32 with the faster of torch's two libraries."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        weight = self.weight
        multiplications = input.numel() * self.out_features
        if (
            multiplications < LARGE
            or input.dtype != torch.float32
            or weight.dtype != torch.float32
            or input.device.type != "cpu"
            or torch.is_autocast_enabled("cpu")
        ):
            return super().forward(input)
        rows = input.reshape(-1, self.in_features)
        if torch.is_grad_enabled():
            product = _Multiply.apply(rows, weight)
        else:
            product = multiply(rows, weight)
        if self.bias is not None:
            product = product + self.bias
        return product.view(*input.shape[:-1], self.out_features)


def use_fast_linear(model: nn.Module) -> None:
    """Make the model's plain linear layers fast ones, where this machine gains by it.

    Names and values of parameters stay as they are. Layers that a library has derived from
    `torch.nn.Linear` are left alone.
    """
    if not is_onednn_faster():
        return
    for module in model.modules():
        if type(module) is nn.Linear:
            module.__class__ = FastLinear
