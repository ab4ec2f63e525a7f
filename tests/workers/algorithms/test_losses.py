"""Each loss and its gradient are compared with token-by-token Python floats."""

from dataclasses import replace

import pytest
import torch

from tests.workers.algorithms import slow
from tests.workers.algorithms.batches import batch
from workers.algorithms.losses import LOSSES

VARIANTS = [
    ("ppo", {}),
    ("ppo", {"clip_low": 0.1, "clip_high": 0.5, "dual_clip": None}),
    ("ppo", {"dual_clip": 1.4, "sequence_mask": 0.05}),
    ("ppo", {"policy_gradient_fallback": True, "sequence_mask": 0.1}),
    ("decoupled", {}),
    ("decoupled", {"cap": 1.1, "clip_low": 0.4, "clip_high": 0.1}),
    ("decoupled", {"cap": None}),
    ("decoupled", {"cap": 1.1, "floor": 0.9}),
    ("decoupled", {"cap": 1.1, "floor": 0.9, "correction": "token_mask"}),
    ("decoupled", {"cap": 1.2, "correction": "sequence_truncate"}),
    ("decoupled", {"cap": 1.2, "floor": 0.8, "correction": "sequence_mask"}),
    ("decoupled", {"cap": None, "floor": 0.8, "correction": "sequence_mask"}),
    ("gspo", {}),
    ("gspo", {"clip_low": 0.3, "clip_high": 0.2}),
    ("cispo", {}),
    ("cispo", {"clip_low": 0.3, "clip_high": 0.5, "mask_low": 0.2, "mask_high": 0.28}),
    ("sapo", {}),
    ("sapo", {"tau_positive": 3.0, "tau_negative": 0.4}),
    ("sapo", {"constant_gate": True}),
    ("topr", {}),
    ("topr", {"threshold": -0.5}),
    ("sppo", {}),
    ("sppo", {"epsilon": 1.0}),
    ("opmd", {}),
    ("opmd", {"tau": 0.0}),
    ("kimi", {}),
    ("kimi", {"tau": 2.5}),
    ("importance_sampling", {}),
    ("importance_sampling", {"cap": 1.1}),
    *(
        ("rec", {"clip_mode": mode, "weight": "importance"})
        for mode in ("none", "two-side", "one-side", "ring")
    ),
    ("rec", {"clip_mode": "ring", "outer_low": 0.3, "outer_high": 0.5, "weight": "truncated"}),
    ("rec", {"clip_mode": "sequence-one-side", "weight": "sequence"}),
    (
        "rec",
        {
            "weight": "advantage",
            "temperature": 0.7,
            "regularizer": "k2",
            "regularizer_coefficient": 0.3,
        },
    ),
    ("rec", {"regularizer": "forward-kl", "regularizer_coefficient": 0.3, "clip_mode": "two-side"}),
    ("sft", {}),
    ("sft_is", {}),
    ("sft_phi", {}),
    ("sft_phi", {"cutoff": 0.4}),
]
NAMES = [f"{name}-{'-'.join(map(str, options.values()))}" for name, options in VARIANTS]


def test_every_loss_has_a_slow_version_and_a_variant():
    assert set(LOSSES) == set(slow.LOSSES) == {name for name, _ in VARIANTS}


@pytest.mark.parametrize(("name", "options"), VARIANTS, ids=NAMES)
@pytest.mark.parametrize("seed", range(3))
def test_values_match_the_slow_version(name, options, seed):
    tokens = batch(seed)

    found = LOSSES[name](tokens, **options).values

    assert torch.allclose(
        found, slow.values(slow.LOSSES[name], tokens, **options), rtol=1e-12, atol=1e-12
    )


@pytest.mark.parametrize(("name", "options"), VARIANTS, ids=NAMES)
@pytest.mark.parametrize("seed", range(3))
def test_gradient_matches_the_slow_version_including_stop_gradients(name, options, seed):
    tokens = batch(seed)

    (found,) = torch.autograd.grad(LOSSES[name](tokens, **options).values.sum(), tokens.policy)

    assert torch.allclose(
        found, slow.gradient_of_sum(slow.LOSSES[name], tokens, **options), rtol=1e-6, atol=1e-7
    )


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("sapo", {}),
        ("opmd", {}),
        ("kimi", {}),
        ("importance_sampling", {}),
        ("sft", {}),
        ("sppo", {"epsilon": 50.0}),
        ("ppo", {"clip_low": 0.99, "clip_high": 50.0}),
        ("decoupled", {"clip_low": 0.99, "clip_high": 50.0}),
        ("rec", {"regularizer": "k2", "regularizer_coefficient": 0.3}),
    ],
)
def test_smooth_losses_pass_gradcheck(name, options):
    tokens = batch(4, rows=3, width=4, empty=False)

    def value(policy):
        return LOSSES[name](replace(tokens, policy=policy), **options).values.sum()

    assert torch.autograd.gradcheck(value, tokens.policy)


@pytest.mark.parametrize(("name", "options"), VARIANTS, ids=NAMES)
@pytest.mark.parametrize("junk", [float("nan"), float("inf"), -float("inf"), 1e30])
def test_values_outside_the_mask_affect_no_value_gradient_or_metric(name, options, junk):
    clean = batch(1)
    spoilt = {
        field: torch.where(clean.mask != 0, getattr(clean, field), junk).detach()
        for field in ("policy", "behaviour", "advantages", "reference", "proximal", "entropy")
    }
    tokens = replace(clean, **spoilt)
    tokens.policy.requires_grad_()

    found = LOSSES[name](tokens, **options)
    expected = LOSSES[name](clean, **options)

    assert torch.equal(found.values, expected.values)
    (gradient,) = torch.autograd.grad(found.values.sum(), tokens.policy)
    assert torch.equal(gradient, torch.autograd.grad(expected.values.sum(), clean.policy)[0])
    assert not gradient[clean.mask == 0].any()
    for metric in found.metrics.values():
        assert metric.isfinite().all()
        assert not metric.requires_grad


@pytest.mark.parametrize(("name", "options"), VARIANTS, ids=NAMES)
def test_update_without_loss_tokens_has_zero_value_and_gradient(name, options):
    tokens = batch(2)
    tokens = replace(tokens, mask=torch.zeros_like(tokens.mask))

    found = LOSSES[name](tokens, **options).values

    assert not found.any()
    assert not torch.autograd.grad(found.sum(), tokens.policy)[0].any()


def test_decoupled_loss_equals_ppo_for_on_policy_data():
    tokens = batch(3)
    tokens = replace(tokens, proximal=tokens.behaviour)

    assert torch.equal(
        LOSSES["decoupled"](tokens).values, LOSSES["ppo"](tokens, dual_clip=None).values
    )


def test_decoupled_loss_without_proximal_logprobs_is_refused():
    with pytest.raises(ValueError, match="needs proximal logprobs"):
        LOSSES["decoupled"](replace(batch(), proximal=None))


def test_kimi_token_values_sum_to_the_loss_of_the_row():
    tokens = batch(5)
    kept = tokens.mask != 0
    delta = torch.where(kept, tokens.policy - tokens.behaviour, 0.0).sum(1)
    reward = torch.where(kept, tokens.advantages * tokens.policy, 0.0).sum(1)

    rows = LOSSES["kimi"](tokens, tau=0.7).values.sum(1)

    assert torch.allclose(rows, -reward + 0.35 * delta.square(), rtol=1e-12)


def test_kimi_gradient_matches_the_squared_surrogate_over_twice_tau():
    tau = 0.3
    tokens = batch(6, empty=False)
    advantage = torch.tensor([1.0, -0.5, 0.2, 0.8, -1.0, 0.5], dtype=torch.float64)
    tokens = replace(tokens, advantages=advantage[:, None].expand_as(tokens.policy))
    delta = ((tokens.policy - tokens.behaviour) * tokens.mask).sum(1)

    (surrogate,) = torch.autograd.grad((advantage - tau * delta).square().sum(), tokens.policy)
    (ours,) = torch.autograd.grad(LOSSES["kimi"](tokens, tau=tau).values.sum(), tokens.policy)

    assert torch.allclose(ours, surrogate / (2 * tau), rtol=1e-10, atol=1e-12)


def test_gspo_row_has_the_gradient_of_its_sequence_ratio():
    tokens = batch(7, empty=False)
    advantage = torch.tensor([1.0, -0.5, 0.2, 0.8, -1.0, 0.5], dtype=torch.float64)
    tokens = replace(tokens, advantages=advantage[:, None].expand_as(tokens.policy))
    lengths = tokens.mask.sum(1)
    ratio = (((tokens.policy - tokens.behaviour) * tokens.mask).sum(1) / lengths).exp()

    (whole,) = torch.autograd.grad((-advantage * ratio).sum(), tokens.policy)
    per_token = LOSSES["gspo"](tokens, clip_low=0.999, clip_high=1e3).values
    (ours,) = torch.autograd.grad((per_token.sum(1) / lengths).sum(), tokens.policy)

    assert torch.allclose(ours, whole, rtol=1e-10, atol=1e-12)


def test_ppo_stays_finite_at_an_extreme_ratio():
    tokens = batch(8, dtype=torch.float32)
    tokens = replace(tokens, behaviour=tokens.behaviour - 300)

    assert LOSSES["ppo"](tokens).values.isfinite().all()
