"""The value of an answer, from 0 to 1, computed by hand; properties that hold for every answer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.feedback.forms import FORMS
from apps.runs.people import People

PEOPLE = People(
    form="rubric",
    rubric=[
        {"name": "polite", "low": 1, "high": 5},
        {"name": "right", "low": 0, "high": 1, "weight": 3},
    ],
)


def values(form, answer, shown, people=PEOPLE):
    return FORMS[form].values(answer, shown, people)


@pytest.mark.parametrize(
    ("form", "shown", "answer", "worth"),
    [
        ("thumbs", [7], {"up": True}, {7: 1.0}),
        ("thumbs", [7], {"up": False}, {7: 0.0}),
        ("stars", [7], {"stars": 1}, {7: 0.0}),
        ("stars", [7], {"stars": 4}, {7: 0.75}),
        ("stars", [7], {"stars": 5}, {7: 1.0}),
        ("pairwise", [7, 3], {"preference": -3}, {7: 1.0, 3: 0.0}),
        ("pairwise", [7, 3], {"preference": 1}, {7: pytest.approx(1 / 3), 3: pytest.approx(2 / 3)}),
        ("pairwise", [7, 3], {"preference": 0}, {7: 0.5, 3: 0.5}),
        ("pairwise", [7, 3], {"both_bad": True}, {7: 0.0, 3: 0.0}),
        ("ranking", [7, 3, 5], {"ranks": {"7": 1, "3": 2, "5": 3}}, {7: 1.0, 3: 0.5, 5: 0.0}),
        ("ranking", [7, 3, 5], {"ranks": {"7": 1, "3": 1, "5": 2}}, {7: 0.75, 3: 0.75, 5: 0.0}),
        ("ranking", [7, 3, 5], {"ranks": {"7": 1, "3": 1, "5": 1}}, {7: 0.5, 3: 0.5, 5: 0.5}),
        ("best_worst", [7, 3, 5], {"best": 5, "worst": 7}, {7: 0.0, 3: 0.5, 5: 1.0}),
        # (1 × (4 − 1) / 4 + 3 × 1) / 4
        ("rubric", [7], {"scales": {"polite": 4, "right": 1}}, {7: 0.9375}),
        ("turns", [7], {"marks": {"0": 1, "1": 0, "4": -1}}, {7: 0.5}),
        ("turns", [7], {"marks": {"0": 1, "1": 1, "2": 0}}, {7: pytest.approx(5 / 6)}),
        ("turns", [7], {"first_error": 0, "of": 4}, {7: 0.0}),
        ("turns", [7], {"first_error": 3, "of": 4}, {7: 0.75}),
        ("turns", [7], {"first_error": None, "of": 4}, {7: 1.0}),
        ("spans", [7], {"spans": [{"start": 0, "end": 1, "note": ""}]}, {}),
        ("critique", [7], {}, {}),
        ("rewrite", [7], {"text": "better"}, {}),
        ("flag", [7], {"reason": "empty"}, {}),
    ],
)
def test_answer_has_the_expected_value(form, shown, answer, worth):
    assert values(form, answer, shown) == worth


def test_scale_missing_from_the_plan_is_ignored():
    plan = People(form="rubric", rubric=[{"name": "right", "low": 0, "high": 1}])
    assert values("rubric", {"scales": {"polite": 4, "right": 1}}, [7], plan) == {7: 1.0}
    assert values("rubric", {"scales": {"polite": 4}}, [7], plan) == {}


@given(st.lists(st.integers(1, 8), min_size=2, max_size=8))
def test_every_ranking_has_the_same_sum_and_keeps_its_order(ranks):
    shown = list(range(100, 100 + len(ranks)))
    highest = len(ranks)
    raw = {
        "ranks": {
            str(rollout): min(rank, highest) for rollout, rank in zip(shown, ranks, strict=True)
        }
    }
    answer = FORMS["ranking"].parse(raw, shown, PEOPLE)
    worth = values("ranking", answer, shown)
    assert sum(worth.values()) == pytest.approx(len(ranks) / 2)
    assert all(0 <= value <= 1 for value in worth.values())
    for one in shown:
        for other in shown:
            assert (raw["ranks"][str(one)] < raw["ranks"][str(other)]) == (
                worth[one] > worth[other]
            )


@given(st.integers(-3, 3))
def test_swapping_sides_and_sign_gives_the_same_values(preference):
    assert values("pairwise", {"preference": preference}, [7, 3]) == values(
        "pairwise", {"preference": -preference}, [3, 7]
    )
