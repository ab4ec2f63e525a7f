"""A micro-batch's share of the loss is compared with explicitly written sums."""

import math

import pytest
import torch

from workers.algorithms.tokens import Tokens, Window
from workers.trainer import objective
from workers.trainer.collate import Windows
from workers.trainer.spec import Divergence, Experts, Loss, Objective, Schedule

DRAW = torch.Generator().manual_seed(0)
MASK = torch.tensor([[1, 1, 1, 0], [1, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 0]])
EXPERT = torch.tensor([False, False, True, True])  # the last row fills the pass
WINDOWS = Windows(usual=Window(2, 6, 4), expert=Window(1, 2, 4))


def logprobs() -> torch.Tensor:
    return -3.0 + 0.3 * torch.randn(MASK.shape, generator=DRAW, dtype=torch.float64)


@pytest.fixture
def tokens() -> Tokens:
    return Tokens(
        policy=logprobs().requires_grad_(),
        behaviour=logprobs(),
        mask=MASK,
        advantages=torch.tensor([[1.0], [-2.0], [0.0], [0.0]], dtype=torch.float64).expand(
            MASK.shape
        ),
        reference=logprobs(),
        entropy=logprobs().abs(),
        is_expert=EXPERT,
    )


def share(
    plan: Objective, tokens: Tokens, mu: float = 0.0, coefficient: float = 0.0
) -> objective.Share:
    return objective.share(plan, tokens, WINDOWS, mu, coefficient)


def usual(values: torch.Tensor) -> float:
    """Return the sum over the six tokens of the usual rows."""
    return sum(float(values[b, c]) for b in (0, 1) for c in range(4) if MASK[b, c])


def test_teachers_logprob_difference_is_the_advantage(tokens):
    plan = Objective(
        Loss("importance_sampling"), teacher=Loss("towards_teacher", {"coefficient": 0.5})
    )
    ratio = (tokens.policy - tokens.behaviour).exp()
    expected = usual(-0.5 * (tokens.reference - tokens.behaviour) * ratio) / 6
    assert share(plan, tokens).loss.item() == pytest.approx(expected, rel=1e-9)


def test_kl_is_reported_for_usual_rows_and_has_no_effect_at_coefficient_0(tokens):
    plan = Objective(Loss("importance_sampling"), kl=Divergence("k1"))
    found = share(plan, tokens)
    assert found.loss.item() == share(Objective(Loss("importance_sampling")), tokens).loss.item()
    assert usual(found.usual["kl"]) == pytest.approx(
        usual((tokens.policy - tokens.reference).detach())
    )
    assert not found.usual["kl"][2:].any()


def test_expert_rows_are_excluded_from_kl_and_entropy(tokens):
    plan = Objective(
        Loss("importance_sampling"), kl=Divergence("k3", 1.0), entropy=0.5, experts=Experts(1, 0.0)
    )
    share(plan, tokens, coefficient=1.0).loss.backward()
    assert not tokens.policy.grad[2:].any()
    assert tokens.policy.grad[:2][MASK[:2] == 1].all()


def test_values_outside_the_mask_affect_neither_loss_nor_gradient(tokens):
    plan = Objective(Loss("ppo"), kl=Divergence("k3", 1.0), entropy=0.5, experts=Experts(1, 0.3))
    clean = share(plan, tokens, 0.3, 1.0).loss
    clean.backward()
    gradient, tokens.policy.grad = tokens.policy.grad, None
    outside = MASK == 0
    for values in (tokens.behaviour, tokens.reference, tokens.entropy):
        values[outside] = math.nan
    dirty = share(plan, tokens, 0.3, 1.0).loss
    dirty.backward()
    assert dirty.item() == clean.item()
    assert torch.equal(tokens.policy.grad, gradient)


def test_behaviour_gap_is_measured_on_usual_tokens(tokens):
    found = share(Objective(Loss("ppo")), tokens).usual
    moved = (tokens.policy - tokens.behaviour).detach()
    assert usual(found["behaviour_gap"]) == pytest.approx(usual(moved.abs()))
    assert usual(found["behaviour_kl"]) == pytest.approx(usual(moved.exp() - 1 - moved))


@pytest.mark.parametrize(
    "plan, words",
    [
        (Objective(Loss("grop")), "unknown loss 'grop'; use one of ppo, "),
        (Objective(Loss("ppo"), "token-median"), "unknown aggregation 'token-median'"),
        (Objective(Loss("ppo"), kl=Divergence("k7", 0.1)), "unknown KL estimator 'k7'"),
        (Objective(Loss("ppo"), teacher=Loss("somebody")), "unknown teacher 'somebody'"),
        (Objective(Loss("ppo"), experts=Experts(1, 0.1, Loss("cheat"))), "unknown loss 'cheat'"),
    ],
)
def test_unknown_name_is_refused_with_the_known_ones(tokens, plan, words):
    with pytest.raises(ValueError, match=words):
        share(plan, tokens)


def test_mu_is_constant_without_a_schedule_and_follows_one():
    assert [objective.mu_at(Experts(4, 0.3), step) for step in (0, 100)] == [0.3, 0.3]
    moving = Experts(4, 0.3, schedule=Schedule(2, 4, 0.9, 0.1))
    assert [objective.mu_at(moving, step) for step in (0, 1, 2, 4, 6, 50)] == pytest.approx(
        [0.0, 0.45, 0.9, 0.5, 0.1, 0.1]
    )


@pytest.mark.parametrize("fields", [{"target": 0.1}, {"estimator": "k3", "target": 0.1}])
def test_adaptive_coefficient_without_an_initial_value_is_refused(fields):
    with pytest.raises(ValueError, match=r"kl\.target"):
        Divergence(**fields)
