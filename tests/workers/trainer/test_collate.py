"""Rows are converted to tensors without loss or extra values."""

import math

import pytest
import torch

from tests.workers.trainer.batches import experts, rows
from workers.trainer.collate import Row, Windows, collate, fill_micro_batches

PAD = 99


def slow(batch: list[Row]) -> dict[str, list]:
    """Return the batch as nested lists, built element by element."""
    longest_prompt = max(len(row.prompt_ids) for row in batch)
    longest = max(len(row.completion_ids) for row in batch)
    names = (
        "prompt_ids",
        "prompt_mask",
        "completion_ids",
        "completion_mask",
        "tool_mask",
        "old_per_token_logps",
    )
    wanted = {name: [] for name in names}
    for row in batch:
        gap = longest_prompt - len(row.prompt_ids)
        wanted["prompt_ids"].append(
            [PAD if p < gap else row.prompt_ids[p - gap] for p in range(longest_prompt)]
        )
        wanted["prompt_mask"].append([0 if p < gap else 1 for p in range(longest_prompt)])
        said = [c < len(row.completion_ids) for c in range(longest)]
        wanted["completion_ids"].append(
            [row.completion_ids[c] if said[c] else PAD for c in range(longest)]
        )
        wanted["completion_mask"].append([int(s) for s in said])
        chosen = [said[c] and row.action_mask[c] == 1 for c in range(longest)]
        wanted["tool_mask"].append([int(c) for c in chosen])
        wanted["old_per_token_logps"].append(
            [row.behaviour_logprobs[c] if chosen[c] else 0.0 for c in range(longest)]
        )
    return wanted


@pytest.mark.parametrize("seed", range(5))
def test_collate_matches_the_slow_version(seed):
    batch = rows(seed, tokens_of_tools=True)
    tensors = collate(batch, PAD)
    for name, values in slow(batch).items():
        assert torch.equal(tensors[name], torch.tensor(values, dtype=tensors[name].dtype)), name
    assert tensors["advantages"].tolist() == pytest.approx([row.advantage for row in batch])
    assert tensors["num_items_in_batch"].ndim == 0


def test_tool_mask_is_omitted_when_the_policy_chose_every_token():
    assert "tool_mask" not in collate(rows(1), PAD)


def test_a_fill_row_is_outside_the_loss():
    batch = rows(1, count=7)
    tensors = collate(batch, PAD, divisible_by=4)
    assert tensors["prompt_ids"].size(0) == 8
    assert tensors["tool_mask"][7].sum() == 0
    assert tensors["advantages"][7] == 0
    assert tensors["num_items_in_batch"] == sum(len(row.completion_ids) for row in batch)


def test_even_batch_gets_no_fill_rows():
    batch = rows(1, count=8)
    assert fill_micro_batches(batch, 4) == batch


def test_fill_rows_are_not_counted_in_windows():
    batch = rows(1, count=6)
    assert len(fill_micro_batches(batch, 4)) == 8
    windows = Windows.of(batch, width=9)
    assert (windows.usual.rows, windows.usual.width, windows.expert.rows) == (6, 9, 0)


def test_usual_and_expert_rows_have_separate_totals():
    batch = [*rows(1, 5, tokens_of_tools=True), *experts(2, 3)]
    windows = Windows.of(batch, width=9)
    assert (windows.usual.rows, windows.usual.tokens) == (
        5,
        sum(sum(row.action_mask) for row in batch[:5]),
    )
    assert (windows.expert.rows, windows.expert.tokens) == (
        3,
        sum(sum(row.action_mask) for row in batch[5:]),
    )


def test_expert_row_has_zero_logprobs_and_advantage():
    tensors = collate([*rows(1, 2), *experts(2, 1, advantage=7.0, behaviour_logprobs=())], PAD)
    assert tensors["is_expert"].tolist() == [False, False, True]
    assert tensors["advantages"][2] == 0
    assert not tensors["old_per_token_logps"][2].any()
    assert tensors["num_items_in_batch"] == sum(len(row.completion_ids) for row in rows(1, 2))


def test_expert_mask_is_omitted_without_expert_rows():
    assert "is_expert" not in collate(rows(1), PAD)


def test_nan_at_a_tool_token_is_removed():
    row = Row((1, 2), (3, 4), (1, 0), (-0.5, math.nan), 1.0)
    assert collate([row], PAD)["old_per_token_logps"].isfinite().all()


def test_unaligned_fields_are_refused():
    with pytest.raises(ValueError, match="aligned"):
        Row((1,), (2, 3), (1, 1), (-0.5,), 1.0)


def test_an_empty_batch_is_refused():
    with pytest.raises(ValueError, match="at least one row"):
        collate([], PAD)
