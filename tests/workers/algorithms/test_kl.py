"""The KL estimators match their definitions as loss, in the reward and with an adaptive
coefficient.
"""

import math
from dataclasses import replace

import pytest
import torch

from tests.workers.algorithms import slow
from tests.workers.algorithms.batches import batch
from workers.algorithms.entropy import entropy_bonus
from workers.algorithms.kl import ESTIMATORS, adapted, charged, divergence, kl_loss
from workers.algorithms.tokens import Window


def by_hand(name: str, policy: float, reference: float, behaviour: float) -> float:
    d = policy - reference
    k3 = math.exp(-d) - 1 + d
    inside = min(max(d, -20), 20)
    return {
        "none": 0.0,
        "k1": d,
        "k2": d * d / 2,
        "k3": k3,
        "low_var": min(math.exp(-inside) - 1 + inside, 10),
        "abs": abs(d),
        "corrected_k3": min(math.exp(policy - behaviour), 2) * k3,
    }[name]


@pytest.mark.parametrize("name", sorted(ESTIMATORS))
@pytest.mark.parametrize("seed", range(3))
def test_each_estimator_matches_its_formula(name, seed):
    tokens = batch(seed)
    found = divergence(tokens, name)

    for b, (row, places) in enumerate(slow.rows_of(tokens)):
        for t, c in enumerate(places):
            expected = by_hand(name, row.live[t], row.reference[t], row.behaviour[t])
            assert found[b, c].item() == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert not found[tokens.mask == 0].any()


@pytest.mark.parametrize("name", ["k1", "k2", "k3", "corrected_k3"])
def test_smooth_estimators_pass_gradcheck(name):
    tokens = batch(1, rows=3, width=4, empty=False)
    near = replace(tokens, behaviour=tokens.policy.detach() - 0.1)

    assert torch.autograd.gradcheck(
        lambda policy: divergence(replace(near, policy=policy), name).sum(), tokens.policy
    )


def test_low_var_is_capped_where_k3_explodes():
    far = [torch.tensor([[value]]) for value in (-30.0, 0.0, -30.0)]

    assert ESTIMATORS["k3"](*far).item() > 1e12
    assert ESTIMATORS["low_var"](*far).item() == 10


def test_k1_and_k3_are_unbiased_and_corrected_k3_is_so_for_off_policy_samples():
    draw = torch.Generator().manual_seed(0)
    policy, reference, behaviour = (
        torch.randn(5, generator=draw).double().mul(0.2).log_softmax(0) for _ in range(3)
    )
    truth = (policy.exp() * (policy - reference)).sum()

    assert (policy.exp() * ESTIMATORS["k1"](policy, reference, policy)).sum() == pytest.approx(
        truth.item()
    )
    assert (policy.exp() * ESTIMATORS["k3"](policy, reference, policy)).sum() == pytest.approx(
        truth.item()
    )
    assert (policy - behaviour).exp().max() < 2
    assert (
        behaviour.exp() * ESTIMATORS["corrected_k3"](policy, reference, behaviour)
    ).sum() == pytest.approx(truth.item())


@pytest.mark.parametrize("name", sorted(ESTIMATORS))
def test_values_outside_the_mask_are_ignored(name):
    clean = batch(2)
    spoilt = {
        field: torch.where(clean.mask != 0, getattr(clean, field), float("nan"))
        for field in ("reference", "behaviour")
    }
    policy = torch.where(clean.mask != 0, clean.policy, float("nan")).detach().requires_grad_()

    found = divergence(replace(clean, policy=policy, **spoilt), name)

    assert torch.equal(found, divergence(clean, name))
    if name != "none":
        assert torch.autograd.grad(found.sum(), policy)[0].isfinite().all()


def test_kl_loss_is_weighted_and_aggregated():
    tokens = batch(3)
    expected = slow.aggregate(
        divergence(tokens, "k3").detach(), tokens.mask, "seq-mean-token-sum", 7
    )

    found = kl_loss(tokens, "k3", 0.25, "seq-mean-token-sum", Window.of(tokens.mask))

    assert found.item() == pytest.approx(0.25 * expected, rel=1e-12)


def test_kl_in_reward_uses_behaviour_logprobs_and_has_no_gradient():
    tokens = batch(4)

    found = charged(tokens, "k1", 0.5).advantages

    expected = tokens.advantages - 0.5 * (tokens.behaviour - tokens.reference)
    assert torch.allclose(found[tokens.mask != 0], expected[tokens.mask != 0], rtol=1e-12)
    assert torch.equal(found[tokens.mask == 0], tokens.advantages[tokens.mask == 0])
    assert not found.requires_grad


def test_missing_reference_and_unknown_estimator_are_refused():
    with pytest.raises(ValueError, match="needs logprobs of a reference model"):
        divergence(replace(batch(), reference=None), "k2")
    with pytest.raises(ValueError, match="unknown KL estimator 'k4'; use one of none, k1"):
        divergence(batch(), "k4")


@pytest.mark.parametrize(
    ("measured", "factor"),
    [
        (0.1, 1.0),
        (0.11, 1 + 0.1 * 0.0128),
        (0.05, 1 - 0.2 * 0.0128),
        (5.0, 1 + 0.2 * 0.0128),
        (float("nan"), 1.0),
    ],
)
def test_coefficient_follows_the_measured_kl_within_a_limit(measured, factor):
    assert adapted(0.3, measured, target=0.1, horizon=10_000, rows=128) == pytest.approx(
        0.3 * factor, rel=1e-12
    )


def test_adaptive_coefficient_settles_at_the_target_kl():
    """The policy's KL is 0.02 / coefficient, so the only fixed point is at the target."""
    coefficient = 0.01
    for _ in range(4_000):
        coefficient = adapted(coefficient, 0.02 / coefficient, target=0.1, horizon=10_000, rows=256)

    assert 0.02 / coefficient == pytest.approx(0.1, rel=1e-3)


def test_entropy_bonus_is_the_mean_over_tokens_of_non_expert_rows():
    tokens = batch(5)
    usual = tokens.entropy[~tokens.is_expert][tokens.mask[~tokens.is_expert] != 0]

    found = entropy_bonus(tokens, 0.01, Window.of(tokens.mask, ~tokens.is_expert))

    assert found.item() == pytest.approx(0.01 * usual.mean().item(), rel=1e-12)


def test_entropy_bonus_without_entropy_is_refused():
    with pytest.raises(ValueError, match="needs the entropy"):
        entropy_bonus(replace(batch(), entropy=None), 0.1, Window(1, 1, 1))
