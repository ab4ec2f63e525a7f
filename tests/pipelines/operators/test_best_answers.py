"""The operator best_answers: which reply of each group becomes an expert row, and which never."""

import pytest

from apps.pipelines.operators import find_operator, operator_names
from apps.pipelines.operators.contract import Imitated, Made, Sample
from apps.runs.pipeline import MAKE_EXPERTS


def made(samples: list[Sample], **options: object) -> list[Made]:
    operator = find_operator("best_answers")
    said = operator.call(samples, operator.read_options(options))
    assert said.kept == samples and not said.reasons
    return list(said.made)


def group(*rewards: float, number: int = 1, first: int = 0, **known: object) -> list[Sample]:
    return [
        Sample(
            **{
                "rollout": first + n,
                "group": number,
                "text": f"answer {first + n}",
                "reward": reward,
                **known,
            }
        )
        for n, reward in enumerate(rewards)
    ]


def test_make_experts_contains_only_operators_of_the_synthesize_family():
    assert set(MAKE_EXPERTS) <= set(operator_names()) and {
        find_operator(name).family for name in MAKE_EXPERTS
    } == {"synthesize"}


def test_best_reply_of_each_group_becomes_a_row_with_the_reason():
    rows = made([*group(0.0, 1.0, 0.5, 0.5), *group(1.0, 0.0, number=2, first=10)])
    assert [(row.of.rollout, row.number) for row in rows] == [(1, 1), (10, 1)]
    assert rows[0].reason == "the reward 1 is the best of 4; their mean is 0.5"


@pytest.mark.parametrize("rewards", [(1.0, 1.0), (1.0,), (0.9, 0.0)])
def test_reply_that_is_not_above_the_mean_or_not_fully_right_becomes_no_row(rewards):
    assert made(group(*rewards)) == []


def test_threshold_replaces_the_full_reward():
    assert [row.of.rollout for row in made(group(0.9, 0.0), threshold=0.9)] == [0]
    assert made(group(2.0, 0.0), threshold=2.5) == []
    assert [row.of.rollout for row in made(group(2.0, 1.0, full=2.0))] == [0]


def test_truncated_or_masked_reply_becomes_no_row():
    cut = group(1.0, 1.0, 0.0)[:2]
    whole = group(0.0, first=5)
    cut[0] = Sample(0, 1, "cut", 1.0, stop_reason="length")
    assert [row.of.rollout for row in made([*cut, *whole])] == [1]
    masked = [
        Sample(0, 1, "masked", 1.0, silent="truncated at the maximum length"),
        *group(0.5, 0.0, first=1),
    ]
    assert made(masked) == []


def test_task_gets_at_most_the_set_number_of_rows_and_no_text_twice():
    task = Imitated(7, {1: "answer 0"})
    assert [(row.of.rollout, row.number) for row in made(group(1.0, 1.0, 0.0, imitated=task))] == [
        (1, 2)
    ]
    assert made(group(1.0, 0.0, first=4, imitated=task), max_answers=1) == []
    assert made(group(1.0, 0.0, imitated=task)) == []


def test_groups_of_one_task_in_one_batch_share_its_limit():
    rows = made(
        [
            *group(1.0, 0.0, imitated=Imitated(7)),
            *group(1.0, 0.0, number=2, first=4, imitated=Imitated(7)),
        ],
        max_answers=1,
    )
    assert [row.of.rollout for row in rows] == [0]
    said_alike = [
        *group(1.0, 0.0, text="the same"),
        *group(1.0, 0.0, number=2, first=4, text="the same"),
    ]
    assert len(made([Sample(**{**vars(one), "imitated": Imitated(7)}) for one in said_alike])) == 1


def test_lowest_free_number_is_used():
    assert [
        row.number for row in made(group(1.0, 0.0, imitated=Imitated(7, {1: "a", 3: "b"})))
    ] == [2]
