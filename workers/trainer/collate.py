"""Convert rows of a recorded batch to the tensors of a step.

Pure: no model, no randomness, no device. Shapes: B rows, P longest prompt, C longest completion.
Prompts are padded on the left, completions on the right.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from apps.policies.manifest import ShownPicture
from workers.algorithms.tokens import Window

USUAL = "usual"
EXPERT = "expert"


@dataclass(frozen=True)
class Row:
    """One experience as a training row.

    Completion fields are aligned token by token; logprobs (nats) are those of sampling time. An
    expert's row was not sampled: it has no behaviour logprobs, and its advantage is not read.
    `token_advantages`, also aligned, replace `advantage` if the tokens of the row differ in theirs.
    `pictures`: those that the row shows, with places counted from the first token of the prompt.
    """

    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    action_mask: tuple[int, ...]
    behaviour_logprobs: tuple[float, ...]
    advantage: float
    kind: str = USUAL
    token_advantages: tuple[float, ...] | None = None
    pictures: tuple[ShownPicture, ...] = ()

    def __post_init__(self) -> None:
        if self.is_expert and not self.behaviour_logprobs:
            object.__setattr__(self, "behaviour_logprobs", (0.0,) * len(self.completion_ids))
        lengths = {len(self.completion_ids), len(self.action_mask), len(self.behaviour_logprobs)}
        lengths |= set() if self.token_advantages is None else {len(self.token_advantages)}
        if len(lengths) != 1 or not self.prompt_ids or not self.completion_ids:
            raise ValueError(
                f"a row needs a prompt and aligned completion fields; lengths are {sorted(lengths)}"
            )

    @property
    def is_expert(self) -> bool:
        return self.kind == EXPERT


@dataclass(frozen=True)
class Windows:
    """Totals by which the usual and the expert loss are divided, without filler rows."""

    usual: Window
    expert: Window

    @classmethod
    def of(cls, rows: Sequence[Row], width: int) -> "Windows":
        return cls(
            usual=_window([row for row in rows if not row.is_expert], width),
            expert=_window([row for row in rows if row.is_expert], width),
        )


def collate(rows: Sequence[Row], pad_id: int, divisible_by: int = 1) -> dict[str, torch.Tensor]:
    """Return the batch under the names that TRL's `_compute_loss` reads.

    B is a multiple of `divisible_by`. Always present:

    - prompt_ids, prompt_mask (B, P) and completion_ids, completion_mask (B, C), int64;
    - advantages (B,) and old_per_token_logps (B, C), float32;
    - num_items_in_batch, 0-dim: the usual rows' tokens in the loss.

    Present only if needed:

    - tool_mask (B, C) int64: 0 for tokens that the policy did not choose and for filler rows;
    - is_expert (B,) bool: if there is an expert's row;
    - token_advantages (B, C) float32: if the tokens of a row differ in their advantages;
    - row (B,) int64: index among the filled rows, if a row shows a picture.

    Raises ValueError for an empty batch.
    """
    if not rows:
        raise ValueError("a step needs at least one row")
    filled = fill_micro_batches(rows, divisible_by)
    prompts = [row.prompt_ids for row in filled]
    completions = [row.completion_ids for row in filled]
    completion_mask = _right([[1] * len(ids) for ids in completions], 0, torch.long)
    actions = _right([row.action_mask for row in filled], 0, torch.long)
    logprobs = _right([row.behaviour_logprobs for row in filled], 0.0, torch.float32)
    is_expert = torch.tensor([row.is_expert for row in filled])
    batch = {
        "prompt_ids": _left_padded(prompts, pad_id),
        "prompt_mask": _left_padded([[1] * len(ids) for ids in prompts], 0),
        "completion_ids": _right(completions, pad_id, torch.long),
        "completion_mask": completion_mask,
        "advantages": torch.tensor(
            [0.0 if row.is_expert else row.advantage for row in filled], dtype=torch.float32
        ),
        # At tokens that the policy did not choose, the stored value is no logprob and may be NaN,
        # and 0 × NaN is NaN.
        "old_per_token_logps": logprobs.masked_fill((actions == 0) | is_expert[:, None], 0.0),
        "num_items_in_batch": actions[~is_expert].sum(),
    }
    if not torch.equal(actions, completion_mask):
        batch["tool_mask"] = actions
    if is_expert.any():
        batch["is_expert"] = is_expert
    if any(row.token_advantages for row in filled):
        batch["token_advantages"] = _right([_per_token(row) for row in filled], 0.0, torch.float32)
    if any(row.pictures for row in filled):
        batch["row"] = torch.arange(len(filled))
    return batch


def _per_token(row: Row) -> Sequence[float]:
    return row.token_advantages or [row.advantage] * len(row.completion_ids)


def fill_micro_batches(rows: Sequence[Row], divisible_by: int) -> list[Row]:
    """Add copies of the first row, outside the loss, until all micro-batches have the same size.

    Raises ValueError if there are no rows.
    """
    if not rows:
        raise ValueError("a step needs at least one row")
    silent = replace(
        rows[0],
        action_mask=(0,) * len(rows[0].completion_ids),
        advantage=0.0,
        token_advantages=None,
    )
    return [*rows, *[silent] * (-len(rows) % divisible_by)]


def choose_rank_rows(rows: Sequence[Row], rank: int, ranks: int, divisible_by: int) -> list[Row]:
    """Return the rows of one rank: the same number for all ranks, and a multiple of `divisible_by`.

    Neighbours stay together, so that answers to one prompt share its beginning in a forward pass.
    """
    filled = fill_micro_batches(rows, ranks * divisible_by)
    rows_per_rank = len(filled) // ranks
    return filled[rank * rows_per_rank : (rank + 1) * rows_per_rank]


def _window(rows: Sequence[Row], width: int) -> Window:
    """Return the totals of a set of rows; a row without tokens by the policy is not counted."""
    chosen = [sum(map(bool, row.action_mask)) for row in rows]
    return Window(rows=sum(map(bool, chosen)), tokens=sum(chosen), width=width)


def _left_padded(lists: Sequence[Sequence[int]], value: int) -> torch.Tensor:
    width = max(map(len, lists))
    return torch.tensor(
        [[value] * (width - len(items)) + list(items) for items in lists], dtype=torch.long
    )


def _right(lists: Sequence[Sequence[float]], value: float, dtype: torch.dtype) -> torch.Tensor:
    width = max(map(len, lists))
    return torch.tensor(
        [list(items) + [value] * (width - len(items)) for items in lists], dtype=dtype
    )
