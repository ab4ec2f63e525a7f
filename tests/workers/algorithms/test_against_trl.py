"""Losses that TRL 1.16 also has give the same number and the same gradient.

TRL's `_compute_loss` runs with a stand-in for the trainer that returns the logprobs instead of a
model's forward pass.
"""

from collections import defaultdict
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from trl import DPOTrainer, GRPOTrainer, KTOTrainer

from tests.workers.algorithms.batches import batch
from workers.algorithms.aggregation import aggregate
from workers.algorithms.kl import kl_loss
from workers.algorithms.losses import LOSSES, dpo, kto
from workers.algorithms.tokens import Tokens, Window

MAX_TOKENS = 9
ACCELERATOR = SimpleNamespace(
    num_processes=1,
    device=torch.device("cpu"),
    sync_gradients=True,
    gather=lambda values: values,
    gather_for_metrics=lambda values: values,
    reduce=lambda values, reduction: values,
)


def trainer(tokens: Tokens, **changes) -> SimpleNamespace:
    """Return the attributes GRPOTrainer._compute_loss reads: TRL's defaults with `changes`."""
    options = {
        "aux_loss_enabled": False,
        "top_entropy_quantile": 1.0,
        "off_policy_mask_threshold": None,
        "importance_sampling_level": "token",
        "beta": 0.0,
        "loss_type": "dapo",
        "epsilon_low": 0.2,
        "epsilon_high": 0.2,
        "use_vllm": False,
        "max_completion_length": MAX_TOKENS,
        "current_gradient_accumulation_steps": 1,
        "_entropy_bonus_enabled": False,
    }
    arguments = {"use_bias_correction_kl": True, "delta": None, "steps_per_generation": 1}
    arguments |= {"sapo_temperature_pos": 1.0, "sapo_temperature_neg": 1.05}
    arguments |= {name: changes.pop(name) for name in list(changes) if name in arguments}
    return SimpleNamespace(
        **options | changes,
        args=SimpleNamespace(**arguments),
        model=SimpleNamespace(training=True),
        accelerator=ACCELERATOR,
        get_off_policy_mask=GRPOTrainer.get_off_policy_mask,
        _metrics=defaultdict(lambda: defaultdict(list)),
        _get_per_token_logps_and_entropies=lambda *args, **kwargs: (
            tokens.policy,
            tokens.entropy,
            None,
        ),
    )


def trls(tokens: Tokens, **changes) -> torch.Tensor:
    nothing = torch.zeros(len(tokens.policy), 0, dtype=torch.long)
    inputs = {
        "prompt_ids": nothing,
        "prompt_mask": nothing,
        "completion_ids": torch.zeros_like(tokens.mask, dtype=torch.long),
        "completion_mask": tokens.mask,
        "advantages": tokens.advantages,
        "old_per_token_logps": tokens.behaviour,
        "ref_per_token_logps": tokens.reference,
        "num_items_in_batch": tokens.mask.sum(),
    }
    return GRPOTrainer._compute_loss(trainer(tokens, **changes), None, inputs)


def ours(tokens: Tokens, name: str, mode: str, **options) -> torch.Tensor:
    return aggregate(
        LOSSES[name](tokens, **options).values,
        tokens.mask,
        mode,
        Window.of(tokens.mask, width=MAX_TOKENS),
    )


def assert_same(found: torch.Tensor, expected: torch.Tensor, policy: torch.Tensor) -> None:
    (gradient,), (wanted,) = (
        torch.autograd.grad(found, policy),
        torch.autograd.grad(expected, policy),
    )
    assert wanted.abs().sum() > 0
    assert found.item() == pytest.approx(expected.item(), rel=1e-9)
    assert torch.allclose(gradient, wanted, rtol=1e-9, atol=1e-12)


def rowwise(tokens: Tokens) -> Tokens:
    """Return the tokens with one advantage per row, as TRL's sequence level requires."""
    return replace(tokens, advantages=tokens.advantages[:, :1].expand_as(tokens.mask))


CLIPS = {"clip_low": 0.1, "clip_high": 0.28, "dual_clip": None}
TRL_CLIPS = {"epsilon_low": 0.1, "epsilon_high": 0.28}


@pytest.mark.parametrize(
    ("loss_type", "mode"),
    [
        ("dapo", "token-mean"),
        ("bnpo", "token-mean"),
        ("grpo", "seq-mean-token-mean"),
        ("dr_grpo", "seq-mean-token-sum-norm"),
        ("luspo", "seq-mean-token-sum"),
    ],
)
@pytest.mark.parametrize("seed", range(2))
def test_ppo_matches_trl_with_each_aggregation(loss_type, mode, seed):
    tokens = batch(seed)

    assert_same(
        ours(tokens, "ppo", mode, **CLIPS),
        trls(tokens, loss_type=loss_type, **TRL_CLIPS),
        tokens.policy,
    )


def test_dual_clip_matches_trls_delta():
    tokens = batch(2)
    options = {**CLIPS, "dual_clip": 1.6}

    assert_same(
        ours(tokens, "ppo", "token-mean", **options),
        trls(tokens, delta=1.6, **TRL_CLIPS),
        tokens.policy,
    )


def test_sequence_mask_matches_trls_off_policy_mask():
    tokens = rowwise(batch(3))
    masked = trls(tokens, off_policy_mask_threshold=0.05, **TRL_CLIPS)
    assert masked.item() != pytest.approx(trls(tokens, **TRL_CLIPS).item())

    assert_same(
        ours(tokens, "ppo", "token-mean", sequence_mask=0.05, **CLIPS), masked, tokens.policy
    )


def test_gspo_matches_trls_sequence_level():
    tokens = rowwise(batch(4))
    expected = trls(
        tokens,
        importance_sampling_level="sequence",
        loss_type="grpo",
        epsilon_low=0.1,
        epsilon_high=0.2,
    )

    assert_same(
        ours(tokens, "gspo", "seq-mean-token-mean", clip_low=0.1, clip_high=0.2),
        expected,
        tokens.policy,
    )


def test_cispo_matches_trl():
    tokens = batch(5)
    expected = trls(tokens, loss_type="cispo", epsilon_high=1.5)

    assert_same(
        ours(tokens, "cispo", "token-mean", clip_low=1.0, clip_high=0.5), expected, tokens.policy
    )


@pytest.mark.parametrize(("positive", "negative"), [(1.0, 1.25), (3.0, 0.5)])
def test_sapo_matches_trl(positive, negative):
    tokens = batch(6)
    expected = trls(
        tokens, loss_type="sapo", sapo_temperature_pos=positive, sapo_temperature_neg=negative
    )
    found = ours(
        tokens, "sapo", "seq-mean-token-mean", tau_positive=positive, tau_negative=negative
    )

    assert_same(found, expected, tokens.policy)


@pytest.mark.parametrize(("corrected", "estimator"), [(False, "k3"), (True, "corrected_k3")])
def test_kl_loss_matches_trl_where_the_correction_is_below_its_limit(corrected, estimator):
    tokens = batch(7)
    tokens = replace(
        tokens, behaviour=torch.maximum(tokens.behaviour, tokens.policy.detach() - 0.6)
    )
    expected = trls(tokens, beta=0.3, use_bias_correction_kl=corrected, **TRL_CLIPS)

    found = ours(tokens, "ppo", "token-mean", **CLIPS) + kl_loss(
        tokens, estimator, 0.3, "token-mean", Window.of(tokens.mask)
    )

    assert_same(found, expected, tokens.policy)


def preference_trainer(**changes) -> SimpleNamespace:
    """Return the attributes that DPOTrainer and KTOTrainer read to compute a plain loss."""
    return SimpleNamespace(
        **{
            "model": SimpleNamespace(training=True),
            "accelerator": ACCELERATOR,
            "aux_loss_enabled": False,
            "ld_alpha": None,
            "precompute_ref_logps": True,
            "f_divergence_type": "reverse_kl",
            "loss_weights": [1.0],
            "use_weighting": False,
            "label_smoothing": 0.0,
            "calculate_KL": True,
            "desirable_weight": 1.0,
            "undesirable_weight": 1.0,
            "_metrics": defaultdict(lambda: defaultdict(list)),
            "_total_train_tokens": 0,
            "_tp_size": 1,
        }
        | changes
    )


def model_of(policy: torch.Tensor):
    """Return a model whose completion logprobs are `policy`; TRL reads the last columns, one fewer
    than the ids.
    """
    nothing = torch.zeros_like(policy)
    output = SimpleNamespace(
        log_probs=policy, entropy=nothing, mean_logits=nothing, is_top1=nothing.bool()
    )
    return lambda **kwargs: output


def preference_inputs(tokens: Tokens) -> dict[str, torch.Tensor]:
    ahead = torch.zeros(len(tokens.mask), 1, dtype=tokens.mask.dtype)
    mask = torch.cat([ahead, tokens.mask], 1).long()
    return {
        "input_ids": torch.zeros_like(mask),
        "attention_mask": torch.ones_like(mask),
        "completion_mask": mask,
    }


def test_dpo_matches_trl():
    tokens = batch(8)
    order = [0, 2, 4, 1, 3, 5]  # TRL has all chosen rows first, then all rejected
    far = torch.where(tokens.mask != 0, tokens.reference, 0.0).sum(1)
    inputs = preference_inputs(replace(tokens, mask=tokens.mask[order]))
    inputs |= {"ref_chosen_logps": far[0::2], "ref_rejected_logps": far[1::2]}
    given = torch.where(tokens.mask != 0, tokens.policy, 0.0)[order]
    stand_in = preference_trainer(beta=0.4, loss_types=["sigmoid"])

    expected = DPOTrainer._compute_loss(stand_in, model_of(given), inputs, False)

    assert_same(dpo(tokens, beta=0.4).share(3), expected, tokens.policy)


def test_kto_matches_trl():
    tokens = batch(9)
    liked = torch.tensor([True, False, True, False, False, True])
    far = torch.where(tokens.mask != 0, tokens.reference, 0.0).sum(1)
    inputs = preference_inputs(tokens) | {
        "label": liked,
        "ref_logps": far,
        "ref_KL_logps": torch.tensor([-2.0, -1.0]),
    }
    stand_in = preference_trainer(
        beta=0.3,
        loss_type="kto",
        desirable_weight=1.5,
        undesirable_weight=0.5,
        _compute_kl_logps=lambda model, inputs: torch.tensor([-1.1, -0.7]),
    )
    given = torch.where(tokens.mask != 0, tokens.policy, 0.0)

    expected = KTOTrainer._compute_loss(stand_in, model_of(given), inputs, False)

    found = kto(
        tokens, liked, torch.tensor(0.6), beta=0.3, desirable_weight=1.5, undesirable_weight=0.5
    )
    assert_same(found.share(6), expected, tokens.policy)
