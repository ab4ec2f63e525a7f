"""MIX and CHORD: which loss each row gets, with which weight at which step."""

import math
from dataclasses import replace

import pytest
import torch

from tests.workers.algorithms import slow
from tests.workers.algorithms.batches import batch
from workers.algorithms.losses import LOSSES
from workers.algorithms.mixing import Kind, chord_mu, mix
from workers.algorithms.tokens import Window


def mixed(tokens, mu=0.3, usual="token-mean", expert="token-mean", shown="sft"):
    return mix(
        tokens,
        Kind(LOSSES["ppo"], usual, Window.of(tokens.mask, ~tokens.is_expert)),
        Kind(LOSSES[shown], expert, Window.of(tokens.mask, tokens.is_expert)),
        mu,
    )


@pytest.mark.parametrize("aggregation", ["token-mean", "seq-mean-token-mean"])
@pytest.mark.parametrize("seed", range(3))
def test_mix_applies_one_loss_to_usual_rows_and_the_other_to_expert_rows(aggregation, seed):
    tokens = batch(seed, rows=7)
    experts = tokens.is_expert
    usual = slow.aggregate(
        slow.values(slow.ppo, tokens)[~experts], tokens.mask[~experts], "token-mean", 7
    )
    shown = slow.aggregate(
        slow.values(slow.sft, tokens)[experts], tokens.mask[experts], aggregation, 7
    )

    found = mixed(tokens, expert=aggregation)

    assert found.usual.item() == pytest.approx(usual, rel=1e-12)
    assert found.expert.item() == pytest.approx(shown, rel=1e-12)
    assert found.loss.item() == pytest.approx(0.7 * usual + 0.3 * shown, rel=1e-12)


def test_two_expert_aggregations_differ_only_when_lengths_differ():
    tokens = batch(1)
    tokens = replace(tokens, mask=torch.ones_like(tokens.mask).index_fill(1, torch.arange(3, 7), 0))

    assert mixed(tokens, expert="token-mean").expert.item() == pytest.approx(
        mixed(tokens, expert="seq-mean-token-mean").expert.item(), rel=1e-12
    )
    longer = replace(
        tokens,
        mask=tokens.mask.index_put((torch.tensor(1), torch.tensor(5)), torch.tensor(1.0).double()),
    )
    assert (
        mixed(longer, expert="token-mean").expert
        != mixed(longer, expert="seq-mean-token-mean").expert
    )


@pytest.mark.parametrize(("experts", "absent"), [(False, "expert"), (True, "usual")])
def test_absent_kind_of_rows_contributes_zero_value_and_gradient(experts, absent):
    tokens = batch(2)
    tokens = replace(tokens, is_expert=torch.full((6,), experts))

    found = mixed(tokens)

    part = getattr(found, absent)
    assert part.item() == 0
    assert not torch.autograd.grad(part, tokens.policy, retain_graph=True)[0].any()
    other = found.usual if absent == "expert" else found.expert
    assert found.loss.item() == pytest.approx(
        (0.7 if absent == "expert" else 0.3) * other.item(), rel=1e-12
    )


def test_behaviour_and_advantages_of_expert_rows_are_ignored():
    clean = batch(3)
    rows = clean.is_expert[:, None].expand_as(clean.mask)
    spoilt = replace(
        clean,
        behaviour=clean.behaviour.masked_fill(rows, float("nan")),
        advantages=clean.advantages.masked_fill(rows, float("nan")),
    )

    assert mixed(spoilt).loss.item() == mixed(clean).loss.item()


def test_mix_without_expert_flags_is_refused():
    with pytest.raises(ValueError, match="is_expert"):
        mix(
            replace(batch(), is_expert=None),
            *[Kind(LOSSES["sft"], "token-mean", Window(1, 1, 1))] * 2,
            mu=0.1,
        )


def test_chord_mu_rises_linearly_and_falls_along_a_cosine_to_the_valley():
    mus = [chord_mu(step, warmup=10, decay=100, peak=0.9, valley=0.05) for step in range(200)]

    assert mus[:11] == pytest.approx([0.09 * step for step in range(11)])
    assert mus[60] == pytest.approx(0.475)
    for step in range(10, 110):
        assert mus[step] == pytest.approx(0.05 + 0.85 * math.cos(math.pi * (step - 10) / 200) ** 2)
    assert set(mus[110:]) == {0.05}


@pytest.mark.parametrize(("warmup", "decay", "first"), [(0, 0, 0.05), (0, 10, 0.9), (10, 0, 0.0)])
def test_chord_mu_starts_correctly_without_warmup_or_decay(warmup, decay, first):
    assert chord_mu(0, warmup=warmup, decay=decay, peak=0.9, valley=0.05) == pytest.approx(first)
    assert chord_mu(10, warmup=warmup, decay=decay, peak=0.9, valley=0.05) == pytest.approx(0.05)
