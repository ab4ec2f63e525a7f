"""Advantages from a teacher are compared with a computation in plain floats."""

import math

import pytest
import torch

from tests.workers.algorithms import slow
from tests.workers.algorithms.batches import batch
from workers.algorithms.distillation import jensen_shannon, towards_teacher


def by_hand(s: float, t: float, w: float, coefficient: float, temperature: float) -> float:
    s = s / temperature
    t = t / temperature
    if w == 0:
        return coefficient * (math.exp(t - s) - 1)
    if w == 1:
        return coefficient * (t - s)
    m = math.log(w * math.exp(t) + (1 - w) * math.exp(s))
    return coefficient * (1 - w) * (m - s)


@pytest.mark.parametrize(
    ("weight", "coefficient", "temperature"), [(0.5, 1, 1), (0.1, 0.5, 2), (0, 2, 1), (1, 1, 3)]
)
def test_jensen_shannon_matches_its_formula_at_every_loss_token(weight, coefficient, temperature):
    tokens = batch(1)
    options = {"weight": weight, "coefficient": coefficient, "temperature": temperature}

    found = jensen_shannon(tokens.behaviour, tokens.reference, tokens.mask, **options)

    for b, (row, places) in enumerate(slow.rows_of(tokens)):
        for t, c in enumerate(places):
            expected = by_hand(row.behaviour[t], row.reference[t], weight, coefficient, temperature)
            assert found[b, c].item() == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert not found[tokens.mask == 0].any()


def kl(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    """Return KL(p‖q) of two distributions given as logprobs."""
    return (p.exp() * (p - q)).sum()


def exact_divergence(s: torch.Tensor, t: torch.Tensor, weight: float) -> torch.Tensor:
    """Return equation 1 of arXiv 2306.13649 over the whole vocabulary; its limits at both ends."""
    if weight == 0:
        return kl(t, s)
    if weight == 1:
        return kl(s, t)
    m = (weight * t.exp() + (1 - weight) * s.exp()).log()
    return weight * kl(t, m) + (1 - weight) * kl(s, m)


@pytest.mark.parametrize("weight", [0, 0.1, 0.5, 0.9, 1])
def test_policy_gradient_with_jensen_shannon_is_that_of_the_exact_divergence(weight):
    torch.manual_seed(5)
    logits = torch.randn(7, dtype=torch.float64, requires_grad=True)
    student = logits.log_softmax(0)
    teacher = torch.randn(7, dtype=torch.float64).log_softmax(0)
    (exact,) = torch.autograd.grad(
        exact_divergence(student, teacher, weight), logits, retain_graph=True
    )

    advantages = jensen_shannon(
        student.detach()[None], teacher[None], torch.ones(1, 7), weight=weight
    )[0]

    gained = (student.detach().exp() * advantages * student).sum()
    (gradient,) = torch.autograd.grad(gained, logits)
    assert torch.allclose(gradient, -exact, rtol=1e-9, atol=1e-12)


def test_towards_teacher_is_the_scaled_logprob_difference_to_the_teacher():
    tokens = batch(2)

    found = towards_teacher(tokens.behaviour, tokens.reference, tokens.mask, coefficient=0.5)

    kept = tokens.mask != 0
    assert torch.allclose(
        found[kept], 0.5 * (tokens.reference - tokens.behaviour)[kept], rtol=1e-12
    )
    assert not found[~kept].any()


@pytest.mark.parametrize("function", [towards_teacher, jensen_shannon])
def test_values_outside_the_mask_are_ignored(function):
    tokens = batch(3)
    spoilt = [
        torch.where(tokens.mask != 0, values, float("nan"))
        for values in (tokens.behaviour, tokens.reference)
    ]

    assert torch.equal(
        function(*spoilt, tokens.mask), function(tokens.behaviour, tokens.reference, tokens.mask)
    )


def test_teacher_that_agrees_gives_zero_advantages():
    tokens = batch(4)

    for function in (towards_teacher, jensen_shannon):
        assert function(tokens.behaviour, tokens.behaviour, tokens.mask).abs().max() < 1e-12
