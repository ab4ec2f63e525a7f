"""Inputs and outputs of a loss.

B rows (completions), C columns (completion tokens). All logprobs are natural logarithms at the
temperature of training. A value where `mask` is 0 is never read, so it may be anything, NaN
included.
"""

from dataclasses import dataclass, field, replace

import torch


@dataclass(frozen=True)
class Tokens:
    """One micro-batch of completion tokens.

    | field | shape | contents |
    |---|---|---|
    | policy | (B, C) | logprobs under the weights being trained; it and `entropy` have gradients |
    | behaviour | (B, C) | logprobs that the tokens were sampled with |
    | mask | (B, C) | 1 where the token is in the loss, 0 elsewhere; any dtype |
    | advantages | (B, C) | advantage of each token |
    | reference | (B, C) | logprobs under the reference model |
    | proximal | (B, C) | logprobs at the start of the step, the center of the clip |
    | entropy | (B, C) | entropy of the policy's next-token distribution, in nats |
    | is_expert | (B,) | true for a row written by an expert |
    """

    policy: torch.Tensor
    behaviour: torch.Tensor
    mask: torch.Tensor
    advantages: torch.Tensor
    reference: torch.Tensor | None = None
    proximal: torch.Tensor | None = None
    entropy: torch.Tensor | None = None
    is_expert: torch.Tensor | None = None

    def only(self, rows: torch.Tensor) -> "Tokens":
        """Return the same micro-batch with every other row masked out; `rows` is (B,) bool.

        The shapes stay the same.
        """
        return replace(self, mask=self.kept * rows.bool().unsqueeze(1))

    @property
    def expert_rows(self) -> torch.Tensor:
        """Return `is_expert` (B,) as bool; a step with both kinds of rows has it."""
        assert self.is_expert is not None
        return self.is_expert.bool()

    @property
    def kept(self) -> torch.Tensor:
        """Return the mask as zeros and ones in the dtype of the logprobs, (B, C)."""
        return (self.mask != 0).to(self.policy.dtype)


@dataclass(frozen=True)
class Window:
    """Totals of one whole step, over all micro-batches of all ranks.

    A micro-batch divides its sums by these.

    | field | contents |
    |---|---|
    | rows | completions of the step, also those with an empty mask |
    | tokens | tokens of the step that are in the loss |
    | width | the most tokens a completion may have; `seq-mean-token-sum-norm` divides by it |

    The shares of all micro-batches add up to the loss of the step, and so do their gradients,
    whatever the size of a micro-batch. If ranks average their gradients (DDP), each rank multiplies
    its share by the number of ranks.
    """

    rows: int
    tokens: int
    width: int

    @classmethod
    def of(
        cls, mask: torch.Tensor, rows: torch.Tensor | None = None, width: int | None = None
    ) -> "Window":
        """Return the totals of a step held in one tensor, (B, C).

        `rows` (B,) bool restricts the count to some rows.
        """
        counted = mask if rows is None else mask[rows.bool()]
        return cls(
            rows=len(counted), tokens=int((counted != 0).sum()), width=width or mask.shape[1]
        )


@dataclass(frozen=True)
class TokenLoss:
    """Result of a loss per token.

    | field | contents |
    |---|---|
    | values | (B, C) to minimise, not yet averaged; zero where the mask is 0 |
    | metrics | metric name to a detached (B, C) tensor, or (B, 1) for a metric of the row |

    A metric's mean over the loss tokens is shown to people; a yes or no is 1 or 0.
    """

    values: torch.Tensor
    metrics: dict[str, torch.Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class RowLoss:
    """Result of a loss of whole pairs or whole completions: R pairs (dpo) or rows (kto).

    `values` (R,) are minimised: the step's loss is their mean over the R of the whole step.
    `metrics` holds a detached (R,) tensor by the metric's name.
    """

    values: torch.Tensor
    metrics: dict[str, torch.Tensor] = field(default_factory=dict)

    def share(self, in_update: int) -> torch.Tensor:
        """Return this micro-batch's share of the mean over all `in_update` pairs or rows, 0-dim."""
        return self.values.sum() / max(in_update, 1)
