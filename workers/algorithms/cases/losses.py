"""The reference's losses, KL, entropy, aggregation and μ, computed by our functions.

This module contains only what is specific to the reference's way of reporting.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence

from workers.algorithms.aggregation import aggregate
from workers.algorithms.cases import names, reference_metrics
from workers.algorithms.entropy import entropy_bonus
from workers.algorithms.kl import ESTIMATORS, kl_loss
from workers.algorithms.losses.preferences import dpo
from workers.algorithms.mixing import Kind, blend, chord_mu, mix
from workers.algorithms.tokens import TokenLoss, Tokens, Window

Inputs = Mapping[str, Any]


def tensor(values: Any) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float32)


def build_case_tokens(inputs: Inputs) -> Tokens:
    """Return the micro-batch that the inputs describe; the policy's logprobs have gradients."""
    policy = tensor(inputs["logprob"]).requires_grad_()
    zeros = torch.zeros_like(policy)
    optional = {
        name: tensor(inputs[input_name])
        for name, input_name in (("reference", "ref_logprob"),)
        if input_name in inputs
    }
    experts = (
        {"is_expert": torch.tensor(inputs["expert_mask"], dtype=torch.bool)}
        if "expert_mask" in inputs
        else {}
    )
    return Tokens(
        policy=policy,
        behaviour=tensor(inputs["old_logprob"]) if "old_logprob" in inputs else zeros,
        mask=tensor(inputs["action_mask"]),
        advantages=tensor(inputs["advantages"]) if "advantages" in inputs else zeros,
        **optional,
        **experts,
    )


def whole_update_window(mask: torch.Tensor, mode: str) -> Window:
    """Return the totals of a step that consists of this micro-batch.

    The reference's `-norm` divides by the width alone, as if there were one row.
    """
    whole = Window.of(mask)
    return Window(1, whole.tokens, whole.width) if mode == "seq-mean-token-sum-norm" else whole


def policy_loss(fn: str, arguments: dict[str, Any], inputs: Inputs) -> dict[str, Any]:
    tokens = build_case_tokens(inputs)
    if fn in ("mix", "mix_chord"):
        loss, metrics = mixed(fn, arguments, tokens, inputs)
    elif fn == "dpo":
        loss, metrics = one_pair(arguments, tokens)
    else:
        chosen = names.loss(fn, arguments)
        if chosen.options.get("policy_gradient_fallback"):
            # The reference then takes the policy for the one that sampled, also in its mask.
            tokens = replace(tokens, behaviour=tokens.policy.detach())
        token_loss = chosen(tokens)
        loss = aggregate(
            token_loss.values,
            tokens.mask,
            chosen.aggregation,
            whole_update_window(tokens.mask, chosen.aggregation),
        )
        metrics = reference_metrics.of_loss(fn, token_loss, tokens, loss.item(), chosen.options)
    (gradient,) = torch.autograd.grad(loss, tokens.policy)
    return {
        "loss": loss.item(),
        "metrics": metrics,
        "grad_wrt_logprob": gradient.tolist(),
        "grad_abs_sum": gradient.abs().sum().item(),
    }


def one_pair(arguments: dict[str, Any], tokens: Tokens) -> tuple[torch.Tensor, dict[str, float]]:
    """Return the DPO loss of all rows as one long pair, as the reference computes it.

    The reference sums all chosen rows and all rejected rows before its one sigmoid. If the number
    of rows is odd, it takes one more row as chosen, and the rejected answer is that much shorter.
    """

    def joined(values: torch.Tensor) -> torch.Tensor:
        return pad_sequence([values[0::2].flatten(), values[1::2].flatten()], batch_first=True)

    options = names.loss("dpo", arguments).options
    policy = joined(tokens.policy)
    assert tokens.reference is not None  # every case of dpo has it
    reference = joined(tokens.reference)
    pair = Tokens(
        policy, reference, joined(tokens.mask), torch.zeros_like(policy), reference=reference
    )
    row_loss = dpo(pair, **options)
    return row_loss.share(1), reference_metrics.of_pair(row_loss)


@dataclass(frozen=True)
class Part:
    """The rows of one kind in a mixture: `rows` (B,) bool, their loss and what it gave.

    The reference divides by a fixed number of rows, so it reports everything `scale` times.
    """

    chosen: names.Choice
    rows: torch.Tensor
    token_loss: TokenLoss
    share: torch.Tensor
    scale: float

    def metrics(self, tokens: Tokens) -> dict[str, float]:
        metrics = reference_metrics.of_loss(
            self.chosen.name,
            self.token_loss,
            tokens.only(self.rows),
            self.share.item(),
            self.chosen.options,
        )
        return {name: value * self.scale for name, value in metrics.items()}


def mixed(
    fn: str, arguments: dict[str, Any], tokens: Tokens, inputs: Inputs
) -> tuple[torch.Tensor, dict[str, float]]:
    how = names.mixture(fn, arguments, len(tokens.policy))
    mu = chord_mu(_one_step(inputs), **how.schedule) if how.schedule else how.mu
    experts = tokens.expert_rows
    usual_rows = ~experts
    mixture = mix(
        tokens, _kind(how.usual, tokens, usual_rows), _kind(how.expert, tokens, experts), mu
    )
    usual_scale = how.per_usual_row * int(usual_rows.sum())
    expert_scale = how.per_expert_row * int(experts.sum())
    parts = {
        "usual": Part(how.usual, usual_rows, mixture.usual_tokens, mixture.usual, usual_scale),
        "expert": Part(how.expert, experts, mixture.expert_tokens, mixture.expert, expert_scale),
    }
    loss = blend(mixture.usual * usual_scale, mixture.expert * expert_scale, mu)
    metrics: dict[str, float] = {"loss": loss.item()} | ({"mu": mu} if fn == "mix_chord" else {})
    for kind, part in parts.items():
        if fn == "mix" and not part.rows.any():
            continue  # MIX reports nothing for a kind of row that is absent, CHORD reports 0
        metrics |= {f"{kind}/{name}": value for name, value in part.metrics(tokens).items()}
    return loss, metrics


def _kind(chosen: names.Choice, tokens: Tokens, rows: torch.Tensor) -> Kind:
    window = Window.of(tokens.mask, rows)
    if chosen.aggregation == "seq-mean-token-sum-norm":
        window = Window(1, window.tokens, window.width)
    return Kind(chosen, chosen.aggregation, window)


def _one_step(inputs: Inputs) -> int:
    """Return the step that all rows of the micro-batch have; 0 if none is given."""
    steps = set(inputs.get("step", (0,)))
    if len(steps) != 1:
        raise names.Unsupported("the rows of a micro-batch are of one step")
    return int(steps.pop())


def kl(fn: str, arguments: dict[str, Any], inputs: Inputs) -> dict[str, Any]:
    if fn not in names.ESTIMATORS:
        raise names.Unsupported(fn)
    coefficient = arguments.pop("kl_coef", 0.001)
    estimator = names.ESTIMATORS[fn]
    policy = tensor(inputs["logprob"])
    reference = tensor(inputs["ref_logprob"])
    # Without behaviour logprobs the policy itself sampled, and the correction is 1.
    behaviour = tensor(inputs["old_logprob"]) if "old_logprob" in inputs else policy
    result: dict[str, Any] = {"kl": ESTIMATORS[estimator](policy, reference, behaviour).tolist()}
    if "action_mask" in inputs:
        mask = tensor(inputs["action_mask"])
        tokens = Tokens(policy, behaviour, mask, torch.zeros_like(policy), reference=reference)
        for mode in (
            "token-mean",
            "seq-mean-token-sum",
            "seq-mean-token-mean",
            "seq-mean-token-sum-norm",
        ):
            share = kl_loss(tokens, estimator, coefficient, mode, whole_update_window(mask, mode))
            result[f"kl_loss_times_coef[{mode}]"] = share.item()
    return result


def entropy(fn: str, arguments: dict[str, Any], inputs: Inputs) -> dict[str, Any]:
    if fn not in ("mix", "default", "basic", "none"):
        raise names.Unsupported(fn)
    if fn == "none":
        return {"loss": 0.0}
    values = tensor(inputs["entropy"])
    mask = tensor(inputs["action_mask"])
    experts = torch.tensor(inputs["expert_mask"], dtype=torch.bool) if fn == "mix" else None
    tokens = Tokens(values, values, mask, values, entropy=values, is_expert=experts)
    window = Window.of(mask, None if experts is None else ~experts)
    return {
        "loss": entropy_bonus(tokens, arguments.get("entropy_coef", 0.0), window).item(),
        "entropy_loss": entropy_bonus(tokens, 1.0, window).item(),
    }


def aggregated(fn: str, arguments: dict[str, Any], inputs: Inputs) -> dict[str, Any]:
    mode = arguments.pop("loss_agg_mode", "token-mean")
    width = arguments.pop("normalizer", None)
    if fn != "aggregate_loss" or arguments:
        raise names.Unsupported(fn)
    values = tensor(inputs["values"])
    mask = tensor(inputs["mask"])
    window = whole_update_window(mask, mode)
    loss = aggregate(values, mask, mode, Window(window.rows, window.tokens, width or window.width))
    return {"loss": loss.item()}


def mu_schedule(fn: str, arguments: dict[str, Any], inputs: Inputs) -> dict[str, Any]:
    if fn != "chord_mu":
        raise names.Unsupported(fn)
    values = dict(inputs) | arguments
    return {"mu": chord_mu(values["global_step"], **names.read_schedule(values))}


GROUPS: dict[str, Callable[[str, dict[str, Any], Inputs], Any]] = {
    "policy_loss": policy_loss,
    "kl": kl,
    "entropy": entropy,
    "aggregate_loss": aggregated,
    "aggregation": aggregated,
    "mu_schedule": mu_schedule,
}
