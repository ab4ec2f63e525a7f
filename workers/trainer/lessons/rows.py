"""Convert lessons to the tensors of a step.

Pure: no model, no randomness, no device. A pair is two rows, chosen then rejected; a thumb is one.
Shapes: B rows, P longest prompt, C longest completion.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import torch

from workers.trainer.collate import EXPERT, Row, collate


@dataclass(frozen=True)
class Pair:
    """Two answers to one prompt; `margin` in units of the score, None if none was given."""

    chosen: Row
    rejected: Row
    margin: float | None = None

    @property
    def rows(self) -> tuple[Row, ...]:
        return self.chosen, self.rejected


@dataclass(frozen=True)
class JudgedAnswer:
    """One answer, and whether it is good."""

    answer: Row
    is_up: bool

    @property
    def rows(self) -> tuple[Row, ...]:
        return (self.answer,)


Lesson = Pair | JudgedAnswer


def build_lesson_row(prompt_ids: Sequence[int], completion_ids: Sequence[int]) -> Row:
    """Return an answer that was not sampled as a row: all of its tokens are in the loss."""
    length = len(completion_ids)
    return Row(
        tuple(prompt_ids), tuple(completion_ids), (1,) * length, (0.0,) * length, 0.0, EXPERT
    )


def cut(lessons: Sequence[Lesson], micro_batch_rows: int | None) -> list[list[Lesson]]:
    """Split lessons, in order, into as many parts as forward passes are needed.

    A pair stays together. The sizes of the parts differ by at most one.
    """
    rows_each = len(lessons[0].rows)
    rows_at_once = micro_batch_rows or rows_each * len(lessons)
    lessons_at_once = max(1, rows_at_once // rows_each)
    parts = passes(len(lessons), lessons_at_once)
    size, larger = divmod(len(lessons), parts)
    starts = [n * size + min(n, larger) for n in range(parts + 1)]
    return [list(lessons[a:b]) for a, b in pairwise(starts)]


def choose_rank_lessons(lessons: Sequence[Lesson], rank: int, ranks: int) -> list[Lesson]:
    """Return the lessons of one rank.

    Raises ValueError if ranks would get different numbers of them.
    """
    lessons_per_rank, over = divmod(len(lessons), ranks)
    if over:
        raise ValueError(
            f"{len(lessons)} lessons cannot be divided equally among {ranks} processes"
        )
    return list(lessons[rank * lessons_per_rank : (rank + 1) * lessons_per_rank])


def passes(lessons: int, max_lessons: int) -> int:
    """Return how many micro-batches of at most `max_lessons` lessons make the step."""
    return -(-lessons // max_lessons)


def tensors(lessons: Sequence[Lesson], pad_id: int) -> dict[str, torch.Tensor]:
    """Return the inputs of `forward.score`, (B, P) and (B, C), with the labels of the lessons.

    The labels are `liked` (B,) bool or `margins` (B/2,) float32, NaN where no margin was given.
    """
    batch = collate([row for lesson in lessons for row in lesson.rows], pad_id)
    inputs = {
        name: batch[name]
        for name in ("prompt_ids", "prompt_mask", "completion_ids", "completion_mask")
    }
    judged = [lesson for lesson in lessons if isinstance(lesson, JudgedAnswer)]
    if judged:
        return {**inputs, "liked": torch.tensor([lesson.is_up for lesson in judged])}
    pairs = [lesson for lesson in lessons if isinstance(lesson, Pair)]
    margins = [float("nan") if pair.margin is None else pair.margin for pair in pairs]
    return {**inputs, "margins": torch.tensor(margins, dtype=torch.float32)}


def mismatched(lessons: Sequence[Lesson], context: int | None = None) -> list[JudgedAnswer]:
    """Return every prompt with the next lesson's answer, and the last one with the first answer.

    KTO estimates from them how far the policy has moved in general. Only judged answers count.
    Answers are cut to the model's `context`, which a long prompt and another's long answer exceed
    together.
    """
    judged = [lesson for lesson in lessons if isinstance(lesson, JudgedAnswer)]
    answers = [lesson.answer for lesson in judged]
    return [
        replace(lesson, answer=_mismatched_row(lesson.answer, next_answer, context))
        for lesson, next_answer in zip(judged, answers[1:] + answers[:1], strict=True)
    ]


def _mismatched_row(own: Row, other: Row, context: int | None) -> Row:
    """Return the prompt of `own` with the answer of `other`, as far as the context has room."""
    room = None if context is None else max(1, context - len(own.prompt_ids))
    return build_lesson_row(own.prompt_ids, other.completion_ids[:room])


def join_prompt_and_completion(
    batch: dict[str, torch.Tensor], pad_id: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return prompt and completion as one right-padded text, for models that score texts.

    The result is ids and attention mask, both (B, T).
    """
    texts = [
        torch.cat([prompt[mask.bool()], completion[completion_mask.bool()]])
        for prompt, mask, completion, completion_mask in zip(
            batch["prompt_ids"],
            batch["prompt_mask"],
            batch["completion_ids"],
            batch["completion_mask"],
            strict=True,
        )
    ]
    ids = torch.nn.utils.rnn.pad_sequence(texts, batch_first=True, padding_value=pad_id)
    lengths = torch.tensor([len(text) for text in texts], device=ids.device)
    return ids, (torch.arange(ids.size(1), device=ids.device)[None] < lengths[:, None]).long()
