"""Properties that must hold for any numbers."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.profiles import tries
from tests.workers.algorithms.batches import batch
from workers.algorithms.aggregation import MODES, aggregate
from workers.algorithms.losses import LOSSES
from workers.algorithms.tokens import Tokens, Window

logprobs = st.floats(-30, -1e-4)
numbers = st.floats(-1e3, 1e3)
PLAIN = settings(max_examples=tries(50), deadline=None)


def one_token(policy: float, behaviour: float, advantage: float) -> Tokens:
    cells = (
        torch.tensor([[value]], dtype=torch.float64)
        for value in (policy, behaviour, 1.0, advantage)
    )
    tokens = Tokens(*cells)
    tokens.policy.requires_grad_()
    return tokens


@PLAIN
@given(logprobs, logprobs, numbers)
def test_ppo_clip_is_pessimistic_and_dual_clip_bounds_the_loss(policy, behaviour, advantage):
    tokens = one_token(policy, behaviour, advantage)
    free = LOSSES["importance_sampling"](tokens).values.item()

    clipped = LOSSES["ppo"](tokens, dual_clip=None).values.item()
    bounded = LOSSES["ppo"](tokens, dual_clip=3.0).values.item()

    assert clipped >= free
    assert bounded <= clipped
    assert bounded <= max(-1.2 * advantage, -0.8 * advantage, 3 * abs(advantage))


@PLAIN
@given(logprobs, logprobs, numbers.filter(lambda a: abs(a) > 1e-6))
def test_ppo_gradient_is_zero_only_where_the_clip_is_passed_in_the_advantages_direction(
    policy, behaviour, advantage
):
    tokens = one_token(policy, behaviour, advantage)
    ratio = (tokens.policy - tokens.behaviour).detach().clamp(-20, 20).exp().item()
    passed = ratio > 1.2 if advantage > 0 else ratio < 0.8
    if abs(policy - behaviour) >= 20 or min(abs(ratio - 1.2), abs(ratio - 0.8)) < 1e-9:
        return  # at a kink, either gradient is right

    (gradient,) = torch.autograd.grad(
        LOSSES["ppo"](tokens, dual_clip=None).values.sum(), tokens.policy
    )

    assert (gradient.item() == 0) is passed


@PLAIN
@given(logprobs, logprobs, numbers)
def test_weighted_losses_have_the_policy_gradient_at_ratio_one(policy, behaviour, advantage):
    tokens = one_token(policy, policy, advantage)

    for name in (
        "ppo",
        "gspo",
        "cispo",
        "sapo",
        "topr",
        "sppo",
        "kimi",
        "rec",
        "importance_sampling",
    ):
        (gradient,) = torch.autograd.grad(LOSSES[name](tokens).values.sum(), tokens.policy)
        assert torch.allclose(
            gradient, torch.full_like(gradient, -advantage), rtol=1e-9, atol=1e-12
        ), name


@PLAIN
@given(logprobs, logprobs)
def test_zero_advantage_gives_zero_loss(policy, behaviour):
    tokens = one_token(policy, behaviour, 0.0)

    for name in set(LOSSES) - {"sft", "sft_is", "sft_phi", "kimi", "decoupled"}:
        assert not LOSSES[name](tokens).values.any(), name


@settings(max_examples=tries(20), deadline=None)
@given(
    st.integers(0, 10_000),
    st.lists(st.integers(0, 3), min_size=9, max_size=9),
    st.sampled_from(MODES),
)
def test_shares_of_any_micro_batch_split_sum_to_the_whole_loss(seed, owners, mode):
    tokens = batch(seed, rows=9)
    window = Window.of(tokens.mask, width=11)
    whole = aggregate(LOSSES["ppo"](tokens).values, tokens.mask, mode, window)

    shares = []
    for owner in set(owners):
        rows = torch.tensor([place for place, who in enumerate(owners) if who == owner])
        part = Tokens(
            **{name: value[rows] for name, value in vars(tokens).items() if value is not None}
        )
        shares.append(aggregate(LOSSES["ppo"](part).values, part.mask, mode, window))

    assert torch.allclose(sum(shares), whole, rtol=1e-10, atol=1e-12)
