"""Aggregation matches its definitions, and the gradient does not depend on the micro-batch size."""

import pytest
import torch

from tests.workers.algorithms import slow
from tests.workers.algorithms.batches import batch
from workers.algorithms.aggregation import MODES, aggregate
from workers.algorithms.entropy import entropy_bonus
from workers.algorithms.kl import ESTIMATORS, kl_loss
from workers.algorithms.losses import LOSSES
from workers.algorithms.mixing import Kind, mix
from workers.algorithms.tokens import Tokens, Window

ROWS = 12
FEATURES = 5
SIZES = (1, 2, 4, ROWS)
WIDTH = 10


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", range(3))
def test_aggregation_of_one_micro_batch_matches_the_definition_of_the_mode(mode, seed):
    tokens = batch(seed)
    values = LOSSES["ppo"](tokens).values

    found = aggregate(values, tokens.mask, mode, Window.of(tokens.mask, width=WIDTH))

    assert found.item() == pytest.approx(
        slow.aggregate(values.detach(), tokens.mask, mode, WIDTH), rel=1e-12
    )


@pytest.mark.parametrize("mode", MODES)
def test_empty_window_gives_exactly_zero(mode):
    tokens = batch()

    share = aggregate(
        LOSSES["sft"](tokens).values, torch.zeros_like(tokens.mask), mode, Window(0, 0, 7)
    )

    assert share.item() == 0
    assert not torch.autograd.grad(share, tokens.policy)[0].any()


def test_an_unknown_mode_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match=r"unknown aggregation 'mean'; use one of token-mean, .*"):
        aggregate(torch.ones(1, 1), torch.ones(1, 1), "mean", Window(1, 1, 1))


def test_window_can_count_one_kind_of_row():
    tokens = batch()

    both = [Window.of(tokens.mask, rows) for rows in (tokens.is_expert, ~tokens.is_expert)]

    assert sum(window.rows for window in both) == 6
    assert sum(window.tokens for window in both) == int(tokens.mask.sum())


def accumulated(share, size: int) -> torch.Tensor:
    """Return a shared parameter's gradient, summed over micro-batches of `size` rows in float32."""
    draw = torch.Generator().manual_seed(11)
    tokens = batch(11, rows=ROWS, dtype=torch.float32)
    seen = torch.randn(*tokens.policy.shape, FEATURES, generator=draw)
    weight = torch.zeros(FEATURES).requires_grad_()
    start = tokens.policy.detach()
    for place in range(0, ROWS, size):
        rows = slice(place, place + size)
        # Each micro-batch has its own graph, as in training.
        policy = start[rows] + 0.3 * torch.tanh(seen[rows] @ (weight + 0.1))
        micro = Tokens(
            policy=policy, **{n: v[rows] for n, v in vars(tokens).items() if n != "policy"}
        )
        share(micro, tokens).backward()
    return weight.grad


def assert_the_same_for_every_size(share) -> None:
    whole = accumulated(share, ROWS)
    assert whole.norm() > 0
    for size in SIZES[:-1]:
        assert (accumulated(share, size) - whole).norm() / whole.norm() < 1e-5


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", sorted(LOSSES))
def test_loss_gradient_does_not_depend_on_the_micro_batch_size(name, mode):
    def share(micro, update):
        return aggregate(
            LOSSES[name](micro).values, micro.mask, mode, Window.of(update.mask, width=WIDTH)
        )

    assert_the_same_for_every_size(share)


@pytest.mark.parametrize("estimator", sorted(set(ESTIMATORS) - {"none"}))
def test_kl_gradient_does_not_depend_on_the_micro_batch_size(estimator):
    assert_the_same_for_every_size(
        lambda micro, update: kl_loss(
            micro, estimator, 0.5, "seq-mean-token-mean", Window.of(update.mask)
        )
    )


def test_entropy_bonus_gradient_does_not_depend_on_the_micro_batch_size():
    def share(micro, update):
        entropic = Tokens(**vars(micro) | {"entropy": micro.policy.square()})
        return entropy_bonus(entropic, 0.1, Window.of(update.mask, ~update.is_expert))

    assert_the_same_for_every_size(share)


@pytest.mark.parametrize("usual", ["token-mean", "seq-mean-token-mean"])
@pytest.mark.parametrize("expert", ["token-mean", "seq-mean-token-mean"])
@pytest.mark.parametrize("shown", ["sft", "sft_phi"])
def test_mix_gradient_does_not_depend_on_the_micro_batch_size(usual, expert, shown):
    def share(micro, update):
        return mix(
            micro,
            Kind(LOSSES["ppo"], usual, Window.of(update.mask, ~update.is_expert)),
            Kind(LOSSES[shown], expert, Window.of(update.mask, update.is_expert)),
            mu=0.3,
        ).loss

    assert_the_same_for_every_size(share)
