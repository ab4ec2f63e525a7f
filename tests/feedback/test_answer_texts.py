"""Answers in words: letters stand for rollouts in the order of their ids, whatever order the rater
saw.
"""

import pytest

from apps.feedback.answer_texts import rating_in_words, reorder_answer
from apps.feedback.models import Rating


@pytest.mark.parametrize(("shown", "words"), [([7, 9], "A better"), ([9, 7], "B better")])
def test_pair_shown_in_reverse_order_has_the_same_text(shown, words):
    assert rating_in_words(Rating(form="pairwise", answer={"preference": -2}, shown=shown)) == words


def test_only_a_preference_depends_on_the_order():
    assert reorder_answer("ranking", {"ranks": {"7": 1, "9": 2}}, [9, 7], [7, 9]) == {
        "ranks": {"7": 1, "9": 2}
    }
    assert reorder_answer("pairwise", {"both_bad": True}, [9, 7], [7, 9]) == {"both_bad": True}
