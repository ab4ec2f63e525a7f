"""Rows of a recorded batch → the tensors TRL's GRPO loss reads. Pure: no model, no randomness, no device.

Shapes: B rows, P longest prompt, C longest completion. Prompts are padded on the left, completions on the right.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

USUAL = "usual"


@dataclass(frozen=True)
class Row:
    """One experience. Completion fields are aligned token by token; logprobs (nats) are those of sampling time."""

    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    action_mask: tuple[int, ...]
    behaviour_logprobs: tuple[float, ...]
    advantage: float
    kind: str = USUAL

    def __post_init__(self) -> None:
        lengths = {len(self.completion_ids), len(self.action_mask), len(self.behaviour_logprobs)}
        if len(lengths) != 1 or not self.prompt_ids or not self.completion_ids:
            raise ValueError(f"a row needs a prompt and aligned completion fields; lengths are {sorted(lengths)}")
        if self.kind != USUAL:
            raise ValueError(f"a {self.kind} row has no behaviour logprobs: this loss learns from usual rows alone")


def collate(rows: Sequence[Row], pad_id: int, divisible_by: int = 1, mean_over_rows: bool = False) -> dict[str, torch.Tensor]:
    """The batch as TRL's `_compute_loss` reads it; B is a multiple of `divisible_by`.

    prompt_ids, prompt_mask (B, P) and completion_ids, completion_mask, tool_mask (B, C) int64; advantages (B,) and
    old_per_token_logps (B, C) float32; num_items_in_batch, 0-dim, the tokens in the loss. `tool_mask` is there only
    when it says something: that the policy did not choose a token, or that a row merely fills the last micro-batch.
    `mean_over_rows`: the loss divides by B, so advantages grow by what was filled in. Raises ValueError when empty.
    """
    if not rows:
        raise ValueError("an update needs at least one row")
    filled = fill(rows, divisible_by)
    scale = len(filled) / len(rows) if mean_over_rows else 1.0
    prompts, completions = [row.prompt_ids for row in filled], [row.completion_ids for row in filled]
    completion_mask = _right([[1] * len(ids) for ids in completions], 0, torch.long)
    actions = _right([row.action_mask for row in filled], 0, torch.long)
    logprobs = _right([row.behaviour_logprobs for row in filled], 0.0, torch.float32)
    batch = {
        "prompt_ids": _left(prompts, pad_id),
        "prompt_mask": _left([[1] * len(ids) for ids in prompts], 0),
        "completion_ids": _right(completions, pad_id, torch.long),
        "completion_mask": completion_mask,
        "advantages": torch.tensor([scale * row.advantage for row in filled], dtype=torch.float32),
        # What stands at tokens the policy did not choose is nobody's logprob, and must not reach 0 × NaN.
        "old_per_token_logps": logprobs.masked_fill(actions == 0, 0.0),
        "num_items_in_batch": actions.sum(),
    }
    if not torch.equal(actions, completion_mask):
        batch["tool_mask"] = actions
    return batch


def fill(rows: Sequence[Row], divisible_by: int) -> list[Row]:
    """Copies of the first row, outside the loss, are added until all micro-batches have the same number of rows."""
    silent = replace(rows[0], action_mask=(0,) * len(rows[0].completion_ids), advantage=0.0)
    return [*rows, *[silent] * (-len(rows) % divisible_by)]


def _left(lists: Sequence[Sequence[int]], value: int) -> torch.Tensor:
    width = max(map(len, lists))
    return torch.tensor([[value] * (width - len(items)) + list(items) for items in lists], dtype=torch.long)


def _right(lists: Sequence[Sequence[float]], value: float, dtype: torch.dtype) -> torch.Tensor:
    width = max(map(len, lists))
    return torch.tensor([list(items) + [value] * (width - len(items)) for items in lists], dtype=dtype)
