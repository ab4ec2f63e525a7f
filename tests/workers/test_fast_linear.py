"""Linear layers with oneDNN give the same outputs and gradients as torch's own."""

import copy

import pytest
import torch
from torch import nn

from workers import fast_linear
from workers.fast_linear import FastLinear, use_fast_linear


@pytest.fixture(autouse=True)
def everything_through_onednn(monkeypatch):
    if not torch.backends.mkldnn.is_available():
        pytest.skip("torch was built without oneDNN")
    monkeypatch.setattr(fast_linear, "is_onednn_faster", lambda: True)
    monkeypatch.setattr(fast_linear, "LARGE", 1)


def twins(bias: bool = True) -> tuple[nn.Linear, nn.Linear]:
    torch.manual_seed(0)
    plain = nn.Linear(70, 90, bias=bias)
    fast = copy.deepcopy(plain)
    use_fast_linear(fast)
    assert type(fast) is FastLinear
    return plain, fast


def outcome(layer: nn.Linear, rows: torch.Tensor) -> list[torch.Tensor]:
    """Return the layer's output and the gradients of its input and parameters."""
    rows = rows.clone().requires_grad_()
    out = layer(rows)
    out.sin().sum().backward()
    return [out, rows.grad, *(parameter.grad for parameter in layer.parameters())]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(70,), (5, 70), (2, 3, 70), (0, 70)])
def test_outputs_and_gradients_match_torch(shape, bias):
    plain, fast = twins(bias)
    rows = torch.randn(shape)
    for expected, found in zip(outcome(plain, rows), outcome(fast, rows), strict=True):
        assert torch.allclose(expected, found, atol=1e-5) and expected.shape == found.shape


def test_frozen_layer_passes_gradients_to_its_input():
    plain, fast = twins()
    rows = torch.randn(6, 70, requires_grad=True)
    for layer in (plain, fast):
        layer.requires_grad_(False)
    (expected,) = torch.autograd.grad(plain(rows).sum(), rows)
    (found,) = torch.autograd.grad(fast(rows).sum(), rows)
    assert torch.allclose(expected, found, atol=1e-5)


def test_inference_mode_gives_the_same_output():
    plain, fast = twins()
    rows = torch.randn(4, 70)
    with torch.inference_mode():
        assert torch.allclose(plain(rows), fast(rows), atol=1e-5)


def test_autocast_and_bfloat16_use_torchs_own_linear(monkeypatch):
    monkeypatch.setattr(fast_linear, "multiply", None)  # calling it would fail
    plain, fast = twins()
    rows = torch.randn(4, 70)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(plain(rows), fast(rows))
    assert torch.equal(plain.bfloat16()(rows.bfloat16()), fast.bfloat16()(rows.bfloat16()))


def test_parameters_keep_their_names_and_values():
    plain, fast = twins()
    expected = plain.state_dict()
    assert {name: value.tolist() for name, value in fast.state_dict().items()} == {
        name: value.tolist() for name, value in expected.items()
    }


def test_small_products_use_torchs_own_linear(monkeypatch):
    monkeypatch.setattr(fast_linear, "LARGE", 4 * 70 * 90 + 1)
    monkeypatch.setattr(fast_linear, "multiply", None)
    plain, fast = twins()
    rows = torch.randn(4, 70)
    assert torch.equal(plain(rows), fast(rows))


def test_subclasses_of_linear_are_not_replaced():
    class Derived(nn.Linear):
        pass

    layer = Derived(3, 3)
    use_fast_linear(layer)
    assert type(layer) is Derived
