"""Compute the reference's metrics, by its names, from the metrics of our losses."""

from typing import Any

import torch

from workers.algorithms.masking import zeroed
from workers.algorithms.tokens import RowLoss, TokenLoss, Tokens


def of_loss(
    fn: str, token_loss: TokenLoss, tokens: Tokens, loss: float, options: dict[str, Any]
) -> dict[str, float]:
    """Return the metrics of one micro-batch; `loss` is its aggregated value."""

    def mean(metric: torch.Tensor) -> float:
        count = (tokens.mask != 0).sum().clamp(min=1)
        return (zeroed(metric.expand_as(tokens.mask), tokens.mask).sum() / count).item()

    by_name = token_loss.metrics
    means = {reference_name: mean(by_name[ours]) for reference_name, ours in MEANS.get(fn, ())}
    if "log_ratio" in by_name:
        means["ppo_kl"] = means["approx_kl"] = mean(-by_name["log_ratio"])
        means["avg_ratio"] = mean(by_name["log_ratio"].exp())
    if "sequence_kl" in by_name:
        means["ppo_kl_seq"] = means["seq_mask/mean_sequence_kl"] = (
            by_name["sequence_kl"].mean().item()
        )
    if options.get("sequence_mask") is not None:
        means["seq_mask/masked_tokens"] = _masked_tokens(
            by_name["sequence_kl"], tokens, options["sequence_mask"]
        )
    means |= dict.fromkeys(LOSS_NAMES.get(fn, ("pg_loss",)), loss)
    reported = (
        set(LOSS_NAMES.get(fn, ("pg_loss",)))
        | {reference_name for reference_name, _ in MEANS.get(fn, ())}
        | set(ALSO.get(fn, ()))
    )
    if options.get("sequence_mask") is not None:
        reported |= {"seq_mask/masked_tokens", "seq_mask/mean_sequence_kl"}
    return {name: means[name] for name in means if name in reported}


def of_pair(row_loss: RowLoss) -> dict[str, float]:
    return {
        "chosen_reward": row_loss.metrics["chosen_reward"].item(),
        "rejected_reward": row_loss.metrics["rejected_reward"].item(),
        "accuracy_mean": row_loss.metrics["right"].item(),
        "dpo_loss": row_loss.values.item(),
    }


def _masked_tokens(sequence_kl: torch.Tensor, tokens: Tokens, above: float) -> float:
    """Return the share of masked tokens as the reference does: the numerator counts padding."""
    dropped = (tokens.advantages < 0) & (sequence_kl > above)
    return dropped.sum().item() / max((tokens.mask != 0).sum().item(), 1)


# its name, and our metric whose mean over the loss tokens equals it
MEANS: dict[str, tuple[tuple[str, str], ...]] = {
    "ppo": (("pg_clipfrac", "clipped"), ("pg_clipfrac_lower", "dual_clipped")),
    "gspo": (("pg_clipfrac", "clipped"),),
    "cispo": (("unmasked_frac", "unmasked"),),
    "sapo": (("avg_soft_gate", "gate"), ("pos_adv_frac", "positive")),
    "topr": (("avg_alpha", "alpha"),),
    "sppo": (("pg_clipfrac", "clipped"),),
    "rec": (("pg_clipfrac", "clipped"),),
    "importance_sampling": (("ratio/mean", "ratio"),),
}
LOSS_NAMES: dict[str, tuple[str, ...]] = {
    fn: (f"{fn}_loss",) for fn in ("sft", "sft_is", "sft_phi", "opmd", "cispo", "sapo", "topr")
}
ALSO: dict[str, tuple[str, ...]] = {
    "ppo": ("ppo_kl",),
    "gspo": ("ppo_kl", "ppo_kl_seq"),
    "cispo": ("ppo_kl",),
    "sapo": ("ppo_kl", "avg_ratio"),
    "topr": ("avg_ratio",),
    "importance_sampling": ("approx_kl",),
}
