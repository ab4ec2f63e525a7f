"""Lessons → the tensors of an update. Pure: no model, no randomness, no device.

A pair is two rows, chosen then rejected; a thumb is one. Shapes: B rows, P longest prompt, C longest completion.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import torch

from workers.trainer.collate import EXPERT, Row, collate


@dataclass(frozen=True)
class Pair:
    """Two answers to one prompt; `margin` in units of the score, None where nobody said one."""

    chosen: Row
    rejected: Row
    margin: float | None = None

    @property
    def rows(self) -> tuple[Row, ...]:
        return self.chosen, self.rejected


@dataclass(frozen=True)
class Judged:
    """One answer and whether it is good."""

    answer: Row
    is_up: bool

    @property
    def rows(self) -> tuple[Row, ...]:
        return (self.answer,)


Lesson = Pair | Judged


def row(prompt_ids: Sequence[int], completion_ids: Sequence[int]) -> Row:
    """An answer that nobody sampled: every token of it is in the loss."""
    length = len(completion_ids)
    return Row(tuple(prompt_ids), tuple(completion_ids), (1,) * length, (0.0,) * length, 0.0, EXPERT)


def cut(lessons: Sequence[Lesson], micro_batch_rows: int | None) -> list[list[Lesson]]:
    """Lessons in order, in as many parts as forward passes are needed; a pair stays together. Sizes differ by one at most."""
    each = len(lessons[0].rows)
    most = max(1, (micro_batch_rows or each * len(lessons)) // each)
    parts = passes(len(lessons), most)
    size, larger = divmod(len(lessons), parts)
    starts = [n * size + min(n, larger) for n in range(parts + 1)]
    return [list(lessons[a:b]) for a, b in pairwise(starts)]


def passes(lessons: int, most: int) -> int:
    """How many parts of at most so many lessons make the update."""
    return -(-lessons // most)


def tensors(lessons: Sequence[Lesson], pad_id: int) -> dict[str, torch.Tensor]:
    """What `forward.score` reads, (B, P) and (B, C), with `liked` (B,) bool or `margins` (B/2,) float32 (NaN: not said)."""
    batch = collate([row for lesson in lessons for row in lesson.rows], pad_id)
    kept = {name: batch[name] for name in ("prompt_ids", "prompt_mask", "completion_ids", "completion_mask")}
    if isinstance(lessons[0], Judged):
        return {**kept, "liked": torch.tensor([lesson.is_up for lesson in lessons])}
    margins = [float("nan") if lesson.margin is None else lesson.margin for lesson in lessons]
    return {**kept, "margins": torch.tensor(margins, dtype=torch.float32)}


def mismatched(lessons: Sequence[Judged]) -> list[Judged]:
    """Every prompt with the answer of the lesson behind it (the last with the first's): KTO's view of the policy at large."""
    answers = [lesson.answer for lesson in lessons]
    return [
        replace(lesson, answer=row(lesson.answer.prompt_ids, other.completion_ids))
        for lesson, other in zip(lessons, answers[1:] + answers[:1], strict=True)
    ]


def whole(batch: dict[str, torch.Tensor], pad_id: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Prompt and completion as one right-padded text: ids and attention mask, both (B, T), for models that score texts."""
    texts = [
        torch.cat([prompt[mask.bool()], completion[seen.bool()]])
        for prompt, mask, completion, seen in zip(
            batch["prompt_ids"], batch["prompt_mask"], batch["completion_ids"], batch["completion_mask"], strict=True
        )
    ]
    ids = torch.nn.utils.rnn.pad_sequence(texts, batch_first=True, padding_value=pad_id)
    lengths = torch.tensor([len(text) for text in texts], device=ids.device)
    return ids, (torch.arange(ids.size(1), device=ids.device)[None] < lengths[:, None]).long()
