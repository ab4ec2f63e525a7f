"""DPO and KTO are compared with their formulas in plain floats, for any number of pairs and any
micro-batch.
"""

import math
from dataclasses import replace

import pytest
import torch

from tests.workers.algorithms import slow
from tests.workers.algorithms.batches import batch, split
from workers.algorithms.losses import dpo, kto
from workers.algorithms.losses.preferences import mismatched_kl

LIKED = torch.tensor([True, False, True, True, False, True])


def distances(tokens) -> list[float]:
    return [
        sum(a - b for a, b in zip(row.live, row.reference, strict=True))
        for row, _ in slow.rows_of(tokens)
    ]


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("beta", "smoothing"), [(0.1, 0.0), (0.7, 0.2)])
def test_each_dpo_pair_has_its_own_sigmoid_loss(seed, beta, smoothing):
    tokens = batch(seed)
    far = distances(tokens)
    margins = [beta * (far[place] - far[place + 1]) for place in (0, 2, 4)]
    expected = [
        -(1 - smoothing) * math.log(sigmoid(m)) - smoothing * math.log(sigmoid(-m)) for m in margins
    ]

    found = dpo(tokens, beta=beta, label_smoothing=smoothing)

    assert found.values.tolist() == pytest.approx(expected, rel=1e-12)
    assert found.metrics["right"].tolist() == [float(m > 0) for m in margins]
    assert found.metrics["chosen_reward"].tolist() == pytest.approx(
        [beta * far[place] for place in (0, 2, 4)]
    )


@pytest.mark.parametrize("seed", range(3))
def test_kto_values_match_the_formula_and_the_baseline_has_no_gradient(seed):
    tokens = batch(seed)
    baseline = torch.tensor(0.4, dtype=torch.float64, requires_grad=True)
    expected = [
        1.5 * (1 - sigmoid(0.3 * (far - 0.4))) if liked else 0.5 * (1 - sigmoid(0.3 * (0.4 - far)))
        for far, liked in zip(distances(tokens), LIKED.tolist(), strict=True)
    ]

    found = kto(tokens, LIKED, baseline, beta=0.3, desirable_weight=1.5, undesirable_weight=0.5)

    assert found.values.tolist() == pytest.approx(expected, rel=1e-12)
    assert torch.autograd.grad(found.values.sum(), baseline, allow_unused=True) == (None,)


def test_negative_baseline_counts_as_zero():
    low, none = (kto(batch(), LIKED, torch.tensor(value)).values for value in (-3.0, 0.0))

    assert torch.equal(low, none)


@pytest.mark.parametrize("loss", [dpo, lambda tokens: kto(tokens, LIKED[:4], torch.tensor(0.2))])
def test_preference_losses_pass_gradcheck(loss):
    tokens = batch(1, rows=4, width=4, empty=False)

    assert torch.autograd.gradcheck(
        lambda policy: loss(replace(tokens, policy=policy)).values.sum(), tokens.policy
    )


@pytest.mark.parametrize("size", [2, 4, 6, 12])
def test_dpo_gradient_does_not_depend_on_the_micro_batch_size(size):
    tokens = batch(2, rows=12, dtype=torch.float32)
    (whole,) = torch.autograd.grad(dpo(tokens).values.mean(), tokens.policy)

    parts = sum(dpo(part).share(6) for part in split(tokens, size, tokens.policy))

    (found,) = torch.autograd.grad(parts, tokens.policy)
    assert (found - whole).norm() / whole.norm() < 1e-5


@pytest.mark.parametrize("size", [1, 2, 4, 12])
def test_kto_gradient_does_not_depend_on_the_micro_batch_size(size):
    tokens = batch(3, rows=12, dtype=torch.float32)
    liked = torch.arange(12) % 3 > 0
    other = batch(4, rows=12, dtype=torch.float32)
    far = (other.policy - other.reference).detach()
    expected = torch.where(other.mask != 0, far, 0.0).sum(1).mean()
    baseline = sum(mismatched_kl(part, 12) for part in split(other, size, other.policy))
    assert baseline.item() == pytest.approx(expected.item(), rel=1e-5)
    assert not baseline.requires_grad
    (whole,) = torch.autograd.grad(kto(tokens, liked, expected).values.mean(), tokens.policy)

    pieces = zip(split(tokens, size, tokens.policy), liked.split(size), strict=True)
    (found,) = torch.autograd.grad(
        sum(kto(part, own, baseline).share(12) for part, own in pieces), tokens.policy
    )

    assert (found - whole).norm() / whole.norm() < 1e-5


@pytest.mark.parametrize("loss", [dpo, lambda tokens: kto(tokens, LIKED, torch.tensor(0.2))])
def test_values_outside_the_mask_are_ignored(loss):
    clean = batch(5)
    policy = torch.where(clean.mask != 0, clean.policy, float("nan")).detach().requires_grad_()
    spoilt = replace(
        clean, policy=policy, reference=torch.where(clean.mask != 0, clean.reference, float("nan"))
    )

    found = loss(spoilt).values

    assert torch.equal(found, loss(clean).values)
    assert torch.autograd.grad(found.sum(), policy)[0].isfinite().all()


def test_incomplete_pair_and_missing_reference_are_refused():
    with pytest.raises(ValueError, match="needs pairs of rows, chosen then rejected, not 5 rows"):
        dpo(batch(rows=5))
    for loss in (dpo, lambda tokens: kto(tokens, LIKED, torch.tensor(0.0))):
        with pytest.raises(ValueError, match="needs logprobs of a reference model"):
            loss(replace(batch(), reference=None))
