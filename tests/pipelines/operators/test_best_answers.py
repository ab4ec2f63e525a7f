"""Best answers alone: which one of each group becomes an expert row, and which never does."""

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


def test_the_configuration_knows_who_makes_expert_rows():
    assert set(MAKE_EXPERTS) <= set(operator_names()) and {
        find_operator(name).family for name in MAKE_EXPERTS
    } == {"synthesize"}


def test_of_each_group_the_best_is_made_a_row_with_why():
    rows = made([*group(0.0, 1.0, 0.5, 0.5), *group(1.0, 0.0, number=2, first=10)])
    assert [(row.of.rollout, row.number) for row in rows] == [(1, 1), (10, 1)]
    assert rows[0].reason == "the reward 1 is the best of 4; their mean is 0.5"


@pytest.mark.parametrize("rewards", [(1.0, 1.0), (1.0,), (0.9, 0.0)])
def test_what_is_no_better_than_the_mean_or_not_all_right_is_none(rewards):
    assert made(group(*rewards)) == []


def test_a_threshold_takes_the_place_of_the_full_reward():
    assert [row.of.rollout for row in made(group(0.9, 0.0), threshold=0.9)] == [0]
    assert made(group(2.0, 0.0), threshold=2.5) == []
    assert [row.of.rollout for row in made(group(2.0, 1.0, full=2.0))] == [0]


def test_an_answer_that_was_cut_or_is_masked_is_none():
    cut = group(1.0, 1.0, 0.0)[:2]
    whole = group(0.0, first=5)
    cut[0] = Sample(0, 1, "cut", 1.0, stop_reason="length")
    assert [row.of.rollout for row in made([*cut, *whole])] == [1]
    masked = [
        Sample(0, 1, "masked", 1.0, silent="truncated at the maximum length"),
        *group(0.5, 0.0, first=1),
    ]
    assert made(masked) == []


def test_a_task_gets_so_many_and_no_text_twice():
    task = Imitated(7, {1: "answer 0"})
    assert [(row.of.rollout, row.number) for row in made(group(1.0, 1.0, 0.0, imitated=task))] == [
        (1, 2)
    ]
    assert made(group(1.0, 0.0, first=4, imitated=task), most=1) == []
    assert made(group(1.0, 0.0, imitated=task)) == []


def test_groups_of_one_task_that_come_together_share_its_room():
    rows = made(
        [
            *group(1.0, 0.0, imitated=Imitated(7)),
            *group(1.0, 0.0, number=2, first=4, imitated=Imitated(7)),
        ],
        most=1,
    )
    assert [row.of.rollout for row in rows] == [0]
    said_alike = [
        *group(1.0, 0.0, text="the same"),
        *group(1.0, 0.0, number=2, first=4, text="the same"),
    ]
    assert len(made([Sample(**{**vars(one), "imitated": Imitated(7)}) for one in said_alike])) == 1


def test_a_number_that_is_free_is_taken_first():
    assert [
        row.number for row in made(group(1.0, 0.0, imitated=Imitated(7, {1: "a", 3: "b"})))
    ] == [2]
