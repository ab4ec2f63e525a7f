"""Lessons are split into micro-batches without loss, with pairs together; the reward model's loss
matches a slow version.
"""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from workers.trainer.lessons import rows
from workers.trainer.lessons.lesson_trainer import forward_passes
from workers.trainer.lessons.objective import bradley_terry
from workers.trainer.spec import Loss, Objective, TrainerSpec

ids = st.lists(st.integers(3, 9), min_size=1, max_size=5)
answers = st.builds(rows.build_lesson_row, ids, ids)
pairs = st.lists(
    st.builds(rows.Pair, answers, answers, st.none() | st.floats(0, 3)), min_size=1, max_size=9
)
thumbs = st.lists(st.builds(rows.JudgedAnswer, answers, st.booleans()), min_size=1, max_size=9)


@given(pairs | thumbs, st.none() | st.integers(1, 20))
def test_cutting_loses_no_lesson_and_keeps_the_order(lessons, micro):
    parts = rows.cut(lessons, micro)
    assert [lesson for part in parts for lesson in part] == lessons
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    if micro is not None:
        assert max(len(part) * len(part[0].rows) for part in parts) <= max(
            micro, len(lessons[0].rows)
        )


@given(
    st.integers(2, 40),
    st.none() | st.integers(1, 50),
    st.sampled_from(["dpo", "kto", "bradley_terry"]),
)
def test_number_of_parts_matches_the_planned_forward_passes(count, micro, name):
    spec = TrainerSpec(
        "p", "o", 1, count, objective=Objective(loss=Loss(name)), micro_batch_rows=micro
    )
    answer = rows.build_lesson_row([3], [4])
    lesson = rows.JudgedAnswer(answer, True) if name == "kto" else rows.Pair(answer, answer)
    assert len(rows.cut([lesson] * count, micro)) == forward_passes(spec)


@given(pairs)
def test_chosen_and_rejected_rows_alternate(lessons):
    batch = rows.tensors(lessons, pad_id=0)
    said = [
        ids[mask.bool()].tolist()
        for ids, mask in zip(batch["completion_ids"], batch["completion_mask"], strict=True)
    ]
    assert said == [
        list(row.completion_ids) for lesson in lessons for row in (lesson.chosen, lesson.rejected)
    ]
    assert [None if math.isnan(margin) else margin for margin in batch["margins"].tolist()] == [
        None if lesson.margin is None else pytest.approx(lesson.margin, rel=1e-6)
        for lesson in lessons
    ]


@given(thumbs)
def test_each_answer_is_combined_with_another_prompt_once(lessons):
    mixed = rows.mismatched(lessons)
    assert [m.answer.prompt_ids for m in mixed] == [lesson.answer.prompt_ids for lesson in lessons]
    told = [lesson.answer.completion_ids for lesson in lessons]
    assert [m.answer.completion_ids for m in mixed] == told[1:] + told[:1]


def test_answer_to_another_prompt_is_cut_to_the_context():
    long_prompt = rows.JudgedAnswer(rows.build_lesson_row([3] * 9, [4]), True)
    long_answer = rows.JudgedAnswer(rows.build_lesson_row([3], [4] * 9), True)
    first, second = rows.mismatched([long_prompt, long_answer], context=10)
    assert (len(first.answer.prompt_ids), len(first.answer.completion_ids)) == (9, 1)
    assert (len(second.answer.prompt_ids), len(second.answer.completion_ids)) == (1, 1)


@given(pairs)
def test_joined_text_is_prompt_and_answer_without_padding_between(lessons):
    batch = rows.tensors(lessons, pad_id=0)
    texts, attention = rows.join_prompt_and_completion(batch, pad_id=0)
    found = [text[seen.bool()].tolist() for text, seen in zip(texts, attention, strict=True)]
    assert found == [
        [*row.prompt_ids, *row.completion_ids] for lesson in lessons for row in lesson.rows
    ]
    assert (texts[attention == 0] == 0).all()


@given(
    st.lists(
        st.tuples(st.floats(-30, 30), st.floats(-30, 30), st.none() | st.floats(0, 5)),
        min_size=1,
        max_size=8,
    )
)
def test_bradley_terry_matches_the_formula_with_margins(said):
    scores = torch.tensor(
        [score for chosen, rejected, _ in said for score in (chosen, rejected)], dtype=torch.float64
    )
    margins = torch.tensor(
        [math.nan if margin is None else margin for _, _, margin in said], dtype=torch.float64
    )
    slow = [
        math.log1p(math.exp(-(chosen - rejected - (margin or 0.0))))
        for chosen, rejected, margin in said
    ]
    assert bradley_terry(scores, margins).values.tolist() == pytest.approx(
        slow, rel=1e-9, abs=1e-12
    )


def test_incomplete_pair_is_refused():
    with pytest.raises(ValueError, match="learns from pairs"):
        bradley_terry(torch.zeros(3), torch.zeros(1))
