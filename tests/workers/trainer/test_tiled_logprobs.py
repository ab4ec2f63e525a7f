"""Logprobs and entropies computed by tiles match those from all logits at once."""

import pytest
import torch

from workers.trainer.tiled_logprobs import TiledLogProbs

ROWS, HIDDEN, VOCABULARY = 9, 6, 23


def whole(hidden, weight, bias, targets, temperature):
    """Return logprobs and entropies from one matrix of logits."""
    logits = hidden @ weight.T + (0 if bias is None else bias)
    logprobs = torch.log_softmax(logits / temperature, -1)
    entropy = -(logprobs.exp() * logprobs).sum(-1)
    return logprobs.gather(1, targets[:, None])[:, 0], entropy


def inputs(has_bias: bool) -> tuple[list[torch.Tensor | None], torch.Tensor]:
    torch.manual_seed(1)
    hidden = (3 * torch.randn(ROWS, HIDDEN, dtype=torch.float64)).requires_grad_()
    weight = torch.randn(VOCABULARY, HIDDEN, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(VOCABULARY, dtype=torch.float64).requires_grad_() if has_bias else None
    return [hidden, weight, bias], torch.randint(VOCABULARY, (ROWS,))


@pytest.mark.parametrize("width", [1, 5, 23, 100])
@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("used", ["logprobs", "entropies", "both"])
def test_tiled_values_and_gradients_match_full_logits(width, has_bias, used):
    found = []
    for is_tiled in (True, False):
        parameters, targets = inputs(has_bias)
        if is_tiled:
            values = TiledLogProbs.apply(*parameters, targets, 0.7, width)
        else:
            values = whole(*parameters, targets, 0.7)
        scales = torch.linspace(-1, 2, ROWS)
        loss = (scales * values[0]).sum() * (used != "entropies")
        if used != "logprobs":
            loss = loss + (scales * values[1]).sum()
        learned = [parameter for parameter in parameters if parameter is not None]
        found.append([*values, *torch.autograd.grad(loss, learned)])
    for tiled, expected in zip(*found, strict=True):
        assert torch.allclose(tiled, expected, atol=1e-9)


def test_frozen_head_gets_no_gradient():
    (hidden, weight, _), targets = inputs(False)
    weight = weight.detach()
    logprobs, _ = TiledLogProbs.apply(hidden, weight, None, targets, 1.0, 8)
    logprobs.sum().backward()
    assert hidden.grad is not None and weight.grad is None
