"""Share of one micro-batch in the step's loss, as the run's objective defines it.

Every term is divided by totals of the whole step, so the gradient does not depend on how rows are
cut into forward passes. Expert rows are learned only through the expert loss; KL and entropy are
those of the policy's own samples.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import torch

from workers.algorithms.distillation import jensen_shannon, towards_teacher
from workers.algorithms.entropy import entropy_bonus
from workers.algorithms.kl import charged, divergence, kl_loss
from workers.algorithms.losses import LOSSES
from workers.algorithms.mixing import Kind, chord_mu, mix
from workers.algorithms.tokens import TokenLoss, Tokens
from workers.trainer.collate import Windows
from workers.trainer.plugin_losses import loss_by_plugin
from workers.trainer.spec import Experts, Loss, Objective

PLUGIN = "plugin"  # the loss whose options name a plugin
TEACHERS = {"towards_teacher": towards_teacher, "jensen_shannon": jensen_shannon}
# What losses call a metric → what the run's page calls it.
SHOWN = {
    "clipped": "clip_share",
    "dual_clipped": "dual_clip_share",
    "dropped": "dropped_share",
    "capped": "capped_share",
}


@dataclass(frozen=True)
class Share:
    """Share of a micro-batch in the loss, 0-dim, and metrics (B, C) of both kinds of tokens."""

    loss: torch.Tensor
    usual: dict[str, torch.Tensor]
    expert: dict[str, torch.Tensor]


def share(
    plan: Objective, tokens: Tokens, windows: Windows, mu: float, kl_coefficient: float
) -> Share:
    """Return (1 − mu) · usual + mu · expert + kl_coefficient · KL − entropy coefficient · H.

    KL and H are taken over usual rows. `tokens.is_expert` is required; `tokens.reference` only for
    a KL or a teacher.
    """
    if plan.teacher:
        tokens = replace(tokens, advantages=taught(plan.teacher, tokens))
    usual_part = tokens.only(~tokens.expert_rows)
    divergences = (
        {"kl": divergence(usual_part, plan.kl.estimator).detach()} if plan.kl.is_used else {}
    )
    if plan.kl.is_used and plan.kl.where == "reward":
        tokens = charged(tokens, plan.kl.estimator, kl_coefficient)
    usual = Kind(function(plan.loss), plan.aggregation, windows.usual)
    expert = Kind(function(plan.experts.loss), plan.experts.aggregation, windows.expert)
    mixed = mix(tokens, usual, expert, mu)
    loss = mixed.loss
    if plan.kl.is_used and plan.kl.where == "loss":
        loss = loss + kl_loss(
            usual_part, plan.kl.estimator, kl_coefficient, plan.aggregation, windows.usual
        )
    if plan.entropy:
        loss = loss - entropy_bonus(usual_part, plan.entropy, windows.usual)
    reported = {
        SHOWN[name]: values for name, values in mixed.usual_tokens.metrics.items() if name in SHOWN
    }
    return Share(
        loss,
        {**reported, **divergences, **gaps(usual_part)},
        {"expert_nll": -tokens.policy.detach()},
    )


def taught(teacher: Loss, tokens: Tokens) -> torch.Tensor:
    """Return the advantages (B, C) that the teacher, the reference model, gives each token.

    Raises ValueError for an unknown name.
    """
    if teacher.name not in TEACHERS:
        raise ValueError(f"unknown teacher {teacher.name!r}; use one of {', '.join(TEACHERS)}")
    assert tokens.reference is not None  # the run keeps a reference model for its teacher
    return TEACHERS[teacher.name](
        tokens.behaviour, tokens.reference, tokens.mask, **teacher.options
    )


def function(loss: Loss) -> Callable[[Tokens], TokenLoss]:
    """Return the loss function with its options bound. Raises ValueError for an unknown name."""
    if loss.name == PLUGIN:
        return loss_by_plugin(**loss.options)
    if loss.name not in LOSSES:
        raise ValueError(f"unknown loss {loss.name!r}; use one of {', '.join(LOSSES)}")
    return partial(LOSSES[loss.name], **loss.options)


def gaps(tokens: Tokens) -> Mapping[str, torch.Tensor]:
    """Return per-token distances between the policy and the behaviour policy, before the step.

    behaviour_kl is KL(behaviour ‖ policy) by the k3 estimator (Schulman 2020): r − 1 − log r, with
    r = policy/behaviour.
    """
    assert tokens.entropy is not None  # every forward pass computes it
    moved = torch.where(tokens.mask != 0, tokens.policy.detach() - tokens.behaviour, 0.0).double()
    return {
        "behaviour_gap": moved.abs(),
        "behaviour_kl": moved.exp() - 1 - moved,
        "entropy": tokens.entropy.detach(),
    }


def mu_at(experts: Experts, step: int) -> float:
    """Return the expert term's weight in the step after `step` steps."""
    plan = experts.schedule
    if plan is None:
        return experts.mu
    return chord_mu(step, warmup=plan.warmup, decay=plan.decay, peak=plan.peak, valley=plan.valley)
