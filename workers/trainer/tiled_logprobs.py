"""Logprobs and entropies of chosen tokens on a CPU, without keeping all logits.

The vocabulary is cut into tiles. The forward pass adds each tile's logits to running sums (the
online softmax of Milakov and Gimelshein, arXiv 1805.02867). The backward pass computes each tile
again and turns it into the gradient of its logits. So only one tile of logits exists at any time.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch.autograd.function import once_differentiable

from workers.fast_linear import multiply


class TiledLogProbs(torch.autograd.Function):
    """Function of `hidden` (N, H) and the head's `weight` (V, H) and `bias` (V,), all float32.

    `targets` (N,) are token ids, `width` is the number of tokens in a tile. Returns the natural
    logprob of each target, and the entropy in nats of each row's distribution, both (N,).
    """

    if TYPE_CHECKING:  # torch's method has no types

        @classmethod
        def apply(
            cls,
            hidden: torch.Tensor,
            weight: torch.Tensor,
            bias: torch.Tensor | None,
            targets: torch.Tensor,
            temperature: float,
            width: int,
        ) -> tuple[torch.Tensor, torch.Tensor]: ...

    @staticmethod
    def forward(
        ctx: Any,
        hidden: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        targets: torch.Tensor,
        temperature: float,
        width: int,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        ctx.set_materialize_grads(False)
        ctx.temperature = temperature
        ctx.width = width
        highest = hidden.new_full((len(hidden),), -torch.inf)
        total, weighted, chosen = (torch.zeros_like(highest) for _ in range(3))
        for start, logits in _tiles(hidden, weight, bias, temperature, width):
            peak = torch.maximum(highest, logits.amax(1))
            shrink = (highest - peak).exp_()
            _read_targets(chosen, logits, targets - start)
            chances = (logits - peak[:, None]).exp_()
            total.mul_(shrink).add_(chances.sum(1))
            weighted.mul_(shrink).add_(chances.mul_(logits).sum(1))
            highest = peak
        log_total = highest + total.log()
        entropy = log_total - weighted / total
        ctx.save_for_backward(hidden, weight, bias, targets, log_total, entropy)
        return chosen - log_total, entropy

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, logprob_grad: torch.Tensor | None, entropy_grad: torch.Tensor | None
    ) -> tuple[torch.Tensor | None, ...]:
        hidden, weight, bias, targets, log_total, entropy = ctx.saved_tensors
        needs_hidden, needs_weight, needs_bias = ctx.needs_input_grad[:3]
        hidden_grad = torch.zeros_like(hidden) if needs_hidden else None
        weight_grad = torch.zeros_like(weight) if needs_weight else None
        bias_grad = torch.zeros_like(bias) if needs_bias else None
        for start, logits in _tiles(hidden, weight, bias, ctx.temperature, ctx.width):
            tile = slice(start, start + logits.shape[1])
            logits.sub_(log_total[:, None])  # logprobs now
            grad = _differentiate(logits, targets - start, entropy, logprob_grad, entropy_grad)
            grad.div_(ctx.temperature)
            if hidden_grad is not None:
                hidden_grad.add_(multiply(grad, weight[tile].t()))
            if weight_grad is not None:
                weight_grad[tile] = multiply(grad.t(), hidden.t())
            if bias_grad is not None:
                bias_grad[tile] = grad.sum(0)
        return hidden_grad, weight_grad, bias_grad, None, None, None


def _tiles(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    temperature: float,
    width: int,
) -> Iterator[tuple[int, torch.Tensor]]:
    """Yield the first token id of each tile, and its logits (N, ≤ width) after temperature."""
    for start in range(0, len(weight), width):
        logits = multiply(hidden, weight[start : start + width])
        if bias is not None:
            logits.add_(bias[start : start + width])
        yield start, logits.div_(temperature)


def _read_targets(chosen: torch.Tensor, logits: torch.Tensor, places: torch.Tensor) -> None:
    """Copy the logits of those targets that are in this tile; `places` count from its start."""
    is_here = (places >= 0) & (places < logits.shape[1])
    values = logits.gather(1, places.clamp(0, logits.shape[1] - 1)[:, None])[:, 0]
    chosen.copy_(torch.where(is_here, values, chosen))


def _differentiate(
    logprobs: torch.Tensor,
    places: torch.Tensor,
    entropy: torch.Tensor,
    logprob_grad: torch.Tensor | None,
    entropy_grad: torch.Tensor | None,
) -> torch.Tensor:
    """Return the gradient of a tile's logits (N, width).

    d log p_target / d z_j = [j = target] − p_j, and d entropy / d z_j = −p_j (log p_j + entropy).
    """
    chances = logprobs.exp()
    scale = torch.zeros_like(entropy)
    if logprob_grad is not None:
        scale = scale + logprob_grad
    if entropy_grad is None:
        grad = chances.mul_(-scale[:, None])
    else:
        bent = logprobs.add_(entropy[:, None]).mul_(entropy_grad[:, None]).add_(scale[:, None])
        grad = chances.mul_(bent).neg_()
    if logprob_grad is not None:
        is_here = (places >= 0) & (places < grad.shape[1])
        rows = is_here.nonzero()[:, 0]
        grad[rows, places[rows]] += logprob_grad[rows]
    return grad
